"""Removal of duplicates, and of samples and earlier runs far outside all others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import HISTORY_VERSIONS, Floats, Ints, Samples, Sides, five_numbers
from features.comparisons.summaries import last_values, row_quantile

#: A side with fewer samples is not searched for outliers.
FEWEST = 5
#: A sample is an outlier if its distance from the nearest other one exceeds this multiple of the range of all
#: others, by number of samples on the side. 1 of 1,000 lists of normal values exceeds these multiples
#: (Dixon's ratio, both ends). More samples would allow less than `FAR`, but noise has long tails.
_FAR_OF_FEW = {5: 11.0, 6: 6.0, 7: 4.0}
FAR = 3.0
#: Least range of all others, as a share of their median: outliers are gross errors.
SPAN = 0.01
#: At most one in this many runs before the target is an outlier; more frequent values are typical.
_RUNS_PER_WILD = 20
#: Configurations whose runs are handled at once, to bound memory.
_BLOCK = 20_000


@dataclass(frozen=True)
class Outliers:
    """The removed samples and runs, one row each."""

    comparison: Ints  # row of the comparison
    threads: Ints  # of the configuration
    side: NDArray[np.str_]  # "baseline" or "target" for a sample, "history" for a run before the target
    samples: Ints  # number of samples on the side, or of runs before the target, including this one
    value: Floats  # the sample, or the median of the run
    median: Floats  # of the others


NO_OUTLIERS = Outliers(*(np.zeros(0, kind) for kind in (np.int64, np.int64, str, np.int64, float, float)))


def without_outliers(sides: Sides) -> tuple[Sides, Outliers]:
    """Return the sides without outliers (`sides` itself if nothing was removed), and the removed outliers.

    An outlier is a sample whose distance from the nearest other one exceeds 3 times the range of all others
    (more for 5 to 7 samples; the range counts as at least 1 % of the median), at most one per side and
    configuration, or a run of history or baseline that `far_runs` marks. If two or more, and most, of the
    configurations of a comparison have an outlying sample on one side, none is removed there, as they are
    then typical of it. Sides given as five numbers, and fewer than `FEWEST` (5) samples, are not changed. If
    a run of a baseline of fewer than 5 runs is outlying, no run of this configuration is removed: it may be a
    new level.
    """
    sides, samples = _without_samples(sides)
    sides, runs = _without_runs(sides)
    if runs is NO_OUTLIERS:
        return sides, samples
    columns = zip(vars(samples).values(), vars(runs).values(), strict=True)
    return sides, Outliers(*map(np.concatenate, columns))


def _without_samples(sides: Sides) -> tuple[Sides, Outliers]:
    if not any(_outlying_ends(ordered).any() for _, ordered in sides.pooled_samples.sorted_matrices):
        return sides, NO_OUTLIERS
    positions = {name: _sample_outliers(getattr(sides, name), sides) for name in ("baseline", "target")}
    parts = []
    for name, at in positions.items():
        rows = np.flatnonzero(at >= 0)
        samples: Samples = getattr(sides, name)
        if len(rows):
            bounds = zip(samples.starts[rows], at[rows], samples.stops[rows], strict=True)
            kept_positions = [np.r_[start:outlier, outlier + 1 : stop] for start, outlier, stop in bounds]
            kept_samples = _replace_lists(samples, rows, kept_positions)
            five = getattr(sides, f"{name}_five").copy()
            five[rows] = five_numbers(kept_samples.select_rows(rows))
            sides = replace(sides, **{name: kept_samples, f"{name}_five": five})
        lengths, medians = samples.lengths[rows], getattr(sides, f"{name}_five")[rows, 2]
        owners = sides.comparison[rows], sides.threads[rows], np.full(len(rows), name)
        parts.append((*owners, lengths, samples.values[at[rows]], medians))
    return sides, Outliers(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _sample_outliers(samples: Samples, sides: Sides) -> Ints:
    """Return the position of the outlying sample of each configuration, -1 without one."""
    at = np.full(len(samples.starts), -1)
    for rows, index in samples.matrix_indices:
        values = samples.values[index]
        above, below = _outlying_ends(np.sort(values, axis=1))
        has = np.flatnonzero(above | below)
        column = np.where(above[has], values[has].argmax(axis=1), values[has].argmin(axis=1))
        at[rows[has]] = index[has, column]
    is_outlier, n = at >= 0, sides.n_comparisons
    counts = np.bincount(sides.comparison[is_outlier], minlength=n)
    accident = (counts == 1) | (2 * counts <= np.bincount(sides.comparison, minlength=n))
    return np.where(is_outlier & accident[sides.comparison], at, -1)


def _outlying_ends(ordered: Floats) -> NDArray[np.bool_]:
    """Return whether the largest and the smallest value of ascending rows are outliers, shape (2, n_rows)."""
    size = ordered.shape[1]
    if size < FEWEST:
        return np.zeros((2, len(ordered)), bool)
    far = _FAR_OF_FEW.get(size, FAR)
    first, second, before_last, last = (ordered[:, column] for column in (0, 1, -2, -1))
    # data.comparisons.validity reports infinite values
    with np.errstate(invalid="ignore", over="ignore"):
        least = SPAN * np.abs(ordered[:, size // 2])
        above = last - before_last > far * np.maximum(before_last - first, least)
        below = second - first > far * np.maximum(last - second, least)
    return np.array((above, below))


def _without_runs(sides: Sides) -> tuple[Sides, Outliers]:
    """Leave out of history, and of baselines of several runs, the runs far outside all others of both."""
    names = ("history", "baseline")
    runs = {name: getattr(sides, name).version_medians for name in names}
    alone = runs["baseline"].lengths < FEWEST
    rows = np.flatnonzero((sides.history.lengths > 0) | ~alone)
    left_out: dict[str, list[tuple[int, Ints]]] = {name: [] for name in names}
    parts = []
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        levels = [last_values(runs[name].select_rows(block), HISTORY_VERSIONS) for name in names]
        before, edge = np.hstack(levels), levels[0].shape[1]
        far = far_runs(before)
        # the level of a short baseline may be new: neither it nor earlier runs on it are outliers
        far[far[:, edge:].any(axis=1) & alone[block]] = False
        for at in np.flatnonzero(far.any(axis=1)).tolist():
            row, finite = int(block[at]), np.isfinite(before[at])
            for name, columns in zip(names, (slice(edge), slice(edge, None)), strict=True):
                stop, width = runs[name].stops[row], len(before[at, columns])
                orders = runs[name].orders[stop - width + np.flatnonzero(far[at, columns])]
                if len(orders):
                    left_out[name].append((row, orders))
            median = row_quantile(before[at : at + 1, finite & ~far[at]], 0.5)[0]
            head = sides.comparison[row], sides.threads[row], "history", finite.sum()
            parts += [(*head, level, median) for level in before[at, far[at]]]
    if not parts:
        return sides, NO_OUTLIERS
    history, baseline = (_without_orders(getattr(sides, name), left_out[name]) for name in names)
    five, changed = sides.baseline_five.copy(), np.array([row for row, _ in left_out["baseline"]], np.int64)
    five[changed] = five_numbers(baseline.select_rows(changed))
    cleaned = replace(sides, history=history, baseline=baseline, baseline_five=five)
    return cleaned, Outliers(*map(np.array, zip(*parts, strict=True)))


def far_runs(levels: Floats) -> NDArray[np.bool_]:
    """Return True for runs far above or far below all others of their row, shape (n, n_runs).

    `levels` are above 0, NaN is unknown. The highest runs are far above if their gap to the next run exceeds
    3 times the range of the others (4, 6 and 11 times for 6, 5 and 4 others); the range counts as at least 1
    % of the others' median. Far below is the same for inverse levels. In each direction at most one known run
    in 20 is marked, but always one may be; of fewer than `FEWEST` (5), none.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # a tenth of the others counts as far away as ten times the others
        return _far_above(levels) | _far_above(1 / levels)


