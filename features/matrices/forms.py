"""Forms: the features of a pair of matrices that a classifier sees (seed 001, section 4.5, and one more)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.matrices.tables import SIDES, MatrixTables
from data.matrices.validity import middle, stacks


@dataclass(frozen=True)
class GroupSums:
    """Weighted sums by group, which can be added."""

    #: sums, totals: shape (n_groups + 1, n_metrics): Of values times weights, and of weights; the last row is
    #: of unknown groups.
    sums: Floats
    totals: Floats

    @classmethod
    def of(cls, values: Floats, weights: Floats, place: Whole, groups: int) -> GroupSums:
        """Sum up `values`; a missing one weighs nothing."""
        weights = np.where(np.isnan(values), 0.0, weights)
        sums, totals = np.zeros((2, groups + 1, values.shape[1]))
        np.add.at(sums, place, weights * np.nan_to_num(values))
        np.add.at(totals, place, weights)
        return cls(sums, totals)

    def __add__(self, other: GroupSums) -> GroupSums:
        return GroupSums(self.sums + other.sums, self.totals + other.totals)

    def means(self, prior: float) -> Floats:
        """Return the means by group, shrunk towards that of all groups, which is the last row."""
        every = self.sums.sum(axis=0) / np.maximum(self.totals.sum(axis=0), 1)
        means = (self.sums + prior * every) / (self.totals + prior)
        means[-1] = every
        return means


ABOUT = ("run_id", "pair_id", "workload", "group", "side")


@dataclass(frozen=True)
class MatrixPairs:
    """Both matrices of each pair, in scaled values: the first axis is the side, the second the pair."""

    #: DataFrame, n_pairs rows: As in `features.matrices.forms.Rows`, of the first run of the target, else of
    #: the pair.
    about: pd.DataFrame
    #: middles, spreads, counts: shape (2, n_pairs, n_metrics): Median and variance of the runs, and how many
    #: measured the metric; NaN where none, or fewer than two, did.
    middles: Floats
    spreads: Floats
    counts: Floats

    @classmethod
    def of(cls, tables: MatrixTables, scaled: Floats) -> MatrixPairs:
        """Summarise the runs of `tables`, whose metrics are `scaled`."""
        pair, side, pairs = tables.standing.pair, tables.standing.target, len(tables.standing.names)
        order = np.lexsort((np.arange(len(pair)), ~side, pair))
        first = order[np.searchsorted(pair[order], np.arange(pairs))]
        summed = (
            found.reshape(2, pairs, found.shape[1])
            for found in summarised(side * pairs + pair, scaled, 2 * pairs)
        )
        return cls(about(tables.runs, first), *summed)

    @property
    def difference(self) -> Floats:
        """Middle of the target less that of the baseline, shape (n_pairs, n_metrics)."""
        return np.asarray(self.middles[1] - self.middles[0])


def about(runs: pd.DataFrame, rows: Whole) -> pd.DataFrame:
    """Return the descriptive columns `ABOUT` of the runs at `rows`."""
    return pd.DataFrame({name: runs[name].to_numpy(object)[rows] for name in ABOUT}, dtype=object)


def summarised(place: Whole, values: Floats, places: int) -> tuple[Floats, Floats, Floats]:
    """Return median, variance and count of each column of `values`, over the rows with equal `place`.

    Parameters
    ----------
    place : ndarray of shape (n_rows,)
        From 0 to `places`, exclusive.
    values : ndarray of shape (n_rows, n_columns)
        NaN is not measured.

    Returns
    -------
    middles, spreads, counts : ndarray of shape (places, n_columns)
        Medians are NaN without values, variances with fewer than two.
    """
    shape = (places, values.shape[1])
    middles, spreads, counts = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape)
    for here, rows in stacks(place, places):
        sides = np.sort(values[rows], axis=1)
        middles[here], counts[here] = middle(sides)
        spreads[here] = _variance(sides, counts[here])
    return middles, spreads, counts


def _variance(rows: Floats, count: Floats) -> Floats:
    known = np.isfinite(rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, rows, 0.0).sum(axis=1) / count
        apart = np.where(known, rows - mean[:, None], 0.0)
        return np.asarray(np.where(count > 1, (apart**2).sum(axis=1) / (count - 1), np.nan))


Floats = NDArray[np.float64]
Whole = NDArray[np.intp]

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
#: Metrics are counted whose difference exceeds so many units of noise.
BEYOND = (2.0, 3.0, 5.0, 10.0)
#: Powers of the means of differences.
POWERS = (2, 4)
#: Ranks and upper quantiles of the differences over all metrics.
LEADING, SHARES = (1, 2, 3, 5, 10), (0.1, 0.25, 0.5, 0.75)


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
    beside: int = 0  # number of columns at the end that are not metrics; they are not projected

    def of(self, chosen: NDArray[np.bool_] | Whole) -> Rows:
        """Return the rows selected by a mask or by indices."""
        about = self.about.iloc[chosen].reset_index(drop=True)
        return replace(self, x=self.x[chosen], about=about, y=self.y[chosen])


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several `parts` of the same columns, one after the other."""
    about = pd.concat([part.about for part in parts], ignore_index=True)
    x, y = np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts])
    return replace(parts[0], x=x, about=about, y=y)


