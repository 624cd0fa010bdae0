"""A decision tree that finds invalid runs, and its path in words (matrix paper, section 4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.tables import SIDES, Floats, Labels, MatrixTables, PairSides, Whole
from data.matrices.validity import LARGEST
from features.matrices.forms import FLOOR, MetricStatistics, training_statistics

#: Least number of runs of a group to estimate a metric's noise by their median deviation; else all runs are
#: used.
RUNS = 30
#: The median deviation of a normal distribution, as a share of its standard deviation.
MEDIAN_DEVIATION = 0.6745
BEYOND = (3.0, 10.0)
#: Depths and class weights that are tried, and the number of folds of whole test cases.
DEPTHS, WEIGHTS, PARTS = (3, 6, 10), (None, "balanced"), 3
LEAF = 4
EVEN = 0.5
#: Largest number of other runs of each side that a run is compared with; number of values processed at a
#: time.
MAX_OTHERS, AT_ONCE = 50, 2_000_000


@dataclass(frozen=True)
class ValidityTree:
    """A decision tree on how a run deviates from the other runs of its pair.

    A run is compared with the other runs of its matrix and with the other matrix; the smaller deviation
    counts, so that a target that differs as a whole is not invalid. Values are scaled
    (`features.matrices.forms.MetricStatistics`), so that a tree applies to workloads it was not trained on.
    `noise`, shape (n_groups + 1, n_metrics), is the typical deviation by group, the last row that of all
    groups; `tree` is None where the flagged runs are all valid or all invalid: then every run is valid.
    """

    scales: MetricStatistics
    noise: Floats
    units: tuple[str, ...]
    tree: Any

    @classmethod
    def fit(cls, tables: MatrixTables, seed: int) -> ValidityTree:
        """Return a tree learned from the flags ``valid``; raise InputError without runs.

        Runs without a flag are used for scales and noise only. Depth and class weights are those with the
        best balanced accuracy on held-out test cases. All runs are valid to a tree from flags that are all
        equal.
        """
        runs = tables.runs
        if not len(runs):
            raise InputError("none to learn from; expected at least one", place="runs")
        scales = training_statistics(tables, tables.all_metrics)
        deviation, _ = run_deviations(runs, _scale_metrics(tables, scales))
        units = tuple(tables.metrics.set_index("metric")["unit"].reindex(list(scales.metrics)).fillna(""))
        untrained = cls(scales, _metric_noise(deviation, scales, runs["group"]), units, None)
        flagged = runs["valid"].notna().to_numpy(bool)
        invalid = (~runs["valid"][flagged].astype(bool)).to_numpy(np.int64)
        if len(np.unique(invalid)) < len((0, 1)):
            return untrained
        x = _with_shares(deviation, untrained._deviation_sizes(deviation, runs["group"]))[flagged]
        tree = _best_tree(x, invalid, runs["workload"].to_numpy(object)[flagged], seed)
        return replace(untrained, tree=tree)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features: the deviation of every metric, then the shares of metrics beyond each bound."""
        return (*self.scales.metrics, *(f"metrics beyond {bound:g} times their noise" for bound in BEYOND))

    def decision_paths(self, tables: MatrixTables) -> list[str | None]:
        """Return the path of every run through the tree in words, None where the run is valid."""
        runs = tables.runs
        if self.tree is None or not len(runs):
            return [None] * len(runs)
        deviation, usual = run_deviations(runs, _scale_metrics(tables, self.scales))
        sizes = self._deviation_sizes(deviation, runs["group"])
        x = _with_shares(deviation, sizes)
        # trees compare in single precision
        probability = self.tree.predict_proba(x.astype(np.float32), check_input=False)[:, 1]
        return [
            self._describe_path(x[row], usual[row], int(sizes[row].argmax())) if invalid else None
            for row, invalid in enumerate((probability > EVEN).tolist())
        ]

    def _deviation_sizes(self, deviation: Floats, groups: pd.Series) -> Floats:
        return np.asarray(np.abs(deviation) / self.noise[self.scales.rows_of_groups(groups.tolist())])

    def _describe_path(self, x: Floats, usual: Floats, largest: int) -> str:
        """Return the conditions on the path to `x`'s leaf in words; for shares, the largest deviation too."""
        tree = self.tree.tree_
        node = 0
        bounds: dict[tuple[int, bool], float] = {}
        while tree.children_left[node] != tree.children_right[node]:
            column, threshold = int(tree.feature[node]), float(tree.threshold[node])
            above = bool(np.float32(x[column]) > threshold)
            bounds[column, above] = threshold
            node = int((tree.children_right if above else tree.children_left)[node])
        metrics = len(self.scales.metrics)
        words = [
            f"{self.feature_names[column]}={self._format_value(column, usual[column] + x[column])}"
            f" {'>' if above else '<='} {self._format_value(column, usual[column] + bound, unit=True)}"
            if column < metrics
            else f"{x[column]:.0%} {'>' if above else '<='} {bound:.0%} of the {self.feature_names[column]}"
            for (column, above), bound in bounds.items()
        ]
        if any(column >= metrics for column, _ in bounds):
            value = self._format_value(largest, usual[largest] + x[largest])
            normal = self._format_value(largest, usual[largest], unit=True)
            words.append(f"most of all {self.feature_names[largest]}={value}, usually {normal}")
        return " and ".join(words)

    def _format_value(self, column: int, scaled: float, *, unit: bool = False) -> str:
        named = f" {self.units[column]}" if unit and self.units[column] else ""
        return f"{float(np.sinh(scaled) * self.scales.units[column]):.4g}{named}"


