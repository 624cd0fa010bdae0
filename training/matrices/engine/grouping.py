"""Groups of test cases: none, given by people, or clustered by their normal behaviour.

The matrix paper groups by workload type (section 4.3) and leaves grouping without domain knowledge to future
work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from data.matrices.tables import Floats, MatrixTables, Whole
from features.matrices.forms import (
    FLOOR,
    PAIRS,
    MatrixPairs,
    MetricStatistics,
    Rows,
    fill_gaps,
    pair_labels,
    shrunk_means,
    sum_by_group,
    training_statistics,
)
from features.matrices.projection import Projection

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
    scales: MetricStatistics | None = None
    projection: Projection | None = None
    centres: Floats | None = None

    @classmethod
    def from_tables(cls, kind: str, tables: MatrixTables, metrics: list[str], seed: int) -> Grouping:
        """Return groups of the kind "none", "given" or "automatic", learned from training tables.

        Only automatic groups are learned: test cases are clustered (k-means) by the `metrics` of their
        baselines. The number of clusters, which may be one, is the one that best predicts how much the normal
        pairs of other test cases differ.
        """
        from sklearn.cluster import KMeans

        if kind != "automatic":
            return cls(kind)
        scales = training_statistics(_with_groups(tables, ALL), metrics)
        normal, pairs = _baseline_medians(tables, scales)
        workload = tables.runs.drop_duplicates("pair_id").set_index("pair_id")["workload"]
        cases = pd.DataFrame(normal).groupby(workload.reindex(pairs).to_numpy()).mean()
        rows = _rows_of_values(cases.to_numpy(), scales)
        projection = Projection.from_rows(rows, DIMENSIONS)
        squared, case = _normal_differences(tables, scales, cases.index)
        projected = projection.project_rows(rows)
        max_groups = max(1, min(len(projected) // CASES, len(np.unique(projected, axis=0)) - 1))
        best = min(
            (KMeans(n, n_init=STARTS, random_state=seed).fit(projected) for n in COUNTS if n <= max_groups),
            key=lambda clusters: _mean_loss(squared, case, clusters.labels_.astype(np.intp)),
        )
        return cls(kind, scales, projection, np.asarray(best.cluster_centers_))

    def assign_groups(self, tables: MatrixTables) -> MatrixTables:
        """Return a copy of `tables` with the group of each run's pair in the column ``group``.

        "given" keeps the column, "none" sets "all", "automatic" the nearest centre: "automatic 1" and so on.
        """
        if self.kind == "given":
            return tables
        if self.scales is None or self.projection is None or self.centres is None:
            return _with_groups(tables, ALL)
        normal, pairs = _baseline_medians(tables, self.scales)
        projected = self.projection.project_rows(_rows_of_values(normal, self.scales))
        nearest = ((projected[:, None, :] - self.centres) ** 2).sum(axis=2).argmin(axis=1)
        names = pd.Series([f"automatic {place + 1}" for place in nearest], pairs, dtype="str")
        return _with_groups(tables, names.reindex(tables.runs["pair_id"]).to_numpy())


def _with_groups(tables: MatrixTables, group: object) -> MatrixTables:
    return MatrixTables(tables.runs.assign(group=group), tables.causes, tables.metrics)


def _baseline_medians(tables: MatrixTables, scales: MetricStatistics) -> tuple[Floats, pd.Index]:
    """Return the scaled median of each pair's baseline (its target, if it has none), and the pairs."""
    scaled, sides = scales.scale_values(fill_gaps(tables, scales)), tables.pair_sides
    chosen = ~sides.target | (sides.count_runs()[sides.pair, 0] == 0)
    pairs = tables.runs["pair_id"].to_numpy()[chosen]
    middles = pd.DataFrame(scaled[chosen]).groupby(pairs, sort=False).median()
    return middles.to_numpy(), middles.index


def _normal_differences(
    tables: MatrixTables, scales: MetricStatistics, cases: pd.Index
) -> tuple[Floats, Whole]:
    """Return squared scaled median differences of normal pairs, and each pair's index in `cases`."""
    normal = tables.select_runs((pair_labels(tables) == 0)[tables.pair_sides.pair])
    matrices = MatrixPairs.from_tables(normal, scales.scale_metrics(normal))
    case = cases.get_indexer(matrices.about["workload"]).astype(np.intp)
    return np.nan_to_num(matrices.median_difference**2), case


def _mean_loss(squared: Floats, case: Whole, group_of_case: Whole) -> float:
    """Return the mean negative log-likelihood of held-out test cases by groups; 0 without normal pairs."""
    if not len(case):
        return 0.0
    part, group, losses = case % PARTS, group_of_case[case], []
    for number in range(PARTS):
        train, test = squared[part != number], squared[part == number]
        groups = int(group_of_case.max()) + 1
        sums = sum_by_group(train, np.ones_like(train), group[part != number], groups)
        expected = shrunk_means(sums, PAIRS)[group[part == number]] + FLOOR**2
        losses.append(np.log(expected) + np.minimum(test / expected, WILD))
    return float(np.concatenate(losses).mean())


def _rows_of_values(x: Floats, scales: MetricStatistics) -> Rows:
    return Rows(x, scales.metrics, pd.DataFrame(index=range(len(x))), np.full(len(x), np.nan))