@dataclass(frozen=True)
class Known:
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
    def scaling(cls, metrics: Sequence[str], scales: Floats, groups: Sequence[str]) -> Known:
        """Return statistics with medians and units, given as shape (n_metrics, 2), and without noise."""
        nothing = np.zeros((len(groups) + 1, len(metrics)))
        return cls(tuple(metrics), scales[:, 0], scales[:, 1], tuple(groups), nothing, nothing)

    def scaled(self, values: Floats) -> Floats:
        """Return ``arcsinh(value / unit)``, shape as `values`."""
        return np.arcsinh(values / self.units)

    def unscaled(self, values: Floats) -> Floats:
        """Return the metrics' values, given the result of `scaled`."""
        return np.sinh(values) * self.units

    def places(self, groups: Sequence[str]) -> Whole:
        """Return the row of `drift` and `spread` for each of `groups`."""
        known = {group: place for place, group in enumerate(self.groups)}
        return np.array([known.get(group, len(known)) for group in groups], np.intp)


Form = Callable[[MatrixTables, Known], Rows]


def known(tables: MatrixTables, metrics: Sequence[str]) -> Known:
    """Compute the statistics that the forms need, from training tables.

    Parameters
    ----------
    tables : MatrixTables
        The noise is estimated from pairs whose target runs are all labelled normal, per value of the column
        ``group``.
    metrics : sequence of str
        The metrics that the forms use.
    """
    scales = np.array([middle_and_unit(column) for column in _finite(tables, metrics).T]).reshape(-1, 2)
    start = Known.scaling(metrics, scales, sorted(tables.runs["group"].unique()))
    return NoiseSums.of(tables, start).learned(start)


def middle_and_unit(column: Floats) -> tuple[float, float]:
    """Return the median of a metric's values, and the largest size that counts as small; NaN is ignored."""
    found = column[~np.isnan(column)]
    middle = float(np.median(found)) if found.size else 0.0
    apart = np.abs(found[found != 0])
    small = int(SMALL * (apart.size - 1))
    return middle, float(np.partition(apart, small)[small]) if apart.size else 1.0


