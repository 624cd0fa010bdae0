"""What a profile is asked for: fingerprints and one application, from files or from a request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data import fingerprint_formats, fingerprint_schema
from data.errors import InputError
from data.fingerprint_csv import Measure
from data.fingerprint_flaws import without_flaws
from data.fingerprint_tables import ALL_THREADS, FingerprintTables
from data.fingerprint_validity import Decisions, decide
from data.fingerprints import explained
from data.params import Fingerprints
from data.reading import Problems
from features.fingerprints import EVERY_THREAD, FingerprintTable, Measured, featurize
from serving.irup_schemas import RUNS, IrupRequest

#: What a directory of fingerprints holds, by its format.
_SIGNS = {"tables": "machines.parquet", "quiho": "results.csv", "sparecores": "fingerprint.parquet"}
#: Applications that an error names.
_TOLD = 5
#: Rates and values that a request may hold.
CELLS = 500_000


@dataclass(frozen=True)
class Asked:
    """One application beside the fingerprints of its machines.

    Attributes
    ----------
    table : FingerprintTable
        All machines with a usable fingerprint, and this application's measurements.
    measured : Measured
        The application on those of them that it was measured on.
    warnings : tuple of str
        What was left out and why, and what to know about the fingerprints.
    """

    table: FingerprintTable
    measured: Measured
    warnings: tuple[str, ...]

    def only_fingerprinted(self) -> tuple[NDArray[np.str_], NDArray[np.float64]]:
        """Return the machines without a value, and their rates: geometric means over the repetitions."""
        runs = self.table.runs
        others = runs[~runs["machine"].isin(self.measured.machines)]
        rates = np.exp(np.log(others[list(self.table.columns)]).groupby(others["machine"]).mean())
        return rates.index.to_numpy(str), rates.to_numpy(np.float64)


def read_machines(
    path: Path, *, keep_going: bool = False
) -> tuple[FingerprintTables, tuple[InputError, ...]]:
    """Read fingerprints, whatever their format; return them, and what was skipped.

    Parameters
    ----------
    path : Path
        A directory of Parquet tables, of the paper's CSV files or of Spare Cores' tables; or a CSV file with
        a row per machine and a column per stressor.

    Raises
    ------
    InputError
        If it is none of these, or something in it is wrong and not `keep_going`.
    """
    if not path.exists():
        raise InputError("no such file or directory", file=path)
    reading = fingerprint_formats.read(_format(path), [path], keep_going=keep_going)
    return reading.tables, reading.skipped


def _format(path: Path) -> str:
    if path.is_file():
        return "tables"
    for kind, sign in _SIGNS.items():
        if (path / sign).is_file():
            return kind
    expected = ", ".join(f"{sign} ({kind})" for kind, sign in _SIGNS.items())
    raise InputError(f"holds no fingerprints; expected one of {expected}, or a CSV file", file=path)


def with_application(tables: FingerprintTables, application: str, measure: Measure) -> FingerprintTables:
    """Return the fingerprints beside one application: a CSV file's, or one that was measured with them.

    Parameters
    ----------
    application : str
        A file, or a name within `tables`.
    measure : Measure
        What the file's values are; the application is named for the file.

    Raises
    ------
    InputError
        If it is neither, or the file is wrong.
    """
    known = sorted(tables.applications["application"].unique())
    if application in known:
        chosen = tables.applications[tables.applications["application"] == application]
    elif Path(application).is_file():
        from data import application_csv

        named = measure._replace(application=Path(application).stem)
        chosen = application_csv.read(Path(application), named, int(tables.machines["repetition"].max()))
    else:
        raise InputError(_neither(known), place=f'"{application}"')
    return FingerprintTables(tables.machines, chosen.reset_index(drop=True), tables.hosts)


def _neither(known: list[str]) -> str:
    if not known:
        return "is no file, and no application was measured with these fingerprints"
    more = f" and {len(known) - _TOLD} more" if len(known) > _TOLD else ""
    return f"is neither a file nor an application of these machines: {', '.join(known[:_TOLD])}{more}"


def asked(tables: FingerprintTables, section: Fingerprints) -> Asked:
    """Put the only application of `tables` beside the fingerprints that can be learned from.

    Raises
    ------
    InputError
        If too little is left of the machines, the stressors or the application.
    """
    decisions = decide(tables, section.missing)
    table = featurize(decisions.kept(tables), section.threads)
    application = str(tables.applications["application"].iloc[0])
    return Asked(table, table.measured(application), _warnings(decisions))


def _warnings(decisions: Decisions) -> tuple[str, ...]:
    told = [line.removeprefix("warning: ") for line in explained(decisions).splitlines()]
    gaps = decisions.imputed
    if len(gaps):
        machines, stressors = gaps["machine"].unique(), gaps["stressor"].unique()
        told.append(
            f"{len(gaps)} gaps in the fingerprints were imputed, on {len(machines)} machines such as "
            f'"{machines[0]}", in {len(stressors)} stressors such as "{stressors[0]}"'
        )
    return tuple(told)


def tables_of(request: IrupRequest) -> FingerprintTables:
    """Return the tables of a request.

    Raises
    ------
    InputError
        If it is too large, a machine stands twice, or there is no rate or no value.
    """
    rates, values = _rates(request), _values(request)
    if len(rates) + len(values) > CELLS:
        problem = f"holds {len(rates) + len(values)} rates and values; expected at most {CELLS}"
        raise InputError(problem, place="body")
    if not values:
        raise InputError("no machine has a value", place="application.values")
    hosts = [
        {
            "machine": machine.machine,
            "cpu": machine.cpu or machine.machine,
            "cores": machine.cores,
            "stress_ng": machine.stress_ng,
            "source": "request",
        }
        for machine in request.machines
    ]
    tables = without_flaws(FingerprintTables.of_rows(rates, values, hosts), Problems())
    fingerprint_schema.check(tables)
    return tables


def _rates(request: IrupRequest) -> list[dict[str, Any]]:
    return [
        {
            "machine": machine.machine,
            "stressor": name.removesuffix(EVERY_THREAD),
            "threads": ALL_THREADS if name.endswith(EVERY_THREAD) else 1,
            "repetition": repetition,
            "bogo_ops_per_second": rate,
        }
        for machine in request.machines
        for name, given in machine.rates.items()
        for repetition, rate in enumerate(_listed(given), 1)
    ]


def _values(request: IrupRequest) -> list[dict[str, Any]]:
    """List the application's values; their repetitions are those of no fingerprint."""
    application = request.application
    return [
        {
            "machine": machine,
            "application": application.name,
            "metric": application.metric,
            "better": application.better,
            "repetition": RUNS + repetition,
            "value": value,
        }
        for machine, given in application.values.items()
        for repetition, value in enumerate(_listed(given), 1)
    ]


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]
