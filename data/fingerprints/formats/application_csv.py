"""One application as people type it: ``machine,value[,repetition][,unit]``, a row a measurement."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from data.errors import InputError
from data.fingerprints.formats.machines_csv import ValueColumn
from data.fingerprints.tables import APPLICATION_DTYPES
from data.tables.cells import cells, fractional, infinite, numbers, refuse
from data.tables.nearest import unknown
from data.tables.specs import typed

COLUMNS = ("machine", "value")
REPETITION = "repetition"
#: Columns that say what the values are; all rows must say the same.
UNITS = ("unit", "metric")


def read(path: Path, measure: ValueColumn, beyond: int = 0) -> pd.DataFrame:
    """Read a CSV file.

    Parameters
    ----------
    path : Path
    measure : ValueColumn
        What the values are; a column ``unit`` or ``metric`` takes the place of its metric.
    beyond : int
        Values without a repetition are numbered from the one after this. Beyond the repetitions of the
        fingerprints they belong to their machine, not to one run of its fingerprint.

    Returns
    -------
    DataFrame
        With the columns of `data.fingerprints.tables.APPLICATION_DTYPES`.

    Raises
    ------
    InputError
        If it is no CSV, lacks a column or has an unknown one, names no machine, has a measurement twice,
        several units, or a value that is no number above 0.
    """
    table = _cells(path)
    values = numbers(table["value"], path, "a number above 0", lambda found: infinite(found) | (found <= 0))
    if REPETITION in table:
        repetitions = numbers(table[REPETITION], path, "a whole number", fractional)
    else:
        repetitions = table.groupby("machine").cumcount() + 1 + beyond
    rows = table[["machine"]].assign(
        **_measured(table, measure, path)._asdict(), repetition=repetitions.astype("int64"), value=values
    )
    told = 'machine "{machine}" has the repetition {repetition} twice'
    refuse(rows.duplicated(["machine", REPETITION]), lambda row: told.format(**rows.iloc[row]), path)
    return typed(rows.reset_index(drop=True), APPLICATION_DTYPES)


def _cells(path: Path) -> pd.DataFrame:
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


def _measured(table: pd.DataFrame, measure: ValueColumn, path: Path) -> ValueColumn:
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