@dataclass(frozen=True)
class NoiseSums:
    """Sums of squared differences of pairs and of variances of runs; instances can be added."""

    normal: int  # pairs that are known to be normal
    #: drift, likely: squared differences of those, and of all that are not known to be abnormal.
    drift: GroupSums
    likely: GroupSums
    spread: GroupSums  # variances of the runs of a baseline

    @classmethod
    def of(cls, tables: MatrixTables, start: Known) -> NoiseSums:
        """Sum up whole pairs, in the scales of `start`."""
        groups = len(start.groups)
        matrices = MatrixPairs.of(tables, start.scaled(_finite(tables, start.metrics)))
        place = start.places(matrices.about["group"].tolist())
        labels, squared = _pair_labels(tables), matrices.difference**2
        drift, likely = (
            GroupSums.of(squared[rows], np.ones_like(squared[rows]), place[rows], groups)
            for rows in (labels == 0, labels != 1)
        )
        weight = np.maximum(matrices.counts[0] - 1, 0)
        spread = GroupSums.of(matrices.spreads[0], weight, place, groups)
        return cls(int((labels == 0).sum()), drift, likely, spread)

    def __add__(self, other: NoiseSums) -> NoiseSums:
        drift, likely, spread = (
            self.drift + other.drift,
            self.likely + other.likely,
            self.spread + other.spread,
        )
        return NoiseSums(self.normal + other.normal, drift, likely, spread)

    def learned(self, start: Known) -> Known:
        """Return a copy of `start` with the noise estimated from these sums."""
        # with few pairs labelled normal, unlabelled pairs are used, too
        drift = self.drift if self.normal >= FEW else self.likely
        return replace(start, drift=drift.means(PAIRS), spread=self.spread.means(RUNS))


def flattened(tables: MatrixTables, known: Known) -> Rows:
    """Make a row of each run; baselines are normal. Gaps hold the training median."""
    runs = tables.runs
    y = np.where(runs["side"] == SIDES[0], 0.0, flags(runs))
    return Rows(_filled(tables, known), known.metrics, about(runs, np.arange(len(runs))), y)


def concatenated(tables: MatrixTables, known: Known) -> Rows:
    """Make a row of each target run: the baseline run of the same number, then the target run itself.

    If there are fewer baseline runs, they are reused from the first. Gaps hold the training median.
    """
    target, baseline = _partners(tables.runs)
    filled = _filled(tables, known)
    columns = tuple(f"{side} {metric}" for side in SIDES for metric in known.metrics)
    told, y = _of_targets(tables.runs, target)
    return Rows(np.hstack([filled[baseline], filled[target]]), columns, told, y, blocks=2)


def subtracted(tables: MatrixTables, known: Known) -> Rows:
    """Make one row per target run: its deviation in percent from the run paired with it in `concatenated`.

    Where the baseline is smaller than the metric's unit (zero above all), percent refer to the unit. A value
    missing on either side counts as no deviation.
    """
    target, baseline = _partners(tables.runs)
    values = _finite(tables, known.metrics)
    base = values[baseline]
    x = 100 * (values[target] - base) / np.maximum(np.abs(base), known.units)
    told, y = _of_targets(tables.runs, target)
    return Rows(np.clip(np.nan_to_num(x), -MOST_PER_CENT, MOST_PER_CENT), known.metrics, told, y)


def contrasted(tables: MatrixTables, known: Known) -> Rows:
    """Make one row per pair: the differences between its matrices' medians, in units of the metric's noise.

    The noise of a metric is the spread of the differences of normal training pairs of the group, scaled by
    how much the runs of this baseline vary compared with the group; or the difference to expect from the runs
    of these two matrices, if that is larger. Their variance is the baseline's, moderated by that of the group
    (Smyth 2004, "Linear models and empirical Bayes methods"), so that baselines of two runs suffice. Values
    are compressed by ``arcsinh``. A metric missing on one side counts as equal.

    Further columns: the sizes of these differences over all metrics, by rank, by quantile and by the share
    beyond 2, 3, 5 and 10, up or down; the spread of the target's runs compared with the baseline's; the share
    of metrics missing in the target.
    """
    matrices = MatrixPairs.of(tables, known.scaled(_finite(tables, known.metrics)))
    place = known.places(matrices.about["group"].tolist())
    units = np.nan_to_num(matrices.difference / noise(matrices, known, place))
    beside = sizes_told(units) | _spreads_told(matrices)
    x = np.column_stack([np.arcsinh(units), *beside.values()])
    there = (matrices.counts.max(axis=2, initial=0) > 0).all(axis=0)
    found = Rows(x, (*known.metrics, *beside), matrices.about, _pair_labels(tables), beside=len(beside))
    return found if there.all() else found.of(there)


