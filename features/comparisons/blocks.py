"""Many comparisons are computed block by block, each of whole benchmarks on a machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.tables import ComparisonTables

Ints = NDArray[np.intp]

#: Comparisons of a block, unless one benchmark has more: as many take as long as a process to start.
MANY = 20_000
#: Comparisons look at others, and at results, of the same benchmark on the same machine only.
_TOGETHER = ["benchmark", "machine"]


def parted(comparisons: pd.DataFrame, many: int = MANY) -> list[Ints]:
    """Return the rows of each block, in their order; at least one block."""
    sizes = comparisons.groupby(_TOGETHER, sort=False, dropna=False).size()
    number = pd.Series(((sizes.cumsum() - sizes) // many).to_numpy(), sizes.index, dtype="int64")
    block = number.reindex(pd.MultiIndex.from_frame(comparisons[_TOGETHER])).to_numpy()
    found = [np.flatnonzero(block == one) for one in np.unique(block)]
    return found or [np.arange(len(comparisons))]


def of_rows(
    tables: ComparisonTables, comparisons: pd.DataFrame, parts: Sequence[Ints]
) -> list[ComparisonTables]:
    """Return the tables of each block."""
    if len(parts) == 1:
        return [ComparisonTables(tables.results, comparisons, tables.labels)]
    place = pd.MultiIndex.from_frame(tables.results[_TOGETHER])
    found = []
    for rows in parts:
        block = comparisons.iloc[rows].reset_index(drop=True)
        here = place.isin(pd.MultiIndex.from_frame(block[_TOGETHER].drop_duplicates()))
        results = tables.results[here].reset_index(drop=True)
        found.append(ComparisonTables(results, block, tables.labels[:0]))
    return found


def together(frames: Sequence[pd.DataFrame], parts: Sequence[Ints]) -> pd.DataFrame:
    """Return what was computed of each block, row by row as the comparisons."""
    order = np.argsort(np.concatenate(parts), kind="stable")
    return pd.concat(frames, ignore_index=True).iloc[order].reset_index(drop=True)
