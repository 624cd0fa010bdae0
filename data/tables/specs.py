"""Tables by the types of their columns."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pandas as pd

from data.tables import parquet


def typed(frame: pd.DataFrame, dtypes: dict[str, str]) -> pd.DataFrame:
    """Give `frame` the columns of `dtypes` first, with those types, and its other columns after them."""
    others = [column for column in frame.columns if column not in dtypes]
    ordered = frame.reindex(columns=[*dtypes, *others])
    return ordered.astype(dtypes)


def read_table(
    path: Path,
    dtypes: dict[str, str],
    optional: Collection[str] = (),
    unwanted: Collection[str] = (),
) -> pd.DataFrame:
    """Read one Parquet table and give its columns their types.

    Those in `optional` may be absent; those in `unwanted` are taken as if they were.

    Raises
    ------
    InputError
        As of `data.tables.parquet.read`.
    """
    return typed(parquet.read(path, parquet.Wanted(dtypes, optional, unwanted)), dtypes)


def read_counts(
    path: Path,
    dtypes: dict[str, str],
    optional: Collection[str] = (),
    unwanted: Collection[str] = (),
    *,
    further: Callable[[str], str] = lambda _: "float64",
    blank: Collection[str] = (),
) -> pd.DataFrame:
    """Read one Parquet table whose further columns are measurements; for the rest see `read_table`.

    Parameters
    ----------
    path, dtypes, optional, unwanted
        As of `read_table`.
    further, blank
        As in `data.tables.parquet.Wanted`; all further columns are numbers, if nothing else is said.
    """
    return typed(parquet.read(path, parquet.Wanted(dtypes, optional, unwanted, further, blank)), dtypes)
