"""Which versions a comparison is about, in words."""

from __future__ import annotations

import pandas as pd

from data.comparisons.tables import ComparisonTables

_OPERATION = ["benchmark", "operation", "machine"]


def versions(tables: ComparisonTables) -> list[str]:
    """Return for every comparison its versions, such as ``v1 -> v2`` or ``v1..v3 -> v4``.

    Where the results don't name a version, its order does.
    """
    keys = [*_OPERATION, "order"]
    names = tables.results[[*keys, "version"]].drop_duplicates(keys).set_index(keys)["version"]
    spans = (_spans(names, tables.comparisons, side) for side in ("baseline", "target"))
    return [f"{before} -> {after}" for before, after in zip(*spans, strict=True)]


def _spans(names: pd.Series, comparisons: pd.DataFrame, side: str) -> list[str]:
    ends = (_at(names, comparisons, f"{side}_{end}") for end in ("from", "to"))
    return [first if first == last else f"{first}..{last}" for first, last in zip(*ends, strict=True)]


def _at(names: pd.Series, comparisons: pd.DataFrame, order: str) -> list[str]:
    wanted = pd.MultiIndex.from_frame(comparisons[[*_OPERATION, order]])
    return names.reindex(wanted).fillna(comparisons[order].astype(str).set_axis(wanted)).tolist()