def _with_shares(deviation: Floats, sizes: Floats) -> Floats:
    return np.column_stack([deviation, *((sizes > bound).mean(axis=1) for bound in BEYOND)])


def run_deviations(runs: pd.DataFrame, scaled: Floats) -> tuple[Floats, Floats]:
    """Return the deviation of every run from the other runs of its pair, and the usual values.

    `scaled`, shape (n_runs, n_metrics), is NaN where not measured; both results have its shape, without NaN.
    For each metric, the differences of a run from the other runs of its side (run - other) are ranked by
    absolute value, and so are those from the runs of the other side. The deviation is the median (the lower
    of two) of the one or the other ranking, whichever is nearer to 0; it is 0 without values. At most 50
    (`MAX_OTHERS`) runs of a side are compared. The usual value is the value minus the deviation.
    """
    run_places, deviation = PairSides.from_runs(runs), np.full(scaled.shape, np.nan)
    for sides in _pairs_by_size(run_places):
        for rows, beyond in (sides, sides[::-1]):
            columns = np.arange(rows.shape[1])
            spaced = _spaced_indices(len(columns) - 1)[None]
            of_side = np.concatenate(rows[:, spaced + (spaced >= columns[:, None])])
            of_other = np.repeat(beyond[:, _spaced_indices(beyond.shape[1])], len(columns), axis=0)
            for others in (of_side, of_other):
                if others.shape[1]:
                    _bring_nearer(deviation, scaled, rows.ravel(), others)
    return np.nan_to_num(deviation), np.nan_to_num(scaled - np.nan_to_num(deviation))


def _pairs_by_size(run_places: PairSides) -> Iterator[tuple[Whole, Whole]]:
    """Yield the rows of both sides, shape (n_pairs, n_runs) each, for pairs with equal numbers of runs."""
    order, counts = np.argsort(run_places.matrix_index, kind="stable"), run_places.count_runs()
    sizes = counts.ravel()
    starts = np.cumsum(sizes) - sizes
    _, kind = np.unique(counts, axis=0, return_inverse=True)
    for number in range(int(kind.max(initial=-1)) + 1):
        sides = 2 * np.flatnonzero(kind == number)[:, None] + np.arange(len(SIDES))
        baseline, target_rows = (
            order[starts[matrices][:, None] + np.arange(sizes[matrices[0]])] for matrices in sides.T
        )
        yield baseline, target_rows


