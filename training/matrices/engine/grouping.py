"""Groups of test cases: none, those that people gave, or those that their normal behaviour makes.

Seed 001 groups by workload type (section 4.3) and leaves grouping without domain knowledge to future work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.tables import SIDES, MatrixTables
from features.matrices.forms import Known, Rows, known
from features.matrices.projection import Projection

Floats = NDArray[np.float64]

KINDS = ("none", "given", "automatic")
#: The one group where there is no grouping.
ALL = "all"
#: Test cases are told apart in so many dimensions.
DIMENSIONS = 10
#: A group has so many test cases on average at least, and there are so many groups at most.
CASES, MOST = 3, 24
#: Starts of the clustering.
STARTS = 5


@dataclass(frozen=True)
class Grouping:
    """How runs are grouped.

    Attributes
    ----------
    kind : "none", "given" or "automatic"
    known : Known or None
        How the metrics are scaled; for automatic groups.
    projection : Projection or None
    centres : ndarray of shape (n_groups, n_dimensions)
        Of automatic groups.
    """

    kind: str
    known: Known | None = None
    projection: Projection | None = None
    centres: Floats | None = None

    @classmethod
    def of(cls, kind: str, tables: MatrixTables, metrics: list[str], seed: int) -> Grouping:
        """Learn groups from training tables; only automatic ones need it.

        Test cases are clustered (k-means) by what their baselines are like; the number of groups is that of
        the best mean silhouette.

        Raises
        ------
        InputError
            If there is no such kind.
        """
        if kind not in KINDS:
            raise InputError(f'grouping="{kind}"; expected one of: {", ".join(KINDS)}')
        if kind != "automatic":
            return cls(kind)
        scales = known(_regrouped(tables, ALL), metrics)
        normal, pairs = _normal(tables, scales)
        workload = tables.runs.drop_duplicates("pair_id").set_index("pair_id")["workload"]
        cases = pd.DataFrame(normal).groupby(workload.reindex(pairs).to_numpy()).mean().to_numpy()
        rows = _rows(cases, scales)
        projection = Projection.of(rows, DIMENSIONS)
        return cls(kind, scales, projection, _centres(projection.projected(rows), seed))

    def applied(self, tables: MatrixTables) -> MatrixTables:
        """Return the tables with these groups in the column ``group``."""
        if self.kind == "given":
            return tables
        if self.known is None or self.projection is None or self.centres is None:
            return _regrouped(tables, ALL)
        normal, pairs = _normal(tables, self.known)
        apart = self.projection.projected(_rows(normal, self.known))[:, None, :] - self.centres
        nearest = (apart**2).sum(axis=2).argmin(axis=1)
        names = pd.Series([f"automatic {place + 1}" for place in nearest], pairs, dtype="str")
        return _regrouped(tables, names.reindex(tables.runs["pair_id"]).to_numpy())


def _regrouped(tables: MatrixTables, group: object) -> MatrixTables:
    return MatrixTables(tables.runs.assign(group=group), tables.causes, tables.metrics)


def _normal(tables: MatrixTables, scales: Known) -> tuple[Floats, pd.Index]:
    """Return what the baseline of each pair is like (its target, if it has none), and the pairs."""
    runs = tables.runs
    values = runs[list(scales.metrics)].to_numpy(np.float64)
    scaled = scales.scaled(np.where(np.isfinite(values), values, scales.middles))
    there = (runs["side"] == SIDES[0]).groupby(runs["pair_id"]).transform("any")
    chosen = ((runs["side"] == SIDES[0]) | ~there).to_numpy(bool)
    middles = pd.DataFrame(scaled[chosen]).groupby(runs["pair_id"].to_numpy()[chosen], sort=False).median()
    return middles.to_numpy(), middles.index


def _centres(cases: Floats, seed: int) -> Floats:
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    best, chosen = -np.inf, cases.mean(axis=0, keepdims=True)
    distinct = len(np.unique(cases, axis=0))
    for count in range(2, min(MOST, len(cases) // CASES, distinct - 1) + 1):
        clusters = KMeans(count, n_init=STARTS, random_state=seed).fit(cases)
        score = float(silhouette_score(cases, clusters.labels_))
        if score > best:
            best, chosen = score, clusters.cluster_centers_
    return np.asarray(chosen)


def _rows(x: Floats, scales: Known) -> Rows:
    return Rows(x, scales.metrics, pd.DataFrame(index=range(len(x))), np.full(len(x), np.nan))
