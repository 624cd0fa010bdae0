"""The two sides of many comparisons as flat arrays, gathered once from the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from data.comparisons.tables import FIVE_NUMBERS, OPERATION, ComparisonTables, comparison_units
from data.deferred import pd

#: Bounds of absolute values whose squares can be added up and divided without overflow.
_LEAST_SQUARABLE, _MOST_SQUARABLE = 2.0**-256, 2.0**256


def are_squarable(values: Floats) -> bool:
    """Return whether all absolute values but 0 and NaN are from 2**-256 to 2**256; True if empty."""
    least, largest = np.fmin.reduce(values, None, initial=1.0), np.fmax.reduce(values, None, initial=1.0)
    if least <= 0:
        sizes = np.abs(values[values != 0])
        least, largest = np.fmin.reduce(sizes, initial=1.0), np.fmax.reduce(sizes, initial=1.0)
    return bool(least >= _LEAST_SQUARABLE and largest <= _MOST_SQUARABLE)


def divide_by_powers(values: Floats, exponents: Ints) -> Floats:
    """Return `values` / 2**exponents (broadcast), clipped to -2**256 to 2**256; NaN stays NaN."""
    with np.errstate(over="ignore", under="ignore"):
        return np.clip(np.ldexp(values, -exponents), -_MOST_SQUARABLE, _MOST_SQUARABLE)


def exponents_of(values: Floats) -> Ints:
    """Return the smallest ``e`` with 2**e above each number; 0 for one that is not finite and positive."""
    is_positive = np.isfinite(values) & (values > 0)
    return np.where(is_positive, np.frexp(np.where(is_positive, values, 1.0))[1], 0).astype(np.int64)


@dataclass(frozen=True)
class Versions:
    """All versions of all series of the results, sorted by series and order.

    Version ``i`` has the samples ``values[starts[i]:starts[i + 1]]``. `name` is a number per benchmark,
    machine and version name, -1 for versions without name; `lower` is whether lower is better. All arrays but
    `values` and `starts` have shape (n_versions,).
    """

    values: Floats
    starts: Ints
    series: Ints
    operation: Ints
    name: Ints
    lower: NDArray[np.bool_]

    @classmethod
    def from_results(
        cls, results: pd.DataFrame, ordered: _OrderedSamples, operation: Ints
    ) -> Versions | None:
        """Gather the versions of `results`, which have samples only; None if no version has a name.

        `ordered` are these samples sorted by series and order, `operation` is the number of each sorted
        sample's operation, shape (n_samples,).
        """
        if "version" not in results or not results["version"].notna().any():
            return None
        starts = np.flatnonzero(np.diff(ordered.version_numbers, prepend=0))
        keys = ["benchmark", "machine", "version"]
        head = results[[*keys, "better"]].iloc[ordered.place[starts]]
        name = head.groupby(keys, sort=False).ngroup().fillna(-1).to_numpy(np.int64)
        edges, lower = np.append(starts, len(results)), np.asarray(head["better"] == "lower")
        return cls(ordered.values, edges, ordered.series[starts], operation[starts], name, lower)

    def locate_targets(self, comparison: Ints, targets: Samples, n_comparisons: int) -> Siblings:
        """Return the positions of each comparison's target: that of its first configuration with samples.

        `comparison`, shape (n_configurations,), is the row of the comparison of each list of `targets`. A
        comparison without target samples gets an empty range.
        """
        rows = np.flatnonzero(targets.lengths > 0)
        owner, at = np.unique(comparison[rows], return_index=True)
        first, stop = np.zeros((2, n_comparisons), np.int64)
        first[owner] = np.searchsorted(self.starts, targets.starts[rows[at]])
        stop[owner] = np.searchsorted(self.starts, targets.stops[rows[at]])
        return Siblings(self, first, stop)


@dataclass(frozen=True)
class Siblings:
    """Positions of targets among all versions: the target of comparison ``i`` is ``first[i]:stop[i]``."""

    versions: Versions
    first: Ints
    stop: Ints

    def select_rows(self, rows: Ints) -> Siblings:
        """Return the positions of the comparisons `rows`, shape (n_selected,), in that order."""
        return Siblings(self.versions, self.first[rows], self.stop[rows])

    @cached_property
    def overflow_safe(self) -> Siblings:
        """A copy with series divided by powers of two, or itself if all numbers can be squared."""
        versions = self.versions
        if are_squarable(versions.values):
            return self
        begins = np.flatnonzero(np.diff(versions.series, prepend=-1))
        largest = np.maximum.reduceat(versions.values, versions.starts[begins])
        per_version = np.repeat(exponents_of(largest), np.diff(np.append(begins, len(versions.series))))
        per_sample = np.repeat(per_version, np.diff(versions.starts))
        return replace(self, versions=replace(versions, values=divide_by_powers(versions.values, per_sample)))


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Maximum number of versions in a comparison's history; the newest ones are kept.
HISTORY_VERSIONS = 40
#: Maximum number of later versions of a comparison; the first ones are kept.
LATER_VERSIONS = 40


@dataclass(frozen=True)
class Samples:
    """One list of samples per configuration: list ``i`` is ``values[starts[i]:stops[i]]``.

    Lists may overlap and may be empty. `orders` (shape (n_samples,)) are the orders of the samples' versions,
    ascending within a list.
    """

    values: Floats
    orders: Ints
    starts: Ints
    stops: Ints

    def select_rows(self, rows: NDArray[np.bool_] | Ints) -> Samples:
        """Return the lists of the configurations `rows`, without copying values.

        `rows` is a mask, shape (n_configurations,), or indices, shape (n_selected,).
        """
        return Samples(self.values, self.orders, self.starts[rows], self.stops[rows])

    def followed_by(self, other: Samples) -> Samples:
        """Return the lists of this object, then those of `other`; arrays are copied only if they differ."""
        values, orders, behind = self.values, self.orders, 0
        if not self.shares_values(other):
            values, orders = np.append(values, other.values), np.append(orders, other.orders)
            behind = len(self.values)
        starts = np.append(self.starts, other.starts + behind)
        return Samples(values, orders, starts, np.append(self.stops, other.stops + behind))

    def shares_values(self, other: Samples) -> bool:
        """Return whether `other` has the identical (not only an equal) array of values."""
        return self.values is other.values

    @cached_property
    def lengths(self) -> Ints:
        """Number of samples of each list, shape (n_configurations,)."""
        return self.stops - self.starts

    def divided_by_powers(self, exponents: Ints) -> Samples:
        """Return a copy with list ``i`` divided by 2**exponents[i], clipped to -2**256 to 2**256."""
        owner, place = flatten_samples(self)
        stops = np.cumsum(self.lengths)
        values = divide_by_powers(self.values[place], exponents[owner])
        return Samples(values, self.orders[place], stops - self.lengths, stops)

    def samples_of_row(self, row: int) -> Floats:
        """Return the samples of list `row`, shape (n_samples,), in the operation's unit; a view."""
        return self.values[self.starts[row] : self.stops[row]]

    def iterate_versions(self, row: int) -> Iterator[tuple[int, Floats]]:
        """Yield (order, samples) per version of list `row`, oldest first; nothing if the list is empty."""
        orders = self.orders[self.starts[row] : self.stops[row]]
        edges = np.flatnonzero(np.diff(orders, prepend=orders[:1] - 1))
        for first, last in pairwise([*edges, len(orders)]):
            yield int(orders[first]), self.samples_of_row(row)[first:last]

    def iterate_matrices(self) -> Iterator[tuple[Ints, Floats]]:
        """Yield (rows, samples) per length of non-empty lists, ascending.

        `rows` are the indices of the lists with this length; their samples are a copy of shape (n_rows,
        length).
        """
        for rows, index in self.matrix_indices:
            yield rows, self.values[index]

    @cached_property
    def matrix_indices(self) -> Sequence[tuple[Ints, Ints]]:
        """Pairs per length of non-empty lists, ascending: list indices, and positions in `values`.

        The positions have shape (n_rows, length).
        """
        lengths, groups = self.lengths, []
        for length in sorted(set(lengths.tolist()) - {0}):
            rows = (lengths == length).nonzero()[0]
            groups.append((rows, self.starts[rows, None] + np.arange(length)))
        return groups

    @cached_property
    def version_medians(self) -> Samples:
        """Each list as medians, robust to single outliers: one value per version, oldest first.

        NaN if the version has a NaN.
        """
        return self.reduce_versions(_row_medians)

    def reduce_versions(self, reduce: Callable[[Floats], Floats]) -> Samples:
        """Return each list with one value per version, oldest first.

        `reduce` computes the values of versions of one length from their samples, sorted in each row: shape
        (n_versions, length) -> (n_versions,). It is called once per version, even if lists share it; no list
        begins or ends within a version.
        """
        values, orders = self.values, self.orders
        if not len(values):
            return self
        is_filled = self.lengths > 0
        edge = np.ones(len(values) + 1, bool)
        edge[1:-1] = orders[1:] != orders[:-1]
        edge[self.starts[is_filled]] = True
        edge[self.stops[is_filled]] = True
        starts = edge[:-1].nonzero()[0]
        versions = Samples(values, orders, starts, np.append(starts[1:], len(values)))
        levels = np.empty(len(starts))
        for rows, ordered in versions.sorted_matrices:
            levels[rows] = reduce(ordered)
        before = np.append(np.cumsum(edge[:-1]) - edge[:-1], len(starts))
        return Samples(levels, orders[starts], before[self.starts], before[self.stops])

    @cached_property
    def sorted_matrices(self) -> Sequence[tuple[Ints, Floats]]:
        """Pairs per length of non-empty lists, ascending: list indices, and samples sorted in each row.

        The samples have shape (n_rows, length).
        """
        groups = list(self.iterate_matrices())
        for _, matrix in groups:
            matrix.sort(axis=1)
        return groups


