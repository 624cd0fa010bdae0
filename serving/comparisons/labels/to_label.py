"""Comparisons of any source as a pool to label from, and what a champion or a rule makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.labels.consensus import Rule, consensus
from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables, versions
from data.comparisons.validity import unusable
from data.errors import InputError
from features.comparisons.vectors import FEATURES, vectors
from serving.comparisons.model import Judge, load
from training.comparisons.labels.first import UNLABELLED, Pool, next_to_label

#: What is told of every comparison.
NEXT = ("comparison_id", "benchmark", "operation", "machine", "versions", "probability", "why")
#: The rule where there is no champion.
_RULE = "rank_z_min"


@dataclass(frozen=True)
class ToLabel:
    """Comparisons that can be judged, with their pool.

    Attributes
    ----------
    comparisons : DataFrame
        As the table, and ``versions``.
    pool : Pool
        In the same order.
    probability : ndarray of shape (n_comparisons,)
        The champion's; NaN without one.
    """

    comparisons: pd.DataFrame
    pool: Pool
    probability: NDArray[np.float64]

    @classmethod
    def of(cls, tables: ComparisonTables, served: Judge | None, counting: Rule = "majority") -> ToLabel:
        """Leave out what cannot be judged, and compute what is known of the rest; labels weigh by a rule."""
        usable = unusable(tables) == ""
        named = tables.comparisons.assign(versions=versions(tables))[usable].reset_index(drop=True)
        sides = Sides.of(ComparisonTables(tables.results, named, tables.labels))
        x = vectors(sides)
        y = _known(named, tables.labels, counting)
        groups = (named["benchmark"] + "/" + named["operation"]).to_numpy(np.str_)
        probability = np.full(len(named), np.nan)
        if served is not None:
            probability = served.model.judged(sides)
        rule = -np.nan_to_num(x[:, FEATURES.index(_RULE)])
        suspicion = rule if served is None else probability
        return cls(named, Pool(x, y, groups, suspicion), probability)

    def labelled(self, labels: pd.DataFrame, counting: Rule) -> ToLabel:
        """Return the same with other labels."""
        return replace(self, pool=replace(self.pool, y=_known(self.comparisons, labels, counting)))

    def identifiers(self) -> Sequence[str]:
        """Return all that are not labelled, those to label next first."""
        rows = next_to_label(self.pool, len(self.comparisons))
        return self.comparisons["comparison_id"].iloc[rows].tolist()

    def first(self, n: int) -> pd.DataFrame:
        """Return the comparisons to label next, with the columns `NEXT`, the first of them first."""
        rows = next_to_label(self.pool, n)
        found = bool((self.pool.y == 1).any())
        told = "a model of the labels so far is unsure" if found else "most suspicious, or drawn at random"
        chosen = self.comparisons.iloc[rows].assign(probability=self.probability[rows], why=told)
        return chosen[[*NEXT]].reset_index(drop=True)


def _known(comparisons: pd.DataFrame, labels: pd.DataFrame, counting: Rule) -> NDArray[np.int64]:
    status = comparisons["comparison_id"].map(consensus(labels, counting))
    return np.select([status == "fail", status == "pass"], [1, 0], UNLABELLED).astype(np.int64)


def champion(uri: str | None) -> Judge | None:
    """Load the model that is named; by default the champion, or None if there is none."""
    try:
        return load(uri)
    except InputError:
        if uri is not None:
            raise
        return None