def noise(matrices: MatrixPairs, known: Known, place: Whole) -> Floats:
    """Return by how much the middles of each pair may differ by chance, shape (n_pairs, n_metrics).

    Parameters
    ----------
    place : ndarray of shape (n_pairs,)
        The row of the pair's group in `known`.
    """
    own = np.maximum(matrices.counts[0] - 1, 0)
    usual = known.spread[place]
    moderated = (RUNS * usual + own * np.nan_to_num(matrices.spreads[0])) / (RUNS + own)
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = moderated * (1 / matrices.counts).sum(axis=0)
    chance[~np.isfinite(chance)] = 0
    least = np.where((matrices.middles == 0).any(axis=0), ZERO, FLOOR) ** 2
    # matrices vary more where runs vary more than in training
    drift = known.drift[place] * (moderated + least) / (usual + least)
    return np.asarray(np.sqrt(np.maximum(drift, chance) + least))


def flags(runs: pd.DataFrame) -> Floats:
    """Return the flag ``abnormal`` of each run: 1, 0, or NaN."""
    return runs["abnormal"].astype("boolean").to_numpy(np.float64, na_value=np.nan)


FORMS: dict[str, Form] = {
    "flattened": flattened,
    "concatenated": concatenated,
    "subtracted": subtracted,
    "contrasted": contrasted,
}


def _finite(tables: MatrixTables, metrics: Sequence[str]) -> Floats:
    values = tables.numbers(metrics)
    return np.where(np.isfinite(values), values, np.nan)


def _filled(tables: MatrixTables, known: Known) -> Floats:
    values = _finite(tables, known.metrics)
    return np.where(np.isnan(values), known.middles, values)


def _pair_labels(tables: MatrixTables) -> Floats:
    """Return 1 for pairs with an abnormal target run, 0 with only normal ones among the flagged, else NaN."""
    standing, flagged = tables.standing, flags(tables.runs)
    normal, abnormal = (
        np.bincount(standing.pair, standing.target & (flagged == label), len(standing.names)) > 0
        for label in (0, 1)
    )
    return np.where(abnormal, 1.0, np.where(normal, 0.0, np.nan))


def _partners(runs: pd.DataFrame) -> tuple[Whole, Whole]:
    """Return the row of each target run that has a baseline, and of the baseline run of the same number."""
    of_baseline = (runs["side"] == SIDES[0]).to_numpy()
    number = runs.groupby(["pair_id", "side"]).cumcount().to_numpy()
    pair, _ = pd.factorize(runs["pair_id"])
    sizes = np.bincount(pair[of_baseline], minlength=int(pair.max(initial=-1)) + 1)
    rows = np.flatnonzero(of_baseline)
    rows = rows[np.lexsort((number[rows], pair[rows]))]
    starts = np.cumsum(sizes) - sizes
    target = np.flatnonzero(~of_baseline & (sizes[pair] > 0))
    return target, rows[starts[pair[target]] + number[target] % sizes[pair[target]]]


def _of_targets(runs: pd.DataFrame, target: Whole) -> tuple[pd.DataFrame, Floats]:
    return about(runs, target), flags(runs)[target]


