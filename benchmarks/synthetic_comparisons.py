"""Synthetic comparisons, for speed only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from data.comparisons.tables import COMPARISON_DTYPES, RESULT_DTYPES, ComparisonTables
from data.tables.specs import typed

REPETITIONS = 5
SLOWER_SHARE = 0.2


def synthetic(
    comparisons: int, seed: int = 0, threads: Sequence[int] = (1, 4)
) -> tuple[ComparisonTables, np.ndarray]:
    """Make comparisons with five repetitions a side, a configuration for each number of threads.

    Returns
    -------
    tuple of (ComparisonTables, ndarray of bool)
        With which comparisons are 15 % slower: every fifth, at random.
    """
    rng = np.random.default_rng(seed)
    slower = rng.random(comparisons) < SLOWER_SHARE
    rows = pd.MultiIndex.from_product(
        [range(comparisons), threads, (0, 1), range(REPETITIONS)], names=["row", "threads", "order", "k"]
    ).to_frame(index=False)
    name = np.array([f"operation-{row}" for row in range(comparisons)], dtype=object)
    factor = np.where(slower[rows["row"]] & (rows["order"] == 1), 0.85, 1.0)
    value = 1000.0 * rows["threads"] * rng.normal(1, 0.02, len(rows)) * factor
    shared = {"benchmark": "synthetic", "machine": "m"}
    results = rows[["threads", "order"]].assign(
        operation=name[rows["row"]], value=value, better="higher", stat=None, measured_at=None, **shared
    )
    orders = {"baseline_from": 0, "baseline_to": 0, "target_from": 1, "target_to": 1}
    asked = pd.DataFrame({"comparison_id": name, "operation": name}).assign(**shared, **orders)
    nobody = ComparisonTables.of_rows([], [], []).labels
    return ComparisonTables(typed(results, RESULT_DTYPES), typed(asked, COMPARISON_DTYPES), nobody), slower
