"""Groups of test cases: none, given by people, or clustered by their normal behaviour.

Seed 001 groups by workload type (section 4.3) and leaves grouping without domain knowledge to future work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.tables import SIDES, MatrixTables
from features.matrices.forms import FLOOR, PAIRS, GroupSums, Known, MatrixPairs, Rows, flags, known
from features.matrices.projection import Projection

Floats = NDArray[np.float64]

KINDS = ("none", "given", "automatic")
#: Name of the only group where runs are not grouped.
ALL = "all"
#: Number of dimensions for clustering test cases.
DIMENSIONS = 10
#: Numbers of groups that are tried, and the least mean number of test cases per group.
COUNTS, CASES = (1, 2, 3, 4, 6, 8, 12, 16, 24), 3
#: Number of starts of the clustering.
STARTS = 5
#: Number of folds of test cases; the noise of each is predicted from the others.
PARTS = 3
#: Limit of a squared difference, in multiples of its expected value.
WILD = 25.0


@dataclass(frozen=True)
class Grouping:
    """How runs are grouped; only automatic groups have `centres`, shape (n_groups, n_dimensions)."""

    kind: str
    known: Known | None = None
    projection: Projection | None = None
    centres: Floats | None = None

    @classmethod
    def of(cls, kind: str, tables: MatrixTables, metrics: list[str], seed: int) -> Grouping:
        """Learn groups from training tables; raise InputError if `kind` is unknown.

        Only automatic groups are learned: test cases are clustered (k-means) by their baselines. The number
        of clusters, which may be one, is the one that best predicts how much the normal pairs of other test
        cases differ.
        """
        if kind not in KINDS:
            raise InputError(f'grouping="{kind}"; expected one of: {", ".join(KINDS)}')
        if kind != "automatic":
            return cls(kind)
        scales = known(_regrouped(tables, ALL), metrics)
        normal, pairs = _normal(tables, scales)
        workload = tables.runs.drop_duplicates("pair_id").set_index("pair_id")["workload"]
        cases = pd.DataFrame(normal).groupby(workload.reindex(pairs).to_numpy()).mean()
        rows = _rows(cases.to_numpy(), scales)
        projection = Projection.of(rows, DIMENSIONS)
        differences = Differences.of(tables, scales, cases.index)
        return cls(kind, scales, projection, _centres(projection.projected(rows), differences, seed))

    def applied(self, tables: MatrixTables) -> MatrixTables:
        """Return a copy of `tables` with these groups in the column ``group``."""
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
    """Return the scaled median of each pair's baseline (its target, if it has none), and the pairs."""
    runs = tables.runs
    values = runs[list(scales.metrics)].to_numpy(np.float64)
    scaled = scales.scaled(np.where(np.isfinite(values), values, scales.middles))
    there = (runs["side"] == SIDES[0]).groupby(runs["pair_id"]).transform("any")
    chosen = ((runs["side"] == SIDES[0]) | ~there).to_numpy(bool)
    middles = pd.DataFrame(scaled[chosen]).groupby(runs["pair_id"].to_numpy()[chosen], sort=False).median()
    return middles.to_numpy(), middles.index


@dataclass(frozen=True)
class Differences:
    """Squared scaled differences of the medians of normal pairs (n_pairs, n_metrics); `case`: test cases."""

    squared: Floats
    case: NDArray[np.intp]

    @classmethod
    def of(cls, tables: MatrixTables, scales: Known, cases: pd.Index) -> Differences:
        """Compute the differences of the normal pairs of `tables`; `cases` lists the test cases."""
        runs = tables.runs
        targets = runs["pair_id"].where(runs["side"] == SIDES[1])
        abnormal = pd.Series(flags(runs)).groupby(targets.to_numpy()).max()
        normal = tables.of_runs(runs["pair_id"].isin(abnormal.index[abnormal == 0]).to_numpy(bool))
        values = normal.runs[list(scales.metrics)].to_numpy(np.float64)
        matrices = MatrixPairs.of(normal, scales.scaled(np.where(np.isfinite(values), values, np.nan)))
        place = cases.get_indexer(matrices.about["workload"])
        return cls(np.nan_to_num(matrices.difference**2), place.astype(np.intp))

    def surprise(self, group: NDArray[np.intp]) -> float:
        """Return how badly groups predict held-out test cases: mean negative log-likelihood.

        `group`, shape (n_cases,), holds group numbers from 0. Returns 0 without normal pairs.
        """
        if not len(self.case):
            return 0.0
        part, found = self.case % PARTS, []
        for number in range(PARTS):
            learned, asked = (np.flatnonzero(rows) for rows in (part != number, part == number))
            place, groups = group[self.case], int(group.max()) + 1
            there = self.squared[learned]
            noise = GroupSums.of(there, np.ones_like(there), place[learned], groups).means(PAIRS)
            expected = noise[place[asked]] + FLOOR**2
            found.append(np.log(expected) + np.minimum(self.squared[asked] / expected, WILD))
        return float(np.concatenate(found).mean())


def _centres(cases: Floats, differences: Differences, seed: int) -> Floats:
    """Return the centres of the clustering with the lowest `surprise`, shape (n_groups, n_dimensions)."""
    from sklearn.cluster import KMeans

    distinct = len(np.unique(cases, axis=0))
    most = max(1, min(len(cases) // CASES, distinct - 1))
    tried = [KMeans(count, n_init=STARTS, random_state=seed).fit(cases) for count in COUNTS if count <= most]
    best = min(tried, key=lambda clusters: differences.surprise(clusters.labels_.astype(np.intp)))
    return np.asarray(best.cluster_centers_)


def _rows(x: Floats, scales: Known) -> Rows:
    return Rows(x, scales.metrics, pd.DataFrame(index=range(len(x))), np.full(len(x), np.nan))
