"""Read CSV with one value per row, for data of any other tool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.comparisons.formats.tools.measurement import (
    Measurement,
    SourceFiles,
    delimiter_of,
    moment,
    table_of,
)
from data.comparisons.units import MAX_THREADS, UNKNOWN
from data.errors import InputError
from data.tables.cells import numbers, refuse
from data.tables.problems import nearest

#: Columns other than the value, with their defaults; all but the operation are optional.
COLUMNS = {
    "benchmark": "",
    "operation": "",
    "machine": UNKNOWN,
    "unit": UNKNOWN,
    "better": "",
    "threads": "1",
    "version": "",
    "measured_at": "",
}
VALUE, OPERATION = "value", "operation"
_BETTER = ["lower", "higher", ""]


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield the values of every series; versions are ordered by time, or by their first rows."""
    for path in source.files:
        table = table_of(path, [OPERATION, VALUE], sep=delimiter_of(path))
        _refuse_misspelt(table, path)
        values = numbers(table[VALUE], path, "a finite number", wrong=lambda found: ~np.isfinite(found))
        table = pd.DataFrame({name: _filled(table, name) for name in COLUMNS}, table.index)
        _refuse_wrong(table, path)
        for key, found in values.groupby([table[name] for name in COLUMNS], sort=False):
            yield _measurement(source, dict(zip(COLUMNS, key, strict=True)), found)


def _filled(table: pd.DataFrame, name: str) -> pd.Series:
    """Return a column with empty and missing cells replaced by the default."""
    if name not in table:
        return pd.Series(COLUMNS[name], table.index, dtype="str")
    column = table[name].str.strip()
    return column.where(column != "", COLUMNS[name])


def _measurement(source: SourceFiles, said: dict[str, Any], values: pd.Series) -> Measurement:
    return Measurement(
        said[OPERATION],
        values.tolist(),
        said["unit"],
        source.better(said["better"]),
        said["benchmark"],
        said["machine"],
        int(said["threads"]),
        said["version"],
        moment(said["measured_at"]) if said["measured_at"] else "",
    )


def _refuse_misspelt(table: pd.DataFrame, path: Path) -> None:
    for name in table:
        meant = nearest(str(name), [*COLUMNS, VALUE], 0.75)
        if meant is not None and meant not in table:
            raise InputError(f'column "{name}" is unknown; did you mean "{meant}"?', file=path, line=1)


def _refuse_wrong(table: pd.DataFrame, path: Path) -> None:
    threads = pd.to_numeric(table["threads"], errors="coerce")
    whole = threads.between(1, MAX_THREADS) & (threads % 1 == 0) & table["threads"].str.isdigit()
    refuse(~whole, lambda row: f'threads="{table["threads"].iloc[row]}" is not a whole number from 1', path)
    known = table["better"].isin(_BETTER)
    refuse(~known, lambda row: f'better="{table["better"].iloc[row]}" is not lower or higher', path)
    refuse(table[OPERATION] == "", lambda _: "names no operation", path)
