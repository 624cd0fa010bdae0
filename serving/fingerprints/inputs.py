"""Input of a profile: fingerprints and one application, from files or a request."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import data.fingerprints.formats as fingerprint_formats
from data.errors import InputError
from data.fingerprints.params import Fingerprints
from data.fingerprints.tables import ALL_THREADS, LARGEST, SMALLEST, FingerprintTables
from data.fingerprints.validity import APART, ENOUGH, FingerprintDecisions, decide_validity
from data.tables.formats import Reading
from data.tables.problems import SHOWN, Problems, shorten_names
from features.fingerprints.matrix import EVERY_THREAD, Measured, fingerprint_matrix, stressor_of
from serving.fingerprints.schemas import RUNS, Application, IrupRequest, Machine

#: Maximal number of rates and values in a request.
CELLS = 500_000
#: Bound of rounding errors of a share.
ROUNDING = 1e-9


@dataclass(frozen=True)
class RequestedApplication:
    """One application with the fingerprints of its machines, and remarks on the data.

    `unmeasured` are the machines without a value, shape (n,), `unmeasured_rates` their rates (geometric means
    over repetitions), shape (n, n_columns); `gaps` are the stressors without a rate by machine. `decisions`
    is None if all data are used.
    """

    measured: Measured
    unmeasured: NDArray[np.str_]
    unmeasured_rates: NDArray[np.float64]
    gaps: Mapping[str, Sequence[str]]
    decisions: FingerprintDecisions | None = None

    def warning_lines(self, shown: int = sys.maxsize) -> list[str]:
        """Return warnings about the data: of excluded and of imputed data, the first `shown` of each kind."""
        decided = [] if self.decisions is None else self.decisions.explanation_lines(shown)
        lines = [line.removeprefix("warning: ") for line in decided]
        for machine, stressors in islice(self.gaps.items(), shown):
            lines.append(f'imputed on machine "{machine}": {shorten_names(stressors, shown)}')
        if len(self.gaps) > shown:
            lines.append(f"... and gaps of {len(self.gaps) - shown} more machines")
        return lines


def read_machines(path: Path, *, keep_going: bool = False) -> Reading[FingerprintTables]:
    """Return the fingerprints (``tables``) in a CSV file or a directory, and errors of ``skipped`` rows.

    The format of a directory is recognised by its files. With `keep_going`, rows with wrong values are
    skipped; else the first is an InputError. InputError also if `path` is missing, has no supported format or
    cannot be read.
    """
    if not path.exists():
        raise InputError("no such file or directory", file=path)
    signs = {kind: file_format.sign for kind, file_format in fingerprint_formats.FORMATS.items()}
    kinds = ["tables"] if path.is_file() else [kind for kind in signs if (path / signs[kind]).is_file()]
    if not kinds:
        expected = ", ".join(f"{sign} ({kind})" for kind, sign in signs.items())
        raise InputError(f"holds no fingerprints; expected one of {expected}, or a CSV file", file=path)
    try:
        return fingerprint_formats.read(kinds[0], [path], keep_going=keep_going)
    except InputError as exc:
        raise exc.with_file(path) from exc


def with_application(
    tables: FingerprintTables, application: str, metric: str | None, better: str | None, problems: Problems
) -> FingerprintTables:
    """Return `tables` with the values of a single application.

    `application` is a name in `tables`, or else the path of a CSV file of values, whose metric and direction
    may be given (None: see `read_application`); the file's stem becomes the name. InputError if it is
    neither, the file is invalid, or a value is beyond the limits of predictions; with
    ``problems.keep_going``, wrong rows are left out and added to `problems`.
    """
    application_names = sorted(tables.applications["application"].unique())
    if application in application_names:
        chosen = tables.applications[tables.applications["application"] == application]
    elif Path(application).is_file():
        from data.fingerprints.formats import typed_csv

        path, beyond = Path(application), int(tables.machines["repetition"].max())
        chosen = typed_csv.read_application(path, path.stem, metric, better, beyond, problems=problems)
    else:
        problem = "is no file, and no application was measured with these fingerprints"
        if application_names:
            names = shorten_names(application_names, SHOWN)
            problem = f"is neither a file nor an application of these machines: {names}"
        raise InputError(problem, place=f'"{application}"')
    values = chosen["value"]
    # others are left out as invalid
    beyond_limits = np.isfinite(values) & (values > 0) & ~values.between(SMALLEST, LARGEST)
    for row in chosen[beyond_limits].itertuples():
        place = f'application "{row.application}" machine "{row.machine}"'
        problem = f"value={row.value:g} is not from {SMALLEST:g} to {LARGEST:g}"
        problems.add(InputError(problem, place=place))
    if beyond_limits.all():
        raise InputError("has no usable value", place=f'application "{application}"')
    return FingerprintTables(tables.machines, chosen[~beyond_limits].reset_index(drop=True), tables.hosts)


def requested_application(tables: FingerprintTables, section: Fingerprints) -> RequestedApplication:
    """Return the only application of `tables`, with valid fingerprints of machines with and without a value.

    Invalid data (by the checks in `section`) is left out. InputError if no stressor or fewer than three
    machines remain valid, or the application lacks too many values, has values on fewer than three of them,
    or only equal values.
    """
    decisions = decide_validity(tables, section.checks.max_missing_fraction)
    table = fingerprint_matrix(decisions.select_kept(tables), section.featurize.threads)
    measured = table.measurements_of(str(tables.applications["application"].iloc[0]))
    others = table.runs[~table.runs["machine"].isin(measured.machines)]
    rates = np.exp(np.log(others[list(table.columns)]).groupby(others["machine"]).mean())
    gaps = decisions.imputed.groupby("machine")["stressor"].unique().to_dict()
    unmeasured = rates.index.to_numpy(str), rates.to_numpy(np.float64)
    return RequestedApplication(measured, *unmeasured, gaps, decisions)


def complete_application(request: IrupRequest, missing: float) -> RequestedApplication | None:
    """Return the application of a request if all its data can be used as it is; else None.

    The result equals that of `requested_application`, without ``decisions``; it saves 80 ms of processor
    time. None if a fingerprint has repetitions, there is too little or too much data, or anything would be
    left out (`missing` is the largest allowed share of missing rates) or need a warning other than of imputed
    rates.
    """
    about, machines = request.application, {machine.machine: machine for machine in request.machines}
    names, measured_names = sorted(machines), sorted(about.values)
    columns = sorted({column for machine in request.machines for column in machine.rates})
    cells = [[machines[name].rates.get(column) for column in columns] for name in names]
    values = [about.values[name] for name in measured_names]
    n_values = [len(value) if isinstance(value, list) else 1 for value in values]
    if (
        min(len(names), len(measured_names)) < ENOUGH
        or len(names) < len(request.machines)
        or not machines.keys() >= about.values.keys()
        or len(names) * len(columns) + sum(n_values) > CELLS
        or list in map(type, chain.from_iterable(cells))
        or not all(map(stressor_of, columns))
        or not all((machine.cpu or name).strip() for name, machine in machines.items())
        or len({machine.stress_ng for machine in request.machines}) > 1
    ):
        return None
    x = np.array(cells, np.float64)
    y = np.hstack(values)
    is_gap, ascending = np.isnan(x), np.sort(y)
    if (
        # shares that equal the limit but for rounding are decided by the tables
        max(is_gap.mean(axis=0).max(), is_gap.mean(axis=1).max()) > missing - ROUNDING
        or (np.nanmin(x, axis=0) == np.nanmax(x, axis=0)).any()
        or ascending[0] == ascending[-1]
        or (ascending[1:] / ascending[:-1]).max() >= APART
    ):
        return None
    row_of = {name: row for row, name in enumerate(names)}
    rows = np.repeat([row_of[name] for name in measured_names], n_values)
    cpus = np.array([machines[name].cpu or name for name in names])
    described = about.name, about.metric, about.better, tuple(columns)
    measured = Measured(*described, x[rows], y, np.array(names)[rows], cpus[rows])
    others = ~np.isin(np.array(names), measured.machines)
    gaps = {
        name: sorted({stressor_of(columns[column]) for column in np.flatnonzero(row)})
        for name, row in zip(names, is_gap, strict=True)
        if row.any()
    }
    return RequestedApplication(measured, np.array(names)[others], np.exp(np.log(x[others])), gaps)


def tables_of(request: IrupRequest, problems: Problems) -> FingerprintTables:
    """Return the tables of a request without invalid rows, whose errors are added to `problems`.

    Of machines with equal names the first counts, the others are errors. InputError if the request has more
    than 500,000 rates and values, and at the first error unless ``problems.keep_going``.
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
