"""What engines said of held-out test cases, counted: vectors as seed 001 does, and pairs of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from training.matrices.schemes import Printed

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Mistakes:
    """Verdicts on vectors or on pairs of one fold; abnormal is positive."""

    cases: int
    abnormal: int
    false_positive: int
    false_negative: int

    @classmethod
    def of(cls, abnormal: Flags, judged: Flags) -> Mistakes:
        """Count; both of shape (n_cases,)."""
        wrong = abnormal != judged
        counted = (abnormal, wrong & judged, wrong & abnormal)
        return cls(len(abnormal), *(int(flags.sum()) for flags in counted))

    @property
    def balanced_accuracy(self) -> float:
        """The mean of both classes' accuracies; NaN where one does not occur (seed 001, equation 2)."""
        normal = self.cases - self.abnormal
        if not normal or not self.abnormal:
            return float("nan")
        return 1 - (self.false_negative / self.abnormal + self.false_positive / normal) / 2


@dataclass(frozen=True)
class Held:
    """What a cell said of one fold.

    Attributes
    ----------
    fold : int
    pairs : DataFrame
        ``pair_id, group_used, probability, threshold, judged`` (bool), of all pairs of the fold.
    vectors : Mistakes
    targets : Mistakes
        Of the vectors of targets, which every form answers for.
    seconds : float
        That the search and the fit took, once cases were made of the tables.
    """

    fold: int
    pairs: pd.DataFrame
    vectors: Mistakes
    targets: Mistakes
    seconds: float


def row(found: Sequence[Held], abnormal: pd.Series, printed: Printed | None) -> dict[str, Any]:
    """Return the columns of tables.parquet from ``folds`` on.

    Parameters
    ----------
    found : sequence of Held
        Of one cell, one per fold.
    abnormal : Series of bool
        By ``pair_id``.
    printed : Printed or None
        What the seed has.
    """
    vectors, targets = [held.vectors for held in found], [held.targets for held in found]
    pairs = [
        Mistakes.of(abnormal.loc[held.pairs["pair_id"]].to_numpy(bool), held.pairs["judged"].to_numpy(bool))
        for held in found
    ]
    of_vectors, of_targets, of_pairs = total(vectors), total(targets), total(pairs)
    counted: dict[str, Any] = {
        "folds": len(found),
        "vectors": of_vectors.cases,
        "abnormal": of_vectors.abnormal,
    }
    for prefix, whole, folds in (
        ("", of_vectors, vectors),
        ("target_", of_targets, targets),
        ("pair_", of_pairs, pairs),
    ):
        counted[f"{prefix}balanced_accuracy"] = whole.balanced_accuracy
        counted[f"{prefix}spread"] = spread(folds)
        counted[f"{prefix}false_positive"] = whole.false_positive
        counted[f"{prefix}false_negative"] = whole.false_negative
    names = Printed.__dataclass_fields__
    return counted | {f"seed_{name}": printed and getattr(printed, name) for name in names}


def spread(folds: Sequence[Mistakes]) -> float:
    """Return the standard deviation of the balanced accuracy over the folds that have both classes."""
    found = [counts.balanced_accuracy for counts in folds if counts.balanced_accuracy >= 0]
    return float(np.std(found)) if found else float("nan")


def total(counts: Sequence[Mistakes]) -> Mistakes:
    """Add up the counts of all folds."""
    return Mistakes(*(sum(numbers) for numbers in zip(*map(astuple, counts), strict=True)))