def _bring_nearer(deviation: Floats, scaled: Floats, rows: Whole, others: Whole) -> None:
    """Replace deviations by the median difference from `others` where it is nearer to 0, in place."""
    # limits the memory that is needed
    step = max(1, AT_ONCE // max(1, others.shape[1] * scaled.shape[1]))
    for at in range(0, len(rows), step):
        here = rows[at : at + step]
        differences, before = scaled[here][:, None] - scaled[others[at : at + step]], deviation[here]
        order = np.argsort(np.abs(differences), axis=1, kind="stable")
        middle = np.maximum(np.isfinite(differences).sum(axis=1) - 1, 0) // 2
        place = np.take_along_axis(order, middle[:, None], axis=1)
        typical = np.take_along_axis(differences, place, axis=1)[:, 0]
        nearer = np.isnan(before) | (np.abs(typical) < np.abs(before))
        deviation[here] = np.where(nearer, typical, before)


def _spaced_indices(count: int) -> Whole:
    """Return `MAX_OTHERS` evenly spaced indices below `count`, or all where they are fewer."""
    taken = min(count, MAX_OTHERS)
    return np.arange(taken) * count // max(taken, 1)


def _scale_metrics(tables: MatrixTables, scales: MetricStatistics) -> Floats:
    values = tables.metric_values(scales.metrics)
    return scales.scale_values(np.where(np.abs(values) <= LARGEST, values, np.nan))


def _metric_noise(deviation: Floats, scales: MetricStatistics, groups: pd.Series) -> Floats:
    place = scales.rows_of_groups(groups.tolist())
    size = np.abs(deviation)
    noise = np.tile(np.median(size, axis=0), (len(scales.groups) + 1, 1))
    for group in range(len(scales.groups)):
        if (place == group).sum() >= RUNS:
            noise[group] = np.median(size[place == group], axis=0)
    return np.maximum(noise / MEDIAN_DEVIATION, FLOOR)


def _best_tree(x: Floats, invalid: Labels, workload: NDArray[Any], seed: int) -> Any:
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.model_selection import GroupKFold
    from sklearn.tree import DecisionTreeClassifier

    def fit_tree(depth: int, weight: str | None, chosen: Whole) -> Any:
        tree = DecisionTreeClassifier(
            max_depth=depth, min_samples_leaf=LEAF, class_weight=weight, random_state=seed
        )
        return tree.fit(rows[chosen], invalid[chosen], check_input=False)

    # trees compare in single precision
    rows, every = x.astype(np.float32), np.arange(len(x))
    settings = [(depth, weight) for depth in DEPTHS for weight in WEIGHTS]
    parts = min(PARTS, len(np.unique(workload.astype(str))))
    if parts == 1:
        return fit_tree(*settings[0], every)
    predicted = np.zeros((len(settings), len(x)), np.int64)
    for train, test in GroupKFold(parts, shuffle=True, random_state=seed).split(x, invalid, workload):
        # shallower trees are the upper parts of the deepest
        deepest = [fit_tree(max(DEPTHS), weight, train) for weight in WEIGHTS]
        by_depth = np.stack([_predict_by_depth(tree, rows[test]) for tree in deepest], axis=1)
        predicted[:, test] = by_depth.reshape(len(settings), -1)
    accuracies = [balanced_accuracy_score(invalid, of_tree) for of_tree in predicted]
    return fit_tree(*settings[int(np.argmax(accuracies))], every)


def _predict_by_depth(tree: Any, rows: NDArray[np.float32]) -> Whole:
    """Return the class of each row if the fitted `tree` ended at each of `DEPTHS`, (n_depths, n_rows)."""
    paths = tree.decision_path(rows, check_input=False)
    first, length = paths.indptr[:-1], np.diff(paths.indptr)
    ends = [paths.indices[first + np.minimum(depth, length - 1)] for depth in DEPTHS]
    return np.asarray(tree.tree_.value[np.stack(ends), 0].argmax(axis=-1))
