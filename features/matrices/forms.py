"""Forms: feature vectors of pairs of matrices (matrix paper, section 4.5, and `contrast_pairs`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.matrices.tables import SIDES, Flags, Floats, MatrixTables, Whole
from data.matrices.validity import group_by_size, median_and_count


def sum_by_group(values: Floats, weights: Floats, place: Whole, groups: int) -> Floats:
    """Return weighted sums of `values` by group, and the sums of weights, shape (2, n_groups + 1, n_metrics).

    `values` and `weights`: shape (n_rows, n_metrics); NaN has weight 0. `place`: shape (n_rows,), the index
    of the group, or `groups` (the number of groups) if it is unknown; these are in the last row.
    """
    weights = np.where(np.isnan(values), 0.0, weights)
    sums = np.zeros((2, groups + 1, values.shape[1]))
    np.add.at(sums[0], place, weights * np.nan_to_num(values))
    np.add.at(sums[1], place, weights)
    return sums


def shrunk_means(sums: Floats, prior: float) -> Floats:
    """Return the means by group, shrunk towards that of all groups, which is the last row.

    `sums`: as `sum_by_group` returns them. `prior` is the weight of the mean of all groups.
    """
    weighted, totals = sums
    every = weighted.sum(axis=0) / np.maximum(totals.sum(axis=0), 1)
    means = (weighted + prior * every) / (totals + prior)
    means[-1] = every
    return np.asarray(means)


ABOUT = ("run_id", "pair_id", "workload", "group", "side")


@dataclass(frozen=True)
class MatrixPairs:
    """Both matrices of each pair, in scaled values; arrays of shape (2, n_pairs, n_metrics)."""

    about: pd.DataFrame  # n_pairs rows, as in `Rows`: of the first run of the target, else of the pair
    middles: Floats  # medians of the runs; NaN without values
    spreads: Floats  # variances of the runs; NaN with fewer than two values
    counts: Floats  # numbers of runs that measured the metric

    @classmethod
    def from_tables(cls, tables: MatrixTables, scaled: Floats) -> MatrixPairs:
        """Return medians, variances and counts of the runs of both matrices of each pair of `tables`.

        `scaled`: the metrics in scaled values (`MetricStatistics.scale_values`), shape (n_runs, n_metrics).
        """
        sides, pairs = tables.pair_sides, len(tables.pair_sides.names)
        statistics = summarise_groups(sides.target * pairs + sides.pair, scaled, 2 * pairs)
        middles, spreads, counts = (table.reshape(2, pairs, scaled.shape[1]) for table in statistics)
        return cls(describe_runs(tables.runs, sides.first_rows), middles, spreads, counts)

    @property
    def median_difference(self) -> Floats:
        """Target median minus baseline median, shape (n_pairs, n_metrics); NaN if one is missing."""
        return np.asarray(self.middles[1] - self.middles[0])


def describe_runs(runs: pd.DataFrame, rows: Whole) -> pd.DataFrame:
    """Return ``run_id, pair_id, workload, group, side`` of the runs at row numbers `rows`, in their order."""
    return pd.DataFrame({name: runs[name].to_numpy(object)[rows] for name in ABOUT}, dtype=object)


def summarise_groups(place: Whole, values: Floats, n_groups: int) -> tuple[Floats, Floats, Floats]:
    """Return medians, variances (by n - 1) and numbers of values that are not NaN, by group and column.

    place: shape (n_rows,), the group of each row, from 0 to `n_groups`, exclusive. values: shape (n_rows,
    n_columns), NaN where not measured, none infinite. Results have shape (n_groups, n_columns), all floats;
    without values, medians are NaN and numbers 0; variances are NaN with fewer than two values.
    """
    shape = (n_groups, values.shape[1])
    middles, spreads, counts = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape)
    for here, rows in group_by_size(place, n_groups):
        sides = np.sort(values[rows], axis=1)
        middles[here], counts[here] = median_and_count(sides)
        finite, count = np.isfinite(sides), counts[here]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(finite, sides, 0.0).sum(axis=1) / count
            deviations = np.where(finite, sides - mean[:, None], 0.0)
            spreads[here] = np.where(count > 1, (deviations**2).sum(axis=1) / (count - 1), np.nan)
    return middles, spreads, counts


#: Share of a metric's nonzero values that are indistinguishable from zero.
SMALL = 0.05
#: Least uncertainty of a difference, as a share of the value.
FLOOR = 0.01
#: Least uncertainty where one of the two values is zero: rare events are counted one by one.
ZERO = 0.3
#: Weight of the statistics of all groups in those of one group, as a number of pairs and of runs.
PAIRS, RUNS = 10.0, 8.0
#: Least number of normal pairs to estimate how much they differ.
FEW = 5
#: Bound of deviations in percent.
MOST_PER_CENT = 1e6
#: Bound of medians; standardised, they are numbers of 32 bits, which classifiers need.
LARGEST = 1e30
#: Metrics are counted whose difference exceeds so many units of noise.
BEYOND = (2.0, 3.0, 5.0, 10.0)
#: Powers of the means of differences.
POWERS = (2, 4)
#: Ranks and upper quantiles of the differences over all metrics.
LEADING, SHARES = (1, 2, 3, 5, 10), (0.1, 0.25, 0.5, 0.75)
#: Number of columns of `contrast_pairs` that are of no single metric.
SUMMARY_COLUMNS = len(LEADING) + len(SHARES) + 3 * len(BEYOND) + len(POWERS) + 2


@dataclass(frozen=True)
class Rows:
    """Feature rows of a classifier."""

    x: Floats  # shape (n_rows, n_columns): Finite
    columns: tuple[str, ...]
    #: ``run_id, pair_id, workload, group, side``, row by row; a form of one row per pair has its first target
    #: run's.
    about: pd.DataFrame
    y: Floats  # shape (n_rows,): 1 is abnormal, 0 normal; NaN without a label
    blocks: int = 1  # how often the columns repeat the same metrics
    n_other_columns: int = 0  # number of columns at the end that are not metrics; they are not projected

    def select_rows(self, chosen: Flags | Whole) -> Rows:
        """Return the rows selected by a mask, shape (n_rows,), or by indices, shape (n_selected,)."""
        about = self.about.iloc[chosen].reset_index(drop=True)
        return replace(self, x=self.x[chosen], about=about, y=self.y[chosen])


def concat_rows(parts: Sequence[Rows]) -> Rows:
    """Return the rows of `parts`, which have equal columns, part by part; ValueError without a part."""
    about = pd.concat([part.about for part in parts], ignore_index=True)
    x, y = np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts])
    return replace(parts[0], x=x, about=about, y=y)


@dataclass(frozen=True)
class MetricStatistics:
    """Statistics of the training tables that the forms use.

    Differences are of scaled values, ``arcsinh(value / unit)``: nearly proportional to the value below the
    unit, and to its logarithm, with its sign, beyond.
    """

    metrics: tuple[str, ...]  # length n_metrics
    middles: Floats  # shape (n_metrics,): Medians, which fill gaps; 0 where a metric was never measured
    units: Floats  # shape (n_metrics,): The small values of each metric
    groups: tuple[str, ...]  # length n_groups
    #: Shape (n_groups + 1, n_metrics): Mean squared difference of the two middles of normal pairs, by group;
    #: the last row is of all groups.
    drift: Floats
    spread: Floats  # shape (n_groups + 1, n_metrics): Variance of the runs of one matrix

    @classmethod
    def from_scales(cls, metrics: Sequence[str], scales: Floats, groups: Sequence[str]) -> MetricStatistics:
        """Return statistics with medians and units, `scales` of shape (n_metrics, 2), and noise 0."""
        zeros = np.zeros((len(groups) + 1, len(metrics)))
        return cls(tuple(metrics), scales[:, 0], scales[:, 1], tuple(groups), zeros, zeros)

    def scale_values(self, values: Floats) -> Floats:
        """Return ``arcsinh(value / unit)``, shape (..., n_metrics) as `values`; NaN stays NaN."""
        return np.arcsinh(values / self.units)

    def scale_metrics(self, tables: MatrixTables) -> Floats:
        """Return the scaled metrics of all runs, shape (n_runs, n_metrics); NaN where not finite."""
        return self.scale_values(_finite_values(tables, self.metrics))

    def rows_of_groups(self, groups: Sequence[str]) -> Whole:
        """Return the row of `drift` and `spread` for each of `groups`, shape (n,), the last if unknown."""
        rows = {group: row for row, group in enumerate(self.groups)}
        return np.array([rows.get(group, len(rows)) for group in groups], np.intp)


Form = Callable[[MatrixTables, MetricStatistics], Rows]


def training_statistics(tables: MatrixTables, metrics: Sequence[str]) -> MetricStatistics:
    """Return medians, units and noise of `metrics` in training tables, which the forms use.

    ``middles`` are the medians, ``units`` a small absolute value of each metric, see `middle_and_unit`, both
    of shape (n_metrics,). The noise is that of ``arcsinh(value / unit)``, in a row per workload group, in the
    order of ``groups``, shrunk towards the last row, that of all groups. ``spread``, the variance of runs, is
    estimated from the baselines of all pairs. ``drift``, the mean squared difference of the two medians of a
    pair, is estimated from the pairs labelled normal; from all pairs not labelled abnormal if fewer than
    `FEW` (5) pairs of all groups together are labelled normal. A metric without values has the median 0, the
    unit 1 and the noise 0.
    """
    scales = np.array([middle_and_unit(column) for column in _finite_values(tables, metrics).T])
    groups = sorted(tables.runs["group"].unique())
    start = MetricStatistics.from_scales(metrics, scales.reshape(-1, 2), groups)
    return NoiseSums.from_tables(tables, start).estimate_noise(start)


def middle_and_unit(column: Floats) -> tuple[float, float]:
    """Return the median of a metric's values, and the 5 % quantile of absolute nonzero values, its unit.

    NaN is ignored. The median is 0 without values, the unit is 1 without nonzero values. The quantile is not
    interpolated; of up to 20 values, it is the smallest.
    """
    values = column[~np.isnan(column)]
    middle = float(np.median(values)) if values.size else 0.0
    sizes = np.abs(values[values != 0])
    small = int(SMALL * (sizes.size - 1))
    return middle, float(np.partition(sizes, small)[small]) if sizes.size else 1.0


@dataclass(frozen=True)
class NoiseSums:
    """Sums (`sum_by_group`) of squared differences of pairs and variances of runs; instances can be added."""

    normal: int  # pairs that are known to be normal
    #: drift, likely: squared differences of those, and of all that are not known to be abnormal.
    drift: Floats
    likely: Floats
    spread: Floats  # variances of the runs of a baseline

    @classmethod
    def from_tables(cls, tables: MatrixTables, start: MetricStatistics) -> NoiseSums:
        """Return the sums over all pairs of `tables`, in values scaled by the units of `start`."""
        groups = len(start.groups)
        matrices = MatrixPairs.from_tables(tables, start.scale_metrics(tables))
        place = start.rows_of_groups(matrices.about["group"].tolist())
        labels, squared = pair_labels(tables), matrices.median_difference**2
        drift, likely = (
            sum_by_group(squared[rows], np.ones_like(squared[rows]), place[rows], groups)
            for rows in (labels == 0, labels != 1)
        )
        weight = np.maximum(matrices.counts[0] - 1, 0)
        spread = sum_by_group(matrices.spreads[0], weight, place, groups)
        return cls(int((labels == 0).sum()), drift, likely, spread)

    def __add__(self, other: NoiseSums) -> NoiseSums:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return NoiseSums(*(mine + theirs for mine, theirs in pairs))

    def estimate_noise(self, start: MetricStatistics) -> MetricStatistics:
        """Return a copy of `start` with `drift` and `spread` estimated from these sums, by group."""
        # with few pairs labelled normal, unlabelled pairs are used, too
        drift = self.drift if self.normal >= FEW else self.likely
        return replace(start, drift=shrunk_means(drift, PAIRS), spread=shrunk_means(self.spread, RUNS))


def flatten_runs(tables: MatrixTables, statistics: MetricStatistics) -> Rows:
    """Return one row per run: its metrics, with training medians in place of missing and infinite values.

    The features ``x`` have the columns ``statistics.metrics``; ``about`` is `describe_runs`. The label ``y``
    is 0 (normal) for baseline runs, else the run's flag ``abnormal`` (1, 0, NaN if unknown).
    """
    runs = tables.runs
    y = np.where(runs["side"] == SIDES[0], 0.0, abnormal_flags(runs))
    about = describe_runs(runs, np.arange(len(runs)))
    return Rows(fill_gaps(tables, statistics), statistics.metrics, about, y)


def concatenate_runs(tables: MatrixTables, statistics: MetricStatistics) -> Rows:
    """Return one row per target run: the metrics of a baseline run of its pair, then the target run's.

    The n-th target run is matched with the n-th baseline run; if there are fewer baseline runs, these are
    reused from the first on. Target runs without a baseline are left out, the others keep their order.
    Columns are ``baseline <metric>``, then ``target <metric>``. Gaps and infinite values are filled with the
    training median. The label ``y`` is the target run's flag ``abnormal`` (1, 0, NaN if unknown).
    """
    target, baseline = _baseline_partners(tables)
    filled = fill_gaps(tables, statistics)
    columns = tuple(f"{side} {metric}" for side in SIDES for metric in statistics.metrics)
    x = np.hstack([filled[baseline], filled[target]])
    return Rows(x, columns, describe_runs(tables.runs, target), abnormal_flags(tables.runs)[target], blocks=2)


def subtract_baselines(tables: MatrixTables, statistics: MetricStatistics) -> Rows:
    """Return one row per target run: the deviation, in percent, of each metric from a baseline run.

    Positive where the target is larger. The n-th target run of a pair is matched with the n-th baseline run;
    if these are fewer, they are reused from the first. Target runs without a baseline are left out, the
    others keep their order. The label ``y`` is the target run's flag ``abnormal`` (1, 0, NaN if unknown).
    Deviations are relative to the size of the baseline's value, or to the metric's smallest usual size (the
    unit in `middle_and_unit`) if that is larger; they are cut at ``+-MOST_PER_CENT`` (a million), and 0 where
    a value is missing or infinite on either side.
    """
    target, baseline = _baseline_partners(tables)
    values = _finite_values(tables, statistics.metrics)
    base = values[baseline]
    x = 100 * (values[target] - base) / np.maximum(np.abs(base), statistics.units)
    x = np.clip(np.nan_to_num(x), -MOST_PER_CENT, MOST_PER_CENT)
    about, y = describe_runs(tables.runs, target), abnormal_flags(tables.runs)[target]
    return Rows(x, statistics.metrics, about, y)


def contrast_pairs(tables: MatrixTables, statistics: MetricStatistics) -> Rows:
    """Return one row per pair: target median minus baseline median, in units of the metric's noise.

    The noise of a metric is the larger of two: the spread of the differences of normal training pairs of the
    group, scaled by how much the runs of this baseline vary compared with the group; and the difference to
    expect from the runs of these two matrices. The runs' variance is the baseline's, moderated by the group's
    (Smyth 2004, "Linear models and empirical Bayes methods"). Values are compressed by ``arcsinh`` before
    subtraction, differences after division. A metric missing on one side counts as equal; a pair with a side
    without any value is left out. Rows are in the order of the pairs' first runs. The label ``y`` is 1 if a
    target run is abnormal, 0 if some are normal and none abnormal, else NaN.

    Further columns: the `size_statistics` of these differences (before the second ``arcsinh``); "mean
    spread", the mean over all metrics of log(target's / baseline's standard deviation), 0 if unknown;
    "metrics that the target lacks", the share of metrics that only the baseline has.
    """
    matrices = MatrixPairs.from_tables(tables, statistics.scale_metrics(tables))
    place = statistics.rows_of_groups(matrices.about["group"].tolist())
    units = np.nan_to_num(matrices.median_difference / chance_deviation(matrices, statistics, place))
    spread = np.log((matrices.spreads[1] + FLOOR**2) / (matrices.spreads[0] + FLOOR**2)) / 2
    lacks = (matrices.counts[0] > 0) & (matrices.counts[1] == 0)
    summary_columns = size_statistics(units) | {
        "mean spread": np.nan_to_num(spread).mean(axis=1),
        "metrics that the target lacks": lacks.mean(axis=1),
    }
    x = np.column_stack([np.arcsinh(units), *summary_columns.values()])
    columns, n_other = (*statistics.metrics, *summary_columns), len(summary_columns)
    rows = Rows(x, columns, matrices.about, pair_labels(tables), n_other_columns=n_other)
    has_both = (matrices.counts.max(axis=2, initial=0) > 0).all(axis=0)
    return rows if has_both.all() else rows.select_rows(has_both)


def join_medians(tables: MatrixTables, statistics: MetricStatistics) -> Rows:
    """Return one row per pair: the medians of the baseline and of the target, and their differences.

    Columns are ``baseline <metric>``, ``target <metric>``, then ``difference <metric>``, target minus
    baseline, in the metrics' own units, cut at ``+-LARGEST`` (1e30). A metric missing on one side has the
    training median there, and the difference 0. Rows are in the order of the pairs' first runs; the label
    ``y`` is that of `contrast_pairs`.
    """
    matrices = MatrixPairs.from_tables(tables, _finite_values(tables, statistics.metrics))
    medians = np.where(np.isnan(matrices.middles), statistics.middles, matrices.middles)
    # the difference of two finite numbers may be infinite
    with np.errstate(over="ignore"):
        difference = np.nan_to_num(matrices.median_difference)
    columns = tuple(f"{part} {metric}" for part in (*SIDES, "difference") for metric in statistics.metrics)
    x = np.clip(np.hstack([*medians, difference]), -LARGEST, LARGEST)
    return Rows(x, columns, matrices.about, pair_labels(tables))


def join_forms(tables: MatrixTables, statistics: MetricStatistics) -> Rows:
    """Return one row per pair: the columns of `contrast_pairs`, then those of `join_medians`.

    Pairs, order and labels are those of `contrast_pairs`. None of the medians is projected.
    """
    rows, medians = contrast_pairs(tables, statistics), join_medians(tables, statistics)
    if len(rows.x) < len(medians.x):
        medians = medians.select_rows(medians.about["pair_id"].isin(rows.about["pair_id"]).to_numpy(bool))
    x, columns = np.hstack([rows.x, medians.x]), (*rows.columns, *medians.columns)
    n_other = rows.n_other_columns + medians.x.shape[1]
    return replace(rows, x=x, columns=columns, n_other_columns=n_other)


def split_forms(x: Floats) -> tuple[Floats, Floats]:
    """Return the columns of `contrast_pairs` and those of `join_medians`, from rows of `join_forms`.

    `x` has shape (n_rows, n_columns); the results are views.
    """
    metrics = (x.shape[1] - SUMMARY_COLUMNS) // 4
    return x[:, : metrics + SUMMARY_COLUMNS], x[:, metrics + SUMMARY_COLUMNS :]


def chance_deviation(matrices: MatrixPairs, statistics: MetricStatistics, place: Whole) -> Floats:
    """Return the standard deviation that the difference of medians of a pair has by chance.

    Shape (n_pairs, n_metrics), above 0 and finite, in scaled values (``arcsinh(value / unit)``). place: shape
    (n_pairs,), the row of the pair's group in `statistics`, from `MetricStatistics.rows_of_groups`.
    """
    degrees = np.maximum(matrices.counts[0] - 1, 0)
    usual = statistics.spread[place]
    moderated = (RUNS * usual + degrees * np.nan_to_num(matrices.spreads[0])) / (RUNS + degrees)
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = moderated * (1 / matrices.counts).sum(axis=0)
    chance[~np.isfinite(chance)] = 0
    least = np.where((matrices.middles == 0).any(axis=0), ZERO, FLOOR) ** 2
    # matrices vary more where runs vary more than in training
    drift = statistics.drift[place] * (moderated + least) / (usual + least)
    return np.asarray(np.sqrt(np.maximum(drift, chance) + least))


def abnormal_flags(runs: pd.DataFrame) -> Floats:
    """Return the flag ``abnormal`` of each run, shape (n_runs,): 1, 0, or NaN."""
    return runs["abnormal"].astype("boolean").to_numpy(np.float64, na_value=np.nan)


FORMS: dict[str, Form] = {
    "flattened": flatten_runs,
    "concatenated": concatenate_runs,
    "subtracted": subtract_baselines,
    "contrasted": contrast_pairs,
    "medians": join_medians,
    "joined": join_forms,
}
#: Forms with a row per pair (the others have a row per run); those of them that depend on the noise.
PAIR_FORMS = frozenset({"contrasted", "medians", "joined"})
NOISE_FORMS = frozenset({"contrasted", "joined"})


def _finite_values(tables: MatrixTables, metrics: Sequence[str]) -> Floats:
    values = tables.metric_values(metrics)
    return np.where(np.isfinite(values), values, np.nan)


def fill_gaps(tables: MatrixTables, statistics: MetricStatistics) -> Floats:
    """Return the metrics of all runs, (n_runs, n_metrics), with training medians for values not finite."""
    values = _finite_values(tables, statistics.metrics)
    return np.where(np.isnan(values), statistics.middles, values)


def pair_labels(tables: MatrixTables) -> Floats:
    """Return 1 for pairs with an abnormal target run, 0 with only normal ones among the flagged, else NaN.

    Shape (n_pairs,), in the order of the pairs' first runs.
    """
    flagged = abnormal_flags(tables.runs)
    normal, abnormal = (tables.pair_sides.count_runs(flagged == label)[:, 1] > 0 for label in (0, 1))
    return np.where(abnormal, 1.0, np.where(normal, 0.0, np.nan))


def _baseline_partners(tables: MatrixTables) -> tuple[Whole, Whole]:
    """Return the row of each target run that has a baseline, and of the baseline run of the same number."""
    number = tables.runs.groupby(["pair_id", "side"]).cumcount().to_numpy()
    sides, sizes = tables.pair_sides, tables.pair_sides.count_runs()[:, 0]
    pair, rows = sides.pair, np.flatnonzero(~sides.target)
    rows, starts = rows[np.argsort(pair[rows], kind="stable")], np.cumsum(sizes) - sizes
    target = np.flatnonzero(sides.target & (sizes[pair] > 0))
    return target, rows[starts[pair[target]] + number[target] % sizes[pair[target]]]


def size_statistics(units: Floats) -> dict[str, Floats]:
    """Return statistics of the differences of all metrics together, by name, each of shape (n_pairs,).

    `units`: shape (n_pairs, n_metrics), at least one metric; differences in units of their noise, positive
    where the target is larger; without NaN. The statistics are arcsinh of the 1st, 2nd, 3rd, 5th and 10th
    largest size (absolute value; the smallest, if there are fewer metrics) and of the sizes that 10, 25, 50
    and 75 % of the metrics reach; the shares (0 to 1) of metrics beyond 2, 3, 5 and 10, in either direction,
    up, and down; log(1 + power mean) of the powers 2 and 4. Names are, for example, "largest difference 1",
    "difference at 10%", "metrics beyond 2", "metrics that rise beyond 2" and "mean difference of power 4".
    """
    sizes, metrics = np.abs(units), units.shape[1]
    ranks = {f"largest difference {rank}": min(rank, metrics) for rank in LEADING}
    ranks |= {f"difference at {share:.0%}": int(share * (metrics - 1)) + 1 for share in SHARES}
    # only a few order statistics are needed
    ordered = np.partition(sizes, sorted({metrics - rank for rank in ranks.values()}), axis=1)
    statistics = {name: np.arcsinh(ordered[:, metrics - rank]) for name, rank in ranks.items()}
    rise, fall = ([(way > bound).sum(axis=1) for bound in BEYOND] for way in (units, -units))
    either = [up + down for up, down in zip(rise, fall, strict=True)]
    for words, counts in (("", either), (" that rise", rise), (" that fall", fall)):
        shares = zip(BEYOND, counts, strict=True)
        statistics |= {f"metrics{words} beyond {bound:g}": count / metrics for bound, count in shares}
    for power in POWERS:
        # powers are even; squaring twice takes a fraction of raising to the fourth power
        raised = (sizes**2) ** (power // 2)
        statistics[f"mean difference of power {power}"] = np.log1p(raised.mean(axis=1) ** (1 / power))
    return statistics


@dataclass(frozen=True)
class Removal:
    """Rows of pairs that can be recomputed without some of the differences between the sides."""

    rows: Rows  # of targets, as they are, those of a pair one after the other
    #: Shape as ``rows.x``: The rows after the runs of each target were moved so that their medians are the
    #: baseline's; None for rows that are differences themselves.
    still: Floats | None
    pairs: NDArray[Any]  # shape (n_pairs,)
    sizes: Floats  # shape (n_pairs, n_metrics): How much the sides differ, in units of noise
    #: starts, counts: shape (n_pairs,): The first row of each pair, and how many it has.
    starts: Whole
    counts: Whole

    @classmethod
    def from_rows(cls, form: str, tables: MatrixTables, statistics: MetricStatistics, rows: Rows) -> Removal:
        """Return the removal for `rows`, made by ``FORMS[form]`` from `tables`; all pairs have both sides."""
        metrics = len(statistics.metrics)
        if form in NOISE_FORMS:
            pairs = np.arange(len(rows.x))
            names = rows.about["pair_id"].to_numpy(object)
            return cls(rows, None, names, np.abs(np.sinh(rows.x[:, :metrics])), pairs, np.ones_like(pairs))
        runs, membership = tables.runs, tables.pair_sides
        scaled = statistics.scale_metrics(tables)
        matrices = MatrixPairs.from_tables(tables, scaled)
        difference = np.nan_to_num(matrices.median_difference)
        moved = np.sinh(scaled - difference[membership.pair]) * statistics.units
        values = np.where(membership.target[:, None], moved, tables.metric_values(statistics.metrics))
        numbers = pd.DataFrame(values, runs.index, list(statistics.metrics))
        still = pd.concat([runs.drop(columns=list(statistics.metrics)), numbers], axis="columns")
        place = statistics.rows_of_groups(matrices.about["group"].tolist())
        size = np.abs(difference) / chance_deviation(matrices, statistics, place)
        pair_of_row = pd.Index(membership.names).get_indexer(rows.about["pair_id"])
        targets = np.flatnonzero((rows.about["side"] == SIDES[1]).to_numpy(bool))
        order = targets[np.argsort(pair_of_row[targets], kind="stable")]
        counts = np.bincount(pair_of_row[targets], minlength=len(membership.names))
        x = FORMS[form](tables.with_runs(still), statistics).x[order]
        return cls(rows.select_rows(order), x, membership.names, size, np.cumsum(counts) - counts, counts)

    def without_differences(self, pair: Whole, removed: Flags) -> tuple[Floats, Whole]:
        """Return the rows of versions of pairs, without the differences of some metrics.

        pair: shape (n_versions,), the pair of each version. removed: shape (n_versions, n_metrics), the
        metrics whose difference is removed. Returns rows, shape (n_version_rows, n_columns), and the version
        of each row, ascending.
        """
        counts = self.counts[pair]
        version = np.repeat(np.arange(len(pair)), counts)
        row = self.starts[pair][version] + np.arange(len(version)) - (np.cumsum(counts) - counts)[version]
        x, removed = self.rows.x[row], removed[version]
        if self.still is not None:
            # columns of the baseline do not change
            return np.where(np.tile(removed, x.shape[1] // removed.shape[1]), self.still[row], x), version
        metrics = removed.shape[1]
        x[:, :metrics][removed] = 0
        units = self._noise_units[row]
        units[removed] = 0
        for column, statistic in enumerate(size_statistics(units).values(), start=metrics):
            x[:, column] = statistic
        if x.shape[1] > metrics + SUMMARY_COLUMNS:
            baseline, target, difference = np.split(split_forms(x)[1], 3, axis=1)
            target[removed] = baseline[removed]
            difference[removed] = 0
        return x, version

    @cached_property
    def _noise_units(self) -> Floats:
        """The differences of rows that are differences, in units of noise."""
        return np.asarray(np.sinh(self.rows.x[:, : self.sizes.shape[1]]))
