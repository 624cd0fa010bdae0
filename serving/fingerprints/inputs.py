"""Input of a profile: fingerprints and one application, from files or from a request."""

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
from data.fingerprints.validity import FingerprintDecisions, decide
from data.tables.problems import SHOWN, Problems
from features.fingerprints.matrix import EVERY_THREAD, FingerprintTable, Measured, featurize
from serving.fingerprints.schemas import RUNS, Application, IrupRequest, Machine

#: Rates and values that a request may hold.
CELLS = 500_000


@dataclass(frozen=True)
class AskedApplication:
    """One application with the fingerprints of its machines."""

    table: FingerprintTable
    measured: Measured
    decisions: FingerprintDecisions

    @property
    def warnings(self) -> tuple[str, ...]:
        """All of the decisions, a line each."""
        return self._told(sys.maxsize)

    @property
    def briefly(self) -> tuple[str, ...]:
        """The first of the decisions of each kind, and how many more there are."""
        return self._told(SHOWN)

    def _told(self, shown: int) -> tuple[str, ...]:
        told = [line.removeprefix("warning: ") for line in self.decisions.explained(shown)]
        gaps = self.decisions.imputed.groupby("machine")["stressor"].unique()
        for machine, stressors in gaps.head(shown).items():
            named = f"{', '.join(stressors[:shown])}{_more(len(stressors), shown)}"
            told.append(f'imputed on machine "{machine}": {named}')
        if len(gaps) > shown:
            told.append(f"... and gaps of {len(gaps) - shown} more machines")
        return tuple(told)

    def only_fingerprinted(self) -> tuple[NDArray[np.str_], NDArray[np.float64]]:
        """Return the machines without a value, and their rates: geometric means over the repetitions."""
        runs = self.table.runs
        others = runs[~runs["machine"].isin(self.measured.machines)]
        rates = np.exp(np.log(others[list(self.table.columns)]).groupby(others["machine"]).mean())
        return rates.index.to_numpy(str), rates.to_numpy(np.float64)


def read_machines(
    path: Path, *, keep_going: bool = False
) -> tuple[FingerprintTables, tuple[InputError, ...]]:
    """Read fingerprints in any supported format; return them and the skipped errors."""
    if not path.exists():
        raise InputError("no such file or directory", file=path)
    kind = _format(path)
    try:
        reading = fingerprint_formats.read(kind, [path], keep_going=keep_going)
    except InputError as exc:
        raise exc.within(path) from exc
    return reading.tables, reading.skipped


def _format(path: Path) -> str:
    if path.is_file():
        return "tables"
    for kind, known in fingerprint_formats.FORMATS.items():
        if (path / known.sign).is_file():
            return kind
    expected = ", ".join(f"{known.sign} ({kind})" for kind, known in fingerprint_formats.FORMATS.items())
    raise InputError(f"holds no fingerprints; expected one of {expected}, or a CSV file", file=path)


def with_application(tables: FingerprintTables, application: str, measure: ValueColumn) -> FingerprintTables:
    """Return the fingerprints with one application: from a CSV file, or measured along with them."""
    known = sorted(tables.applications["application"].unique())
    if application in known:
        chosen = tables.applications[tables.applications["application"] == application]
    elif Path(application).is_file():
        from data.fingerprints.formats import typed_csv

        named = measure._replace(application=Path(application).stem)
        chosen = typed_csv.read_application(
            Path(application), named, int(tables.machines["repetition"].max())
        )
    else:
        told = "is no file, and no application was measured with these fingerprints"
        if known:
            these = f"{', '.join(known[:SHOWN])}{_more(len(known))}"
            told = f"is neither a file nor an application of these machines: {these}"
        raise InputError(told, place=f'"{application}"')
    return FingerprintTables(tables.machines, chosen.reset_index(drop=True), tables.hosts)


def asked(tables: FingerprintTables, section: Fingerprints) -> AskedApplication:
    """Join the only application of `tables` with the fingerprints that are valid for learning."""
    decisions = decide(tables, section.checks.missing)
    table = featurize(decisions.kept(tables), section.featurize.threads)
    application = str(tables.applications["application"].iloc[0])
    return AskedApplication(table, table.measured(application), decisions)


def _more(number: int, shown: int = SHOWN) -> str:
    return f" and {number - shown} more" if number > shown else ""


def tables_of(request: IrupRequest, problems: Problems) -> FingerprintTables:
    """Return the tables of a request."""
    machines: dict[str, Machine] = {}
    for place, machine in enumerate(request.machines):
        if machines.setdefault(machine.machine, machine) is not machine:
            told = f'machine "{machine.machine}" stands twice; the first counts'
            problems.add(InputError(told, place=f"machines[{place}]"))
    rates, values = list(_rates(machines.values())), list(_values(request.application))
    if len(rates) + len(values) > CELLS:
        problem = f"holds {len(rates) + len(values)} rates and values; expected at most {CELLS}"
        raise InputError(problem, place="body")
    hosts = [
        machine.model_dump(exclude={"rates"}) | {"cpu": machine.cpu or name, "source": "request"}
        for name, machine in machines.items()
    ]
    return FingerprintTables.of_rows(rates, values, hosts).without_flaws(problems)


def _rates(machines: Iterable[Machine]) -> Iterator[dict[str, Any]]:
    for machine in machines:
        for name, repetition, rate in _each(machine.rates):
            yield {
                "machine": machine.machine,
                "stressor": name.removesuffix(EVERY_THREAD),
                "threads": ALL_THREADS if name.endswith(EVERY_THREAD) else 1,
                "repetition": repetition,
                "bogo_ops_per_second": rate,
            }


def _values(application: Application) -> Iterator[dict[str, Any]]:
    """Yield the application's values; their repetitions are those of no fingerprint."""
    about = {"application": application.name, "metric": application.metric, "better": application.better}
    for machine, repetition, value in _each(application.values):
        yield {**about, "machine": machine, "repetition": RUNS + repetition, "value": value}


def _each(named: Mapping[str, Any]) -> Iterator[tuple[str, int, Any]]:
    """Yield each value with its name and repetition; a single one is the first."""
    for name, given in named.items():
        for repetition, value in enumerate(given if isinstance(given, list) else [given], 1):
            yield name, repetition, value
