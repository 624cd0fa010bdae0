"""Synthetic matrices in the shape of the analysis engine paper's data (section 3), for speed and scale only.

22,964 vectors of 200 raw and 16 summary metrics, 20 groups, 300 test cases; 2,044 vectors are invalid, 740 of
the 20,920 valid ones abnormal; every target has its baseline. Nothing was measured: every figure computed
from these data has to be called synthetic.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from data.matrices.tables import SUMMARY, MatrixTables
from data.matrices.validity import ELAPSED, TRANSACTIONS

VECTORS, INVALID, ABNORMAL = 22_964, 2_044, 740
RAW, GROUPS, CASES, FACTORS, CAUSES, RUNS = 200, 20, 300, 12, 10, 3
SUMMARIES = 14
NAME = "synthetic"
#: Reasons why a synthetic vector is invalid.
NEGATIVE, WRONG_COUNT, DISTURBED = "synthetic-negative", "synthetic-wrong-count", "synthetic-disturbed"


def generate(vectors: int = VECTORS, seed: int = 1) -> MatrixTables:
    draw = np.random.default_rng(seed)
    pairs = max(1, vectors // (2 * RUNS))
    pair = np.minimum(np.arange(vectors) // (2 * RUNS), pairs - 1)
    target = (np.arange(vectors) % (2 * RUNS) >= RUNS) | (np.arange(vectors) >= pairs * 2 * RUNS)
    case = draw.permutation(np.arange(pairs) % CASES)[pair]
    group = case % GROUPS
    valid = np.ones(vectors, bool)
    valid[draw.choice(vectors, round(vectors * INVALID / VECTORS), replace=False)] = False
    spoiled = _choose_abnormal_pairs(pair, target & valid, pairs, round(vectors * ABNORMAL / VECTORS), draw)
    cause, size = draw.integers(CAUSES, size=pairs)[pair], draw.uniform(0.15, 0.8, pairs)[pair]
    abnormal = target & spoiled[pair]

    loadings = draw.normal(0, 0.02, (FACTORS, RAW))
    like = draw.normal(0, 1, (GROUPS, RAW))[np.arange(CASES) % GROUPS] + draw.normal(0, 0.5, (CASES, RAW))
    moves = np.zeros((GROUPS, CAUSES, RAW))
    for which in range(CAUSES):
        moved = draw.choice(RAW, 20, replace=False)
        moves[:, which, moved] = draw.uniform(0.5, 1.5, (GROUPS, 20))
    values = draw.normal(0, 0.03, (vectors, RAW))
    values += draw.normal(0, 1, (vectors, FACTORS)) @ loadings
    values += like[case]
    rows = np.flatnonzero(abnormal)
    values[rows] += size[rows, None] * moves[group[rows], cause[rows]]
    kind = draw.choice([NEGATIVE, WRONG_COUNT, DISTURBED], vectors)
    disturbed = np.flatnonzero(~valid & (kind == DISTURBED))
    values[disturbed] += draw.normal(0, 0.8, (len(disturbed), RAW))
    np.exp(values, out=values)

    # each summary metric is the mean of every 14th raw one
    summary = np.column_stack([values[:, first::SUMMARIES].mean(axis=1) for first in range(SUMMARIES)])
    counts = (100.0 + 10 * (np.arange(CASES) % 7))[case]
    wrong = ~valid & (kind == WRONG_COUNT)
    counts[wrong] = np.round(counts[wrong] * 0.8)
    negative = np.flatnonzero(~valid & (kind == NEGATIVE))
    values[negative, draw.integers(RAW, size=len(negative))] *= -1
    names = [
        *(f"{NAME}_{number:03d}" for number in range(RAW)),
        *(f"{SUMMARY}{NAME}_{number:02d}" for number in range(SUMMARIES)),
        *(ELAPSED, TRANSACTIONS),
    ]
    elapsed = counts * summary[:, 0]
    numbers = pd.DataFrame(np.column_stack([values, summary, elapsed, counts]), columns=names)
    side = pd.Series(np.where(target, "target", "baseline"), dtype="str")
    numbered = {"run_id": np.arange(vectors), "workload": case, "group": group, "pair_id": pair}
    words = {"run_id": "run", "workload": "case", "group": "group", "pair_id": "pair"}
    names_of = {
        column: f"{NAME} {words[column]} " + pd.Series(numbers).astype("str")
        for column, numbers in numbered.items()
    }
    about = pd.DataFrame(names_of).assign(
        version=side.map({"baseline": "v0", "target": "v1"}),
        machine=NAME,
        side=side,
        valid=valid,
        abnormal=pd.Series(abnormal).astype("boolean").mask(~valid),
    )
    cause_names = f"{NAME}-cause-" + pd.Series(cause).astype("str")
    truth = about[["run_id"]].assign(
        cause=np.where(abnormal, cause_names, ""),
        cause_size=np.where(abnormal, size, np.nan),
        invalid_kind=np.where(valid, "", kind),
    )
    described = pd.DataFrame({"metric": names, "unit": "", "signed": False, "note": NAME})
    runs = pd.concat([about, numbers], axis="columns")
    return MatrixTables.from_rows(runs, truth[abnormal | ~valid], described)


def _choose_abnormal_pairs(
    pair: np.ndarray, counted: np.ndarray, pairs: int, vectors: int, draw: np.random.Generator
) -> np.ndarray:
    """Choose pairs whose targets have together `vectors` valid runs."""
    sizes = np.bincount(pair, counted, pairs).astype(int)
    chosen = np.zeros(pairs, bool)
    for candidate in draw.permutation(pairs):
        if 0 < sizes[candidate] <= vectors:
            chosen[candidate] = True
            vectors -= sizes[candidate]
    return chosen