def sizes_told(units: Floats) -> dict[str, Floats]:
    """Return statistics of the differences of all metrics together, by name, each of shape (n_pairs,).

    Parameters
    ----------
    units : ndarray of shape (n_pairs, n_metrics)
        Differences in units of their noise.
    """
    sizes, metrics = np.abs(units), units.shape[1]
    ranks = {f"largest difference {rank}": min(rank, metrics) for rank in LEADING}
    ranks |= {f"difference at {share:.0%}": int(share * (metrics - 1)) + 1 for share in SHARES}
    # only a few order statistics are needed
    ordered = np.partition(sizes, sorted({metrics - rank for rank in ranks.values()}), axis=1)
    found = {name: np.arcsinh(ordered[:, metrics - rank]) for name, rank in ranks.items()}
    rise, fall = ([(way > bound).sum(axis=1) for bound in BEYOND] for way in (units, -units))
    either = [up + down for up, down in zip(rise, fall, strict=True)]
    for words, counts in (("", either), (" that rise", rise), (" that fall", fall)):
        told = zip(BEYOND, counts, strict=True)
        found |= {f"metrics{words} beyond {bound:g}": count / metrics for bound, count in told}
    for power in POWERS:
        # powers are even; squaring twice takes a fraction of raising to the fourth power
        raised = (sizes**2) ** (power // 2)
        found[f"mean difference of power {power}"] = np.log1p(raised.mean(axis=1) ** (1 / power))
    return found


def _spreads_told(matrices: MatrixPairs) -> dict[str, Floats]:
    spread = np.log((matrices.spreads[1] + FLOOR**2) / (matrices.spreads[0] + FLOOR**2)) / 2
    lacks = (matrices.counts[0] > 0) & (matrices.counts[1] == 0)
    return {
        "mean spread": np.nan_to_num(spread).mean(axis=1),
        "metrics that the target lacks": lacks.mean(axis=1),
    }


Flags = NDArray[np.bool_]


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
    def of(cls, form: str, tables: MatrixTables, known: Known, rows: Rows) -> Removal:
        """Prepare the `rows` of a form of `tables`, whose pairs all have both sides."""
        metrics = len(known.metrics)
        if form == "contrasted":
            pairs = np.arange(len(rows.x))
            names = rows.about["pair_id"].to_numpy(object)
            return cls(rows, None, names, np.abs(np.sinh(rows.x[:, :metrics])), pairs, np.ones_like(pairs))
        runs, standing = tables.runs, tables.standing
        values = tables.numbers(known.metrics)
        scaled = known.scaled(np.where(np.isfinite(values), values, np.nan))
        matrices = MatrixPairs.of(tables, scaled)
        moved = np.nan_to_num(matrices.difference)
        back = np.where(standing.target[:, None], known.unscaled(scaled - moved[standing.pair]), values)
        numbers = pd.DataFrame(back, runs.index, list(known.metrics))
        still = pd.concat([runs.drop(columns=list(known.metrics)), numbers], axis="columns")
        size = np.abs(moved) / noise(matrices, known, known.places(matrices.about["group"].tolist()))
        of_row = pd.Index(standing.names).get_indexer(rows.about["pair_id"])
        chosen = np.flatnonzero((rows.about["side"] == SIDES[1]).to_numpy(bool))
        order = chosen[np.argsort(of_row[chosen], kind="stable")]
        counts = np.bincount(of_row[chosen], minlength=len(standing.names))
        x = FORMS[form](tables.with_runs(still), known).x[order]
        return cls(rows.of(order), x, standing.names, size, np.cumsum(counts) - counts, counts)

    def without(self, pair: Whole, removed: Flags) -> tuple[Floats, Whole]:
        """Return the rows of versions of pairs, without the differences of some metrics.

        Parameters
        ----------
        pair : ndarray of shape (n_versions,)
            The pair of each version.
        removed : ndarray of shape (n_versions, n_metrics)
            Metrics whose difference is removed.

        Returns
        -------
        x : ndarray of shape (n_version_rows, n_columns)
        version : ndarray of shape (n_version_rows,)
            The version of each row, ascending.
        """
        counts = self.counts[pair]
        version = np.repeat(np.arange(len(pair)), counts)
        row = self.starts[pair][version] + np.arange(len(version)) - (np.cumsum(counts) - counts)[version]
        return self._exchanged(self.rows.x[row], row, removed[version]), version

    @cached_property
    def _units(self) -> Floats:
        """The differences of rows that are differences, in units of noise."""
        return np.asarray(np.sinh(self.rows.x[:, : self.sizes.shape[1]]))

    def _exchanged(self, x: Floats, row: Whole, removed: Flags) -> Floats:
        metrics = removed.shape[1]
        if self.still is None:
            x[:, :metrics][removed] = 0
            units = self._units[row]
            units[removed] = 0
            for place, told in enumerate(sizes_told(units).values(), start=metrics):
                x[:, place] = told
            return x
        # the first of two blocks is the baseline's and does not change
        return np.where(np.tile(removed, self.rows.blocks), self.still[row], x)
