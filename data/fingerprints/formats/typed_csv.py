"""One application as people type it: ``machine,value[,repetition][,unit]``, a row a measurement."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from data.errors import InputError
from data.fingerprints.tables import ALL_THREADS, APPLICATION_DTYPES, HOST_DTYPES, FingerprintTables
from data.tables.cells import cells, fractional, infinite, numbers, refuse
from data.tables.problems import nearest, unknown
from data.tables.specs import typed

#: As in `HOST_DTYPES`, except that ``cpu`` is a stressor.
CPU_MODEL = "cpu_model"
HOST_COLUMNS = (CPU_MODEL, "cores", "stress_ng", "source")
WHOLE = ("repetition", "cores")
#: All columns that are neither stressors nor applications.
PLAIN = ("repetition", *HOST_COLUMNS)
#: How like one of these the plain name of an application must not be.
MISSPELT = 0.8
ON_ALL = "@all"
RUNNING_TIME = ("seconds", "lower")
_MEASURED = re.compile(r"(?P<name>.*\S)\s*\((?P<metric>[^,()]+),\s*(?P<better>lower|higher)\)")
_NAMES = Path(__file__).parents[1] / "stressors.txt"


class ValueColumn(NamedTuple):
    """An application's column."""

    application: str
    metric: str
    better: str


def read_machines(path: Path) -> FingerprintTables:
    """Read a CSV file."""
    table = _cells(path)
    machine, *columns = table.columns
    for column in columns:
        _require_meant(column, path)
    measured = {
        column: numbers(table[column], path, wrong=np.isnan, gaps=True)
        for column in columns
        if column not in PLAIN
    }
    whole = {
        column: numbers(table[column], path, "a whole number", fractional, gaps=True)
        for column in WHOLE
        if column in columns
    }
    repetitions = whole["repetition"].fillna(1).astype("int64") if "repetition" in whole else 1
    keyed = pd.DataFrame(measured, index=table.index).assign(machine=table[machine], repetition=repetitions)
    stressors = {column: found for column in measured if (found := stressor(column))}
    if not stressors:
        raise InputError("has no column that is a stressor of stress-ng", file=path, line=1)
    measures = {column: measure(column) for column in measured if column not in stressors}
    return FingerprintTables.of_rows(
        [
            {**row, "stressor": stressors[column][0], "threads": stressors[column][1]}
            for column, row in _measured(keyed, list(stressors), "bogo_ops_per_second")
        ],
        [{**row, **measures[column]._asdict()} for column, row in _measured(keyed, list(measures), "value")],
        _hosts(table, whole, path),
    )


def stressor(column: str) -> tuple[str, int] | None:
    """Return the stressor that a column is named for and its threads, or None."""
    name = column.removesuffix(ON_ALL)
    if name not in known_stressors():
        return None
    return name, 1 if name == column else ALL_THREADS


def measure(column: str) -> ValueColumn:
    """Return what the column of an application says."""
    told = _MEASURED.fullmatch(column)
    return (
        ValueColumn(told["name"], told["metric"], told["better"])
        if told
        else ValueColumn(column, *RUNNING_TIME)
    )


def _require_meant(column: str, path: Path) -> None:
    """Refuse what would be the running time of an application only because the column is misspelt."""
    if column in PLAIN or stressor(column) or _MEASURED.fullmatch(column):
        return
    told = unknown(column, PLAIN) if nearest(column, PLAIN, MISSPELT) else ""
    if column.endswith(ON_ALL):
        told = "is no stressor of stress-ng"
    if column.endswith(")") and "," in column:
        told = "is neither lower nor higher"
    if told:
        otherwise = f'an application is written "{column.partition("(")[0].strip()} (seconds, lower)"'
        raise InputError(f'the column "{column}" {told} ({otherwise})', file=path, line=1)


@cache
def known_stressors() -> frozenset[str]:
    """Return the names of the stressors of stress-ng 0.15.06, and of others that the known sources have."""
    return frozenset(_NAMES.read_text(encoding="utf-8").split())


