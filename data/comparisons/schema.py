"""What must hold in the three tables, whatever they were read from."""

from __future__ import annotations

import numpy as np
import pandas as pd

from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from data.tables.problems import Problems


def check(tables: ComparisonTables) -> None:
    """Check all three tables: among others, that baseline, target and later versions follow each other.

    Raises
    ------
    InputError
        Naming the first table, column, row and value that is wrong.
    """
    for name in ("results", "comparisons"):
        tables.sound(name, Problems())
    _require_ordered(tables.comparisons)
    tables.sound("labels", Problems())


def _require_ordered(comparisons: pd.DataFrame) -> None:
    later = comparisons["later_to"].fillna(comparisons["target_to"])
    ordered = (
        (comparisons["baseline_from"] <= comparisons["baseline_to"])
        & (comparisons["baseline_to"] < comparisons["target_from"])
        & (comparisons["target_from"] <= comparisons["target_to"])
        & (comparisons["target_to"] <= later)
    )
    for row in np.flatnonzero(~ordered):
        told = "must satisfy baseline_from <= baseline_to < target_from <= target_to <= later_to"
        raise InputError(told, place=f"comparisons row {row}")