@dataclass(frozen=True)
class Sides:
    """Baseline, target, history and later versions of every configuration of every comparison.

    A configuration is present if either side has a measurement of it.

    Attributes
    ----------
    comparison : shape (n_configurations,), ascending
        Row of the comparisons table.
    sign : shape (n_configurations,)
        1 where higher is better, -1 where lower is better.
    baseline, target : Samples
        A list per configuration; empty where a side is missing or has only a summary.
    history, later : Samples
        At most `HISTORY_VERSIONS` versions before the baseline, and `LATER_VERSIONS` after the target.
    baseline_five, target_five : shape (n_configurations, 5)
        min, q1, median, q3, max, of the samples or as provided by the source; NaN where it has neither.
    siblings : Siblings or None
        Position of each comparison's target among the versions of all operations; None if versions are
        unnamed.
    siblings_worse : shape (n_comparisons,) or None
        Share of other operations that got worse, between 0 and 1, where the source provides it; else NaN.
    """

    comparison: Ints
    n_comparisons: int
    threads: Ints
    sign: Floats
    baseline: Samples
    target: Samples
    history: Samples
    later: Samples
    baseline_five: Floats
    target_five: Floats
    siblings: Siblings | None = None
    siblings_worse: Floats | None = None

    @classmethod
    def from_tables(cls, tables: ComparisonTables) -> Sides:
        """Return the sides of all comparisons of `tables`; configurations ascend by comparison, then threads.

        A comparison without results has no configuration; results of no comparison are ignored.
        """
        results, comparisons = tables.results, tables.comparisons
        result_key, comparison_key = _operation_keys(tables)
        result_series = result_key * _THREADS + results["threads"].to_numpy(np.int64)
        summary = results["stat"].notna().to_numpy()
        sampled = results[~summary]
        raw = _OrderedSamples.from_results(sampled, result_series[~summary])
        named = Versions.from_results(sampled, raw, raw.series // _THREADS)
        comparison, series = _match_configurations(np.unique(result_series), comparison_key)
        first, last, begin, end = (
            comparisons[name].to_numpy(np.int64)[comparison]
            for name in ("baseline_from", "baseline_to", "target_from", "target_to")
        )
        last_later = comparisons["later_to"].fillna(comparisons["target_to"]).to_numpy(np.int64)[comparison]
        samples = raw.samples_between(series, first, last), raw.samples_between(series, begin, end)
        around = raw.samples_before(series, first), raw.samples_after(series, end, last_later)
        fives = list(map(five_numbers, samples))
        if summary.any():
            rows = results[summary].assign(series=result_series[summary])
            stated = rows.groupby(["series", "order", "stat"])["value"].first().unstack("stat")
            stated = stated.reindex(columns=list(FIVE_NUMBERS))
            for side, order in enumerate((first, begin)):
                keys = pd.MultiIndex.from_arrays([series, order])
                numbers = stated.reindex(keys).to_numpy(np.float64)
                fives[side] = np.where(np.isnan(fives[side]), numbers, fives[side])
        lower = np.unique(result_key[results["better"].to_numpy() == "lower"])
        sign = np.where(np.isin(comparison_key, lower), -1.0, 1.0)[comparison]
        present = (samples[0].lengths > 0) | (samples[1].lengths > 0)
        present |= ~np.isnan(np.concatenate(fives, axis=1)).all(axis=1)
        baseline, target, history, later = (part.select_rows(present) for part in (*samples, *around))
        siblings = None if named is None else named.locate_targets(comparison, samples[1], len(comparisons))
        worse = stated_of(comparisons["siblings_worse"]) if "siblings_worse" in comparisons else None
        return cls(
            comparison[present], len(comparisons), series[present] % _THREADS, sign[present],
            baseline, target, history, later, fives[0][present], fives[1][present], siblings, worse,
        )  # fmt: skip

    @cached_property
    def per_comparison(self) -> Ints:
        """Number of configurations of each comparison, shape (n_comparisons,)."""
        return np.bincount(self.comparison, minlength=self.n_comparisons)

    @cached_property
    def pooled_samples(self) -> Samples:
        """The lists of the baselines followed by those of the targets."""
        return self.baseline.followed_by(self.target)

    @cached_property
    def overflow_safe(self) -> Sides:
        """The sides, rescaled so that all numbers can be squared.

        If any number requires it, every configuration is divided by the power of two above its baseline's
        median. The division is exact, so that ratios do not change in any digit.
        """
        lists = {name: getattr(self, name) for name in ("baseline", "target", "history", "later")}
        fives = self.baseline_five, self.target_five
        arrays = {id(samples.values): samples.values for samples in lists.values()}.values()
        siblings = None if self.siblings is None else self.siblings.overflow_safe
        if siblings is self.siblings and all(map(are_squarable, (*arrays, *fives))):
            return self
        exponents = exponents_of(self.baseline_five[:, 2])
        scaled = {name: samples.divided_by_powers(exponents) for name, samples in lists.items()}
        before, after = (divide_by_powers(five, exponents[:, None]) for five in fives)
        return replace(self, **scaled, baseline_five=before, target_five=after, siblings=siblings)

    @property
    def both_sides(self) -> tuple[tuple[str, Samples, Floats], tuple[str, Samples, Floats]]:
        """("baseline", samples, five numbers of shape (n_configurations, 5)), and the same of "target"."""
        return (("baseline", self.baseline, self.baseline_five), ("target", self.target, self.target_five))


@dataclass(frozen=True)
class NamedSides:
    """Names and sides of comparisons; `units` computes their units, which are needed for texts only."""

    identifiers: Sequence[str]
    benchmarks: Sequence[str]
    operations: Sequence[str]
    sides: Sides
    units: Callable[[], Sequence[str]]

    @classmethod
    def from_tables(cls, tables: ComparisonTables) -> NamedSides:
        """Return the ids, benchmarks, operations and sides of all comparisons of `tables`, in order."""
        identifiers, benchmarks, operations = (
            tables.comparisons[name].tolist() for name in ("comparison_id", "benchmark", "operation")
        )
        sides, units = Sides.from_tables(tables), partial(comparison_units, tables)
        return cls(identifiers, benchmarks, operations, sides, units)


def stated_of(siblings_worse: Sequence[float | None]) -> Floats | None:
    """Return the share of worse siblings per comparison as an array, NaN for None; None without any number.

    Shape (n_comparisons,); NaN in `siblings_worse` is not a number either.
    """
    stated = np.array(siblings_worse, np.float64)
    return None if np.isnan(stated).all() else stated


def numbered_groups(sizes: Ints) -> tuple[Ints, Ints]:
    """Return each member's group and its number within the group, both from 0, group by group.

    `sizes`, shape (n_groups,), are the numbers of members; the results have shape (n_members,).
    """
    group = np.repeat(np.arange(len(sizes)), sizes)
    return group, np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def flatten_samples(samples: Samples) -> tuple[Ints, Ints]:
    """Return the number of the list, and the index in ``samples.values``, of each sample, list by list.

    Both have shape (n_samples,) and count from 0.
    """
    owner, within = numbered_groups(samples.lengths)
    return owner, samples.starts[owner] + within


def _row_medians(ordered: Floats) -> Floats:
    low, high = ordered[:, (ordered.shape[1] - 1) // 2], ordered[:, ordered.shape[1] // 2]
    # halving first is exact and avoids overflow
    middle = low / 2 + high / 2 if ordered.shape[1] % 2 == 0 else low
    return np.where(np.isnan(ordered[:, -1]), np.nan, middle)


def five_numbers(samples: Samples) -> Floats:
    """Return min, q1, median, q3, max of each list, interpolated linearly, shape (n_lists, 5).

    All five are NaN for a list that is empty or has a NaN.
    """
    five = np.full((len(samples.starts), len(FIVE_NUMBERS)), np.nan)
    # data.comparisons.validity reports infinite numbers and overflow
    with np.errstate(invalid="ignore", over="ignore"):
        for rows, ordered in samples.sorted_matrices:
            # equal to numpy.quantile, but faster
            low, high, weight, rest, near = _quantile_positions(ordered.shape[1])
            below, above = ordered[:, low], ordered[:, high]
            step = above - below
            numbers = np.where(near, above - step * rest, below + step * weight)
            numbers[np.isnan(ordered[:, -1])] = np.nan
            five[rows] = numbers
    return five


@lru_cache(256)
def _quantile_positions(length: int) -> tuple[Ints, Ints, Floats, Floats, NDArray[np.bool_]]:
    """Return the two positions that each of the five numbers is between, and its interpolation weights."""
    place: Floats = (length - 1) * np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    low = place.astype(np.int64)
    weight: Floats = place - low
    return low, np.minimum(low + 1, length - 1), weight, 1 - weight, weight >= 0.5  # noqa: PLR2004


#: A series is the integer: operation's key * _THREADS + number of threads.
_THREADS = 1 << 20


def _operation_keys(tables: ComparisonTables) -> tuple[Ints, Ints]:
    n_results = len(tables.results)
    key = np.zeros(n_results + len(tables.comparisons), np.int64)
    for column in OPERATION:
        texts = pd.concat([tables.results[column], tables.comparisons[column]], ignore_index=True)
        codes, levels = pd.factorize(texts, use_na_sentinel=False)
        key, _ = pd.factorize(key * (len(levels) + 1) + codes)
    return key[:n_results], key[n_results:]


@dataclass(frozen=True)
class _OrderedSamples:
    """Samples sorted by series and order; `place` is the row of each sample in the results."""

    values: Floats
    orders: Ints
    series: Ints
    place: Ints

    @classmethod
    def from_results(cls, results: pd.DataFrame, series: Ints) -> _OrderedSamples:
        orders = results["order"].to_numpy(np.int64)
        place = np.lexsort((orders, series))
        return cls(results["value"].to_numpy(np.float64)[place], orders[place], series[place], place)

    def _first_position(self, series: Ints, order: Ints) -> Ints:
        """Return the position of each series' first sample at `order` or later."""
        if not len(self.series):
            return np.zeros(len(series), np.int64)
        distinct, low, span, rank = self._series_ranks
        place = np.searchsorted(distinct, series)
        nearest = np.clip(place, 0, len(distinct) - 1)
        at = np.searchsorted(rank, nearest * span + np.clip(order - low, 0, span - 1))
        return np.where(distinct[nearest] == series, at, 0)

    @cached_property
    def _series_ranks(self) -> tuple[Ints, int, int, Ints]:
        """Distinct series, lowest order, range of orders, and each sample's rank by series and order."""
        low, span = int(self.orders.min()), int(np.ptp(self.orders)) + 2
        begins = np.diff(self.series, prepend=-1) != 0
        return self.series[begins], low, span, (np.cumsum(begins) - 1) * span + (self.orders - low)

    def samples_between(self, series: Ints, first: Ints, last: Ints) -> Samples:
        starts, stops = self._first_position(series, first), self._first_position(series, last + 1)
        return Samples(self.values, self.orders, starts, stops)

    def samples_before(self, series: Ints, first: Ints) -> Samples:
        """Return the samples of the last `HISTORY_VERSIONS` versions before `first`."""
        stops = self._first_position(series, first)
        starts = self._first_position(series, np.full(len(series), np.iinfo(np.int32).min, np.int64))
        if len(self.series):
            newest = self.version_numbers[np.maximum(stops - 1, 0)]
            starts = np.maximum(starts, np.searchsorted(self.version_numbers, newest - HISTORY_VERSIONS + 1))
        return Samples(self.values, self.orders, np.minimum(starts, stops), stops)

    def samples_after(self, series: Ints, last: Ints, end: Ints) -> Samples:
        """Return the samples of the first `LATER_VERSIONS` versions after `last`, but none after `end`."""
        starts, stops = self._first_position(series, last + 1), self._first_position(series, end + 1)
        if len(self.series):
            oldest = self.version_numbers[np.minimum(starts, len(self.series) - 1)]
            stops = np.minimum(stops, np.searchsorted(self.version_numbers, oldest + LATER_VERSIONS))
        return Samples(self.values, self.orders, starts, np.maximum(starts, stops))

    @cached_property
    def version_numbers(self) -> Ints:
        """Consecutive number of each sample's version over all series, shape (n_samples,)."""
        begins = (np.diff(self.orders, prepend=0) != 0) | (np.diff(self.series, prepend=-1) != 0)
        return np.cumsum(begins)


def _match_configurations(series: Ints, comparison_key: Ints) -> tuple[Ints, Ints]:
    first = np.searchsorted(series, comparison_key * _THREADS)
    counts = np.searchsorted(series, (comparison_key + 1) * _THREADS) - first
    comparison, within = numbered_groups(counts)
    return comparison, series[first[comparison] + within]