def _cells(path: Path) -> pd.DataFrame:
    table = cells(path, header=None, skipinitialspace=True)
    header = [str(name).strip() for name in table.iloc[0]]
    for name in header:
        if header.count(name) > 1:
            raise InputError(f'has the column "{name}" twice', file=path, line=1)
    rows = table.iloc[1:].set_axis(header, axis="columns")
    if rows.empty:
        raise InputError("holds no machine", file=path)
    refuse(rows.iloc[:, 0].str.strip() == "", lambda _: "names no machine", path)
    return rows


def _measured(keyed: pd.DataFrame, columns: list[str], value: str) -> list[tuple[str, dict[str, Any]]]:
    long = keyed.melt(["machine", "repetition"], columns, "column", value, ignore_index=False)
    rows = long.dropna().sort_index(kind="stable").to_dict("records")
    return [(row.pop("column"), row) for row in rows]


def _hosts(table: pd.DataFrame, whole: dict[str, pd.Series], path: Path) -> list[dict[str, Any]]:
    """Describe each machine once, from its first row."""
    machine = table.columns[0]
    first = table[~table[machine].duplicated()].replace({name: {"": None} for name in HOST_COLUMNS})
    hosts = first.reindex(columns=[machine, *HOST_COLUMNS]).astype("str")
    hosts.columns = pd.Index(HOST_DTYPES)
    hosts["cpu"] = hosts["cpu"].fillna(hosts["machine"])
    hosts["source"] = hosts["source"].fillna(path.name)
    hosts["cores"] = whole["cores"].reindex(hosts.index).astype("Int64") if "cores" in whole else None
    return hosts.to_dict("records")


COLUMNS = ("machine", "value")
REPETITION = "repetition"
#: Columns that say what the values are; all rows must say the same.
UNITS = ("unit", "metric")


def read_application(path: Path, measure: ValueColumn, beyond: int = 0) -> pd.DataFrame:
    """Read a CSV file into a table with the columns of `data.fingerprints.tables.APPLICATION_DTYPES`.

    Parameters
    ----------
    measure : ValueColumn
        The measured quantity; a column ``unit`` or ``metric`` takes the place of its metric.
    beyond : int
        Values without a repetition are numbered from the one after this. Beyond the repetitions of the
        fingerprints they belong to their machine, not to one run of its fingerprint.

    Raises
    ------
    InputError
        If it is no CSV, lacks a column or has an unknown one, names no machine, has a measurement twice,
        several units, or a value that is no number above 0.
    """
    table = _application_cells(path)
    values = numbers(table["value"], path, "a number above 0", lambda found: infinite(found) | (found <= 0))
    if REPETITION in table:
        repetitions = numbers(table[REPETITION], path, "a whole number", fractional)
    else:
        repetitions = table.groupby("machine").cumcount() + 1 + beyond
    rows = table[["machine"]].assign(
        **_application_values(table, measure, path)._asdict(),
        repetition=repetitions.astype("int64"),
        value=values,
    )
    told = 'machine "{machine}" has the repetition {repetition} twice'
    refuse(rows.duplicated(["machine", REPETITION]), lambda row: told.format(**rows.iloc[row]), path)
    return typed(rows.reset_index(drop=True), APPLICATION_DTYPES)


def _application_cells(path: Path) -> pd.DataFrame:
    table = cells(path, COLUMNS, skipinitialspace=True)
    known = (*COLUMNS, REPETITION, *UNITS)
    for column in table.columns:
        if column not in known:
            raise InputError(f'the column "{column}" {unknown(column, known)}', file=path, line=1)
    if table.empty:
        raise InputError("holds no measurement", file=path)
    table = table.assign(machine=table["machine"].str.strip())
    refuse(table["machine"] == "", lambda _: "names no machine", path)
    return table


def _application_values(table: pd.DataFrame, measure: ValueColumn, path: Path) -> ValueColumn:
    """Return the measure in the unit that the file names, if it names one."""
    column = next((name for name in UNITS if name in table), None)
    if column is None:
        return measure
    units = table[column].str.strip()
    unit = units.iloc[0]

    def told(row: int) -> str:
        return f'{column}="{units.iloc[row]}" but "{unit}" before; expected one unit in all rows'

    refuse(units != unit, told, path)
    return measure._replace(metric=unit or measure.metric)