def _far_above(levels: Floats) -> NDArray[np.bool_]:
    ordered, counts = np.sort(levels, axis=1), np.isfinite(levels).sum(axis=1)
    row_numbers, marked = np.arange(len(levels)), np.zeros(levels.shape, bool)
    far = np.array([_FAR_OF_FEW.get(size, FAR) for size in range(levels.shape[1] + 2)])
    for number in range(1, max(1, int(counts.max(initial=0)) // _RUNS_PER_WILD) + 1):
        others = np.maximum(counts - number, 1)
        largest = ordered[row_numbers, others - 1]
        nearest = ordered[row_numbers, np.minimum(others, levels.shape[1] - 1)]
        least = SPAN * np.abs(ordered[row_numbers, others // 2])
        is_far = nearest - largest > far[others + 1] * np.maximum(largest - ordered[:, 0], least)
        is_far &= (counts - number + 1 >= FEWEST) & ((number == 1) | (counts >= number * _RUNS_PER_WILD))
        marked |= is_far[:, None] & (levels >= nearest[:, None])
    return marked


def _without_orders(samples: Samples, left_out: list[tuple[int, Ints]]) -> Samples:
    rows = np.array([row for row, _ in left_out], np.int64)
    positions = []
    for row, orders in left_out:
        candidates = np.arange(samples.starts[row], samples.stops[row])
        positions.append(candidates[~np.isin(samples.orders[candidates], orders)])
    return _replace_lists(samples, rows, positions)


def _replace_lists(samples: Samples, rows: Ints, positions: list[Ints]) -> Samples:
    """Return `samples` with the lists of `rows` replaced by `positions`, appended at the end."""
    if not len(rows):
        return samples
    index, lengths = np.concatenate(positions), np.array([len(row_positions) for row_positions in positions])
    starts, stops = samples.starts.copy(), samples.stops.copy()
    stops[rows] = len(samples.values) + np.cumsum(lengths)
    starts[rows] = stops[rows] - lengths
    values, orders = (np.r_[column, column[index]] for column in (samples.values, samples.orders))
    return Samples(values, orders, starts, stops)


_COLUMNS = ("comparison", "threads", "sign", "baseline_five", "target_five")
_LISTS = ("baseline", "target", "history", "later")


def without_duplicates(sides: Sides) -> Sides:
    """Return `sides` without configurations that repeat an earlier one of their comparison.

    A repetition has equal summaries and equal samples, divided into versions equally, in baseline, target,
    history and later versions, whatever its number of threads; a configuration without a median of baseline
    or target is never one. The result is `sides` itself if nothing was removed, else a copy.
    """
    first: dict[tuple[bytes, ...], int] = {}
    is_kept = np.ones(len(sides.sign), bool)
    for row in _possible_duplicates(sides).tolist():
        is_kept[row] = first.setdefault(_content_key(sides, row), row) == row
    if is_kept.all():
        return sides
    return select_configurations(sides, is_kept)


def select_configurations(sides: Sides, rows: NDArray[np.bool_] | Ints) -> Sides:
    """Return a copy of `sides` with all comparisons, but only the configurations `rows` (indices or mask)."""
    return replace(
        sides,
        **{name: getattr(sides, name)[rows] for name in _COLUMNS},
        **{name: getattr(sides, name).select_rows(rows) for name in _LISTS},
    )


def _possible_duplicates(sides: Sides) -> NDArray[np.intp]:
    """Return the configurations that have the medians of another one of their comparison."""
    if len(sides.sign) == len(np.unique(sides.comparison)):
        return np.zeros(0, np.intp)
    medians = sides.baseline_five[:, 2], sides.target_five[:, 2]
    order = np.lexsort((*medians, sides.comparison))
    same = np.ones(len(order) - 1, bool)
    for column in (*medians, sides.comparison):
        same &= column[order[1:]] == column[order[:-1]]
    return np.sort(order[np.append(same, False) | np.insert(same, 0, False)])


def _content_key(sides: Sides, row: int) -> tuple[bytes, ...]:
    """Return the content of a configuration as a key; versions count by their rank, not their order."""
    lists: list[Samples] = [getattr(sides, name) for name in _LISTS]
    content = [sides.comparison[row], sides.baseline_five[row], sides.target_five[row]]
    for samples in lists:
        orders = samples.orders[samples.starts[row] : samples.stops[row]]
        content += [samples.samples_of_row(row), np.unique(orders, return_inverse=True)[1]]
    return tuple(array.tobytes() for array in content)
