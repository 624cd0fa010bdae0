"""Input of a profile: fingerprints and one application, from files or a request."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import data.fingerprints.formats as fingerprint_formats
from data.errors import InputError
from data.fingerprints.formats.typed_csv import ValueColumn
from data.fingerprints.params import Fingerprints
from data.fingerprints.tables import ALL_THREADS, FingerprintTables
from data.fingerprints.validity import FingerprintDecisions, decide_validity
from data.tables.problems import SHOWN, Problems
from features.fingerprints.matrix import EVERY_THREAD, FingerprintTable, Measured, fingerprint_matrix
from serving.fingerprints.schemas import RUNS, Application, IrupRequest, Machine

#: Maximal number of rates and values in a request.
CELLS = 500_000


@dataclass(frozen=True)
class RequestedApplication:
    """One application with the fingerprints of its machines, and the decisions on invalid data."""

    table: FingerprintTable
    measured: Measured
    decisions: FingerprintDecisions

    @property
    def warnings(self) -> tuple[str, ...]:
        """All decisions, one per line."""
        return self._decision_lines(sys.maxsize)

    @property
    def first_warnings(self) -> tuple[str, ...]:
        """The first decisions of each kind, and the number of others."""
        return self._decision_lines(SHOWN)

    def _decision_lines(self, shown: int) -> tuple[str, ...]:
        lines = [line.removeprefix("warning: ") for line in self.decisions.explanation_lines(shown)]
        gaps = self.decisions.imputed.groupby("machine")["stressor"].unique()
        for machine, stressors in gaps.head(shown).items():
            named = f"{', '.join(stressors[:shown])}{_number_of_others(len(stressors), shown)}"
            lines.append(f'imputed on machine "{machine}": {named}')
        if len(gaps) > shown:
            lines.append(f"... and gaps of {len(gaps) - shown} more machines")
        return tuple(lines)

    def only_fingerprinted(self) -> tuple[NDArray[np.str_], NDArray[np.float64]]:
        """Return the machines without a value, and their rates (geometric means over repetitions).

        Shapes (n_machines,) and (n_machines, n_stressors).
        """
        runs = self.table.runs
        others = runs[~runs["machine"].isin(self.measured.machines)]
        rates = np.exp(np.log(others[list(self.table.columns)]).groupby(others["machine"]).mean())
        return rates.index.to_numpy(str), rates.to_numpy(np.float64)


def read_machines(
    path: Path, *, keep_going: bool = False
) -> tuple[FingerprintTables, tuple[InputError, ...]]:
    """Return the fingerprints in a file (of CSV) or a directory, and the skipped errors.

    A directory is recognised by the files in it. InputError if it is of no supported format or missing, the
    data cannot be read, and without `keep_going` at the first wrong row.
    """
    if not path.exists():
        raise InputError("no such file or directory", file=path)
    signs = {kind: file_format.sign for kind, file_format in fingerprint_formats.FORMATS.items()}
    kinds = ["tables"] if path.is_file() else [kind for kind in signs if (path / signs[kind]).is_file()]
    if not kinds:
        expected = ", ".join(f"{sign} ({kind})" for kind, sign in signs.items())
        raise InputError(f"holds no fingerprints; expected one of {expected}, or a CSV file", file=path)
    try:
        reading = fingerprint_formats.read(kinds[0], [path], keep_going=keep_going)
    except InputError as exc:
        raise exc.with_file(path) from exc
    return reading.tables, reading.skipped


def with_application(tables: FingerprintTables, application: str, measure: ValueColumn) -> FingerprintTables:
    """Return `tables` with the values of a single application.

    `application` is the name of an application in `tables`, or else the path of a CSV file of values, which
    `measure` describes; the file's name without suffix becomes the application's name. Its machines need not
    be those of `tables`. InputError if `application` is neither a name nor a file, or the file is invalid.
    """
    application_names = sorted(tables.applications["application"].unique())
    if application in application_names:
        chosen = tables.applications[tables.applications["application"] == application]
    elif Path(application).is_file():
        from data.fingerprints.formats import typed_csv

        named = measure._replace(application=Path(application).stem)
        chosen = typed_csv.read_application(
            Path(application), named, int(tables.machines["repetition"].max())
        )
    else:
        problem = "is no file, and no application was measured with these fingerprints"
        if application_names:
            names = (
                f"{', '.join(application_names[:SHOWN])}{_number_of_others(len(application_names), SHOWN)}"
            )
            problem = f"is neither a file nor an application of these machines: {names}"
        raise InputError(problem, place=f'"{application}"')
    return FingerprintTables(tables.machines, chosen.reset_index(drop=True), tables.hosts)


def requested_application(tables: FingerprintTables, section: Fingerprints) -> RequestedApplication:
    """Return the application of `tables`, which must have one only, with valid fingerprints of its machines.

    `section` has the parameters. InputError if fewer than three machines, no stressor or no application
    remains valid.
    """
    decisions = decide_validity(tables, section.checks.max_missing_fraction)
    table = fingerprint_matrix(decisions.select_kept(tables), section.featurize.threads)
    application = str(tables.applications["application"].iloc[0])
    return RequestedApplication(table, table.measurements_of(application), decisions)


def _number_of_others(number: int, shown: int) -> str:
    return f" and {number - shown} more" if number > shown else ""


def tables_of(request: IrupRequest, problems: Problems) -> FingerprintTables:
    """Return the tables of a request without invalid rows, which are added to `problems`.

    Of machines with equal names the first counts; the others are invalid. InputError if the request has more
    than 500,000 rates and values, and at the first invalid row or machine unless ``problems.keep_going``.
    """
    machines: dict[str, Machine] = {}
    for place, machine in enumerate(request.machines):
        if machines.setdefault(machine.machine, machine) is not machine:
            problem = f'machine "{machine.machine}" occurs twice; the first counts'
            problems.add(InputError(problem, place=f"machines[{place}]"))
    rates, values = list(_rate_rows(machines.values())), list(_value_rows(request.application))
    if len(rates) + len(values) > CELLS:
        problem = f"holds {len(rates) + len(values)} rates and values; expected at most {CELLS}"
        raise InputError(problem, place="body")
    hosts = [
        machine.model_dump(exclude={"rates"}) | {"cpu": machine.cpu or name, "source": "request"}
        for name, machine in machines.items()
    ]
    return FingerprintTables.from_rows(rates, values, hosts).without_flaws(problems)


def _rate_rows(machines: Iterable[Machine]) -> Iterator[dict[str, Any]]:
    for machine in machines:
        for name, repetition, rate in _each_repetition(machine.rates):
            yield {
                "machine": machine.machine,
                "stressor": name.removesuffix(EVERY_THREAD),
                "threads": ALL_THREADS if name.endswith(EVERY_THREAD) else 1,
                "repetition": repetition,
                "bogo_ops_per_second": rate,
            }


def _value_rows(application: Application) -> Iterator[dict[str, Any]]:
    """Yield the rows of the application; their repetitions differ from those of fingerprints."""
    about = {"application": application.name, "metric": application.metric, "better": application.better}
    for machine, repetition, value in _each_repetition(application.values):
        yield {**about, "machine": machine, "repetition": RUNS + repetition, "value": value}


def _each_repetition(values_by_name: Mapping[str, Any]) -> Iterator[tuple[str, int, Any]]:
    for name, values in values_by_name.items():
        for repetition, value in enumerate(values if isinstance(values, list) else [values], 1):
            yield name, repetition, value
