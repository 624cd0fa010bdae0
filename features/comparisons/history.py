"""Features from the versions of an operation: the step is real, at the boundary, and new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, Siblings, Sides, Versions, numbered_groups
from features.comparisons.outliers import far_runs
from features.comparisons.summaries import (
    MAD,
    NOISE_FLOOR,
    first_values,
    has_samples,
    last_values,
    pack_rows,
    robust_spread,
    row_mean,
    row_quantile,
    row_sum,
    sample_moments,
    share_where,
    signed_root,
    step_variance,
)

#: Between-run standard deviation of one build, as a share of the level, assumed without other evidence: two
#: runs differ by 1 %.
ORDINARY = 0.007
#: Number of versions that the prior counts for.
PRIOR_VERSIONS = 3.0
#: Versions looked at: the last ones of history and baseline, the first ones of the target.
_PAST, _AFTER = 30, 10
#: Steps between versions are cut at this multiple of the usual one, as they may be changes.
_ORDINARY_STEPS = 3.0
#: Bounds of the prior, whatever the versions of the training data did: a slow-down of 7 % with tight samples
#: remains plain where nothing else is known.
_LEAST_PRIOR, _MOST_PRIOR = 0.002, 0.007
#: A step against all runs may be worse than the step against the last ones by at most this multiple of the
#: standard deviation between the target and one run.
_LATELY = 1.5
#: A single run that is worse by fewer standard errors is within between-run variation: of 100 runs of one
#: build compared with 8 to 30 earlier ones, about one is worse by more.
_SIGNIFICANT = 2.9
#: Least number of versions to estimate the between-run spread.
_ENOUGH_RUNS = 5


class Yardstick(NamedTuple):
    """Between-run spread of each configuration, and the number of versions used to estimate it."""

    spread: Floats  # shape (n_configurations,): standard deviation of one run, as a share of the level
    versions: Floats  # shape (n_configurations,): versions of history and baseline; 1: `spread` is the prior

    @property
    def usual_difference(self) -> Floats:
        """Standard deviation of the difference of two runs, as a share of the level."""
        return np.asarray(self.spread * np.sqrt(2.0))

    @property
    def is_measured(self) -> NDArray[np.bool_]:
        """Whether versions of the operation decide about its spread more than the prior does."""
        return self.versions >= _ENOUGH_RUNS


class Steps(NamedTuple):
    """The step of every configuration, as a share of its level; negative is worse.

    Arrays have the shape (n_configurations,). ``repeated`` is the number of repetitions of the target that
    are worth a single one, as they share a run (the design effect of clustered samples; Kish 1965, section
    5.4).
    """

    step: Floats
    error: Floats  # standard error of `step`
    repeated: Floats
    runs: Floats  # number of versions of the target
    yardstick: Yardstick


def usual_spread(blocks: Sequence[Sides]) -> float:
    """Return the median between-run standard deviation of all configurations, as a share of the level.

    Only configurations with at least five versions in history and baseline count; `ORDINARY` (0.007) without
    any. ValueError without blocks. The result is limited to 0.002 to 0.007.
    """
    yardsticks = [run_steps(sides).yardstick for sides in blocks]
    spreads = np.concatenate([yardstick.spread[yardstick.is_measured] for yardstick in yardsticks])
    return float(np.clip(np.median(spreads), _LEAST_PRIOR, _MOST_PRIOR)) if len(spreads) else ORDINARY


def within_runs(sides: Sides, steps: Steps) -> NDArray[np.bool_]:
    """Return True where the target is one run whose step from earlier runs is within between-run variation.

    That is a step to worse by less than 2.9 standard errors, or any to better. `steps` is the result of
    `run_steps`. Shape (n_configurations,); False where there is no history (however many versions the
    baseline has), where history and baseline together have fewer than five versions, and where the target has
    several runs or no samples.
    """
    sampled = (sides.history.lengths > 0) & (sides.target.lengths > 0)
    has_evidence = sampled & steps.yardstick.is_measured & (steps.runs == 1)
    return np.asarray(has_evidence & (steps.step > -_SIGNIFICANT * steps.error))


def run_steps(sides: Sides, prior: float = ORDINARY) -> Steps:
    """Return the step from the level of history and baseline to the target's, with standard error and spread.

    With at most one version of history and baseline, ``step`` is the better of the shifts of median and mean.
    ``repeated`` and ``runs`` are at least 1, ``runs`` at most 10. `prior` is the spread without other
    evidence. ``step`` and ``error`` are not finite where the baseline's median is 0, or that of a side is
    unknown.
    """
    sides = sides.overflow_safe
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        size = np.abs(sides.baseline_five[:, 2])
        step, error2 = _step_of_samples(sides, size)
        yardstick, n_past, n_after, long_step = _step_of_runs(sides, size, prior)
        # a target hardly worse than the last runs does not count as a step, whatever the older runs
        lately = step - _LATELY * yardstick.spread * np.sqrt(1 / n_after + 1)
        step = np.where(n_past > 1, np.fmax(long_step, lately), step)
        unknown = PRIOR_VERSIONS / (PRIOR_VERSIONS + yardstick.versions - 1)
        runs2 = yardstick.spread**2 * (1 / n_after + 1 / n_past)
        noise2 = (robust_spread(sides.baseline_five) / size) ** 2
        samples_per_version = sides.target.lengths / n_after
        shared = yardstick.spread**2 / (yardstick.spread**2 + noise2)
        repeated = 1 + np.maximum(samples_per_version - 1, 0.0) * shared
        return Steps(step, np.sqrt(runs2 + unknown * error2), repeated, n_after, yardstick)


def _step_of_samples(sides: Sides, size: Floats) -> tuple[Floats, Floats]:
    """Return the smaller of the shifts of medians and means (share of `size`), and its squared error."""
    fives = sides.baseline_five, sides.target_five
    halves = sample_moments(sides.pooled_samples).split_halves()
    medians = sides.sign * (fives[1][:, 2] - fives[0][:, 2])
    means = sides.sign * (halves[1].mean - halves[0].mean)
    step = np.fmax(medians, means) / size
    n_b, n_t = (np.where(side.n > 0, side.n, 5).astype(np.float64) for side in halves)
    degrees = np.maximum(n_b + n_t - 2, 3.0)
    variance_b, variance_t = (
        np.fmax(robust_spread(five) ** 2, side.variance) for five, side in zip(fives, halves, strict=True)
    )
    error2 = variance_b / n_b + variance_t / n_t
    return step, error2 * (degrees / (degrees - 2)) ** 2 / size**2


def _step_of_runs(sides: Sides, size: Floats, prior: float) -> tuple[Yardstick, Floats, Floats, Floats]:
    """Return the between-run spread, the numbers of earlier and target versions, and the step of levels."""
    sign = sides.sign[:, None] / size[:, None]
    b = sign * last_values(sides.baseline.version_medians, _PAST)
    t = sign * first_values(sides.target.version_medians, _AFTER)
    h = sign * last_values(sides.history.version_medians, _PAST)
    past = np.hstack([h, b])
    n_past, n_after = (np.fmax(np.isfinite(side).sum(axis=1), 1.0) for side in (past, t))
    latest = pack_rows(past, right=True)[:, -_PAST:]
    steps = np.abs(np.diff(latest, axis=1))
    usual = row_quantile(steps, 0.5) / MAD
    bound = _ORDINARY_STEPS * np.fmax(usual, NOISE_FLOOR)[:, None]
    squares = np.where(np.isfinite(steps), np.minimum(steps, bound) ** 2, 0.0)
    pairs = np.isfinite(steps).sum(axis=1)
    spread2 = (PRIOR_VERSIONS * prior**2 + row_sum(squares) / 2) / (PRIOR_VERSIONS + pairs)
    # `features.comparisons.outliers` has removed runs far outside all others; a more robust mean, or a
    # median, ranks the failures of other data sets worse
    level = row_mean(latest)
    return Yardstick(np.sqrt(spread2), n_past), np.minimum(n_past, _PAST), n_after, row_mean(t) - level


#: Versions used on either side of a sibling's step, and the least number after it.
_NEAR, _FEWEST = 5, 2
#: A sibling counts as worse from the first t on, and fully from the second on.
_WORSE, _SURELY = 2.0, 6.0
#: Least number of siblings for a share, and the most that are used, evenly picked.
_ENOUGH_SIBLINGS, _MOST = 5, 256
#: Pairs of a comparison and a sibling that are handled at once, to bound memory.
_PAIRS = 1 << 20

SIBLINGS = ("siblings_worse",)


def sibling_features(sides: Sides) -> Floats:
    """Return the square root of the share `siblings_worse`, per configuration.

    All configurations of a comparison have equal values. Shape (1, n_configurations), 0 to 1, or NaN.
    """
    return np.asarray(np.sqrt(siblings_worse(sides))[None, sides.comparison])


def siblings_worse(sides: Sides) -> Floats:
    """Return the share of sibling operations that became worse at the version where the target begins.

    A sibling is a configuration of another operation of the same benchmark on the same machine that was also
    measured at that version. Its step is Welch's t (positive: worse) between the five versions before and two
    to five versions from it on, up to the target's last version. A sibling counts as ((t - 2) / 4)**2, but 0
    if t is below 2, and 1 if it is above 6. The result is the mean over up to 256 siblings. A share that the
    source states is returned unchanged. Shape (n_comparisons,), between 0 and 1; if none is stated, NaN with
    fewer than five siblings whose step is known, fewer than two versions of the target, or versions without
    names.
    """
    siblings, stated = sides.siblings, sides.siblings_worse
    shares = np.full(sides.n_comparisons, np.nan)
    if siblings is not None:
        steps, ahead = _worsening_scores(siblings.versions), _following_names(siblings.versions)
        number, worse = np.zeros((2, sides.n_comparisons))
        for comparison, version in _sibling_pairs(siblings):
            weights = steps[_usable_versions(siblings, ahead, comparison, version), version]
            finite = np.isfinite(weights)
            number += np.bincount(comparison[finite], minlength=len(number))
            worse += np.bincount(comparison[finite], weights[finite], minlength=len(number))
        shares = worse / np.where(number >= _ENOUGH_SIBLINGS, number, np.nan)
    return shares if stated is None else np.where(np.isnan(stated), shares, stated)


def _worsening_scores(versions: Versions) -> Floats:
    """Return how clearly (0 to 1) versions are worse than those before, by the number used from each on."""
    n = len(versions.series)
    orders = np.repeat(np.arange(n), np.diff(versions.starts))
    level = Samples(versions.values, orders, versions.starts[:-1], versions.starts[1:]).version_medians.values
    level = np.where(versions.lower, -level, level)
    result = np.full((_NEAR + 1, n), np.nan)
    before = np.flatnonzero(_in_same_series(versions.series, _NEAR - 1)) + _NEAR
    for reach in range(_FEWEST, _NEAR + 1):
        at = before[before + reach <= n]
        at = at[versions.series[at - _NEAR] == versions.series[at + reach - 1]]
        left, right = (level[at[:, None] + np.arange(*span)] for span in ((-_NEAR, 0), (0, reach)))
        result[reach, at] = _clearly_worse(left, right)
    return result


def _clearly_worse(left: Floats, right: Floats) -> Floats:
    """Return the windows' t without outliers on the left, scaled (`_WORSE`: 0, `_SURELY`: 1) and squared."""
    far = far_runs(np.abs(left))
    if far.any():
        left = np.where(far, np.median(left, axis=1, keepdims=True), left)
    variance = sum(side.var(axis=1, ddof=1) / side.shape[1] for side in (left, right))
    middle = left.mean(axis=1)
    error = np.sqrt(np.maximum(variance, (NOISE_FLOOR * middle) ** 2))
    t = (middle - right.mean(axis=1)) / np.where(error > 0, error, np.inf)
    return np.asarray(np.clip((t - _WORSE) / (_SURELY - _WORSE), 0, 1) ** 2)


def _in_same_series(series: Ints, offset: int) -> NDArray[np.bool_]:
    """Return whether each version and the one `offset` rows later belong to one series."""
    return series[: max(len(series) - offset, 0)] == series[offset:]


def _following_names(versions: Versions) -> Ints:
    """Return the names of each version and its successors, shape (_NEAR, n_versions); -2 without one."""
    ahead = np.full((_NEAR, len(versions.series)), -2)
    for offset in range(min(_NEAR, len(versions.series))):
        n = len(versions.series) - offset
        ahead[offset, :n] = np.where(_in_same_series(versions.series, offset), versions.name[offset:], -2)
    return ahead


def _sibling_pairs(siblings: Siblings) -> Iterator[tuple[Ints, Ints]]:
    """Yield comparisons, and for each a sibling's version with the name of the target's first version."""
    versions = siblings.versions
    order = np.argsort(versions.name, kind="stable")
    names = versions.name[order]
    name = versions.name[np.minimum(siblings.first, len(names) - 1)]
    rows = np.flatnonzero((siblings.stop - siblings.first >= _FEWEST) & (name >= 0))
    start, stop = (np.searchsorted(names, name[rows], side) for side in ("left", "right"))
    counts = np.minimum(stop - start, _MOST)
    for part in np.array_split(np.arange(len(rows)), max(1, int(counts.sum()) // _PAIRS)):
        group, within = numbered_groups(counts[part])
        owner = part[group]
        place = start[owner] + within * (stop - start)[owner] // counts[owner]
        comparison, version = rows[owner], order[place]
        other = versions.operation[version] != versions.operation[siblings.first[comparison]]
        yield comparison[other], version[other]


def _usable_versions(siblings: Siblings, ahead: Ints, comparison: Ints, version: Ints) -> Ints:
    """Return how many versions of each sibling may be used: the last of them is a version of the target."""
    reach = np.ones(len(version), np.int64)
    first, count = siblings.first[comparison], (siblings.stop - siblings.first)[comparison]
    for step in range(1, min(int(count.max(initial=0)), _NEAR)):
        name = siblings.versions.name[np.minimum(first + step, len(siblings.versions.name) - 1)]
        name = np.where(step < count, name, -3)
        for offset in range(1, _NEAR):
            reach = np.where(ahead[offset, version] == name, np.maximum(reach, offset + 1), reach)
    return reach


#: Versions looked at: the last ones of history and baseline, the first ones of the target.
_VERSIONS = 40
#: Configurations handled at once, to bound memory.
_BLOCK = 20_000
#: Sliding windows of history are at most this many versions long.
_WINDOW = 5
#: Contrasts are cut off beyond these sizes.
_SMALLEST, _LARGEST = 0.01, 1e4
#: A history shorter than this many versions (with the baseline) says nothing about how unusual a step is.
_ENOUGH = 8

HISTORY = (
    "version_t",
    "version_step",
    "boundary_gain",
    "boundary_sharpness",
    "first_version",
    "best_version",
    "last_version",
    "history_step",
    "history_superiority",
    "history_quantile",
    "history_seen",
    "local_contrast",
    "history_excess",
    "history_rank",
    "history_trend",
    "history_range",
)


def with_versions(sides: Sides) -> Ints:
    """Return the ascending indices of configurations with samples on both sides and of several versions.

    A configuration is of several versions if it has samples in the history, or if the samples of its baseline
    or its target come from more than one version.
    """
    several = [side.version_medians.lengths > 1 for side in (sides.baseline, sides.target)]
    return np.flatnonzero(has_samples(sides) & (several[0] | several[1] | (sides.history.lengths > 0)))


def version_features(sides: Sides, rows: Ints) -> Floats:
    """Return features of the step from baseline to target relative to the steps between earlier versions.

    rows: indices of the configurations to describe. Every version is represented by its median; history,
    baseline and target may each have several. At most 40 of each are used: the last ones of history and
    baseline, the first ones of the target. Smaller features are worse, except ``history_trend``, which does
    not depend on the target. Shape (len(HISTORY), n_configurations), features in the order of `HISTORY`; NaN
    where unknown, and for configurations that are not in `rows`.
    """
    result = np.full((len(HISTORY), len(sides.sign)), np.nan)
    baseline, target, history = (
        side.version_medians for side in (sides.baseline, sides.target, sides.history)
    )
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        sign = sides.sign[block, None]
        b = sign * last_values(baseline.select_rows(block), _VERSIONS)
        t = sign * first_values(target.select_rows(block), _VERSIONS)
        h = sign * last_values(history.select_rows(block), _VERSIONS)
        result[:, block] = _describe_versions(b, t, h)
    return result


def _describe_versions(b: Floats, t: Floats, h: Floats) -> Floats:
    past = pack_rows(np.hstack([h, b]), right=True)
    level, target = row_quantile(b, 0.5), row_quantile(t, 0.5)
    least_deviation = NOISE_FLOOR * np.abs(level)
    # the standard deviation between neighbouring versions, hardly affected by steps of the level
    jitter = row_quantile(np.abs(np.diff(past, axis=1)), 0.5) / (MAD * np.sqrt(2))
    jitter = np.maximum(jitter, least_deviation)
    step = target - level
    long_ago = row_quantile(past, 0.5)
    scatter = np.maximum(row_quantile(np.abs(past - long_ago[:, None]), 0.5) / MAD, least_deviation)
    gain, sharpness, _ = step_variance(b, t)
    direction = np.sign(row_mean(t) - row_mean(b))
    enough = np.where((np.isfinite(past).sum(axis=1) >= _ENOUGH), 1.0, np.nan)
    with_history = np.where(np.isfinite(h).any(axis=1), 1.0, np.nan)
    contrast, excess, rank = _against_past_steps(past, t, jitter, least_deviation)
    extent = row_quantile(past, 0.95) - row_quantile(past, 0.05)
    return np.vstack(
        [
            _version_t(b, t, least_deviation),
            step / jitter,
            direction * gain,
            direction * sharpness,
            (_first_known(t) - level) / jitter,
            (row_quantile(t, 1.0) - level) / jitter,
            (_first_known(t[:, ::-1]) - level) / jitter,
            (target - long_ago) / scatter * with_history,
            _share_of_wins(past, t) * with_history,
            share_where(past <= target[:, None], past) * enough,
            share_where(past <= (target - step / 2)[:, None], past) * enough,
            contrast,
            excess * enough,
            rank * enough,
            _past_trend(past) / jitter * enough,
            step / np.maximum(extent, least_deviation) * enough,
        ]
    )


def _version_t(b: Floats, t: Floats, least_deviation: Floats) -> Floats:
    n_b, n_t = (np.isfinite(side).sum(axis=1) for side in (b, t))
    mean_b, mean_t = row_mean(b), row_mean(t)
    deviations = b - mean_b[:, None], t - mean_t[:, None]
    squares = sum(row_sum(np.where(np.isnan(side), 0.0, side) ** 2) for side in deviations)
    degrees = n_b + n_t - 2
    deviation = np.maximum(np.sqrt(squares / np.where(degrees > 0, degrees, np.nan)), least_deviation)
    return np.asarray((mean_t - mean_b) / (deviation * np.sqrt(1 / n_b + 1 / n_t)))


def _against_past_steps(
    past: Floats, t: Floats, jitter: Floats, least_deviation: Floats
) -> tuple[Floats, Floats, Floats]:
    """Compare the step at the boundary with the steps between adjacent windows of the past: size and rank.

    Steps are in units of the deviation inside their windows, which are as long as the target, at most
    `_WINDOW` versions. Returns the step as a signed root (NaN with fewer than two windows in the past), log(1
    + its size / the past steps' 95 % quantile) and the share of smaller past steps, each with the step's
    sign.
    """
    contrast, excess, rank = np.full((3, len(past)), np.nan)
    versions = np.minimum(np.isfinite(t).sum(axis=1), _WINDOW)
    number = np.isfinite(past).sum(axis=1)
    for width in sorted(set(versions.tolist()) - {0}):
        rows = np.flatnonzero((versions == width) & (number >= 2 * width))
        if not len(rows):
            continue
        least = (jitter if width == 1 else least_deviation)[rows]
        windows = np.lib.stride_tricks.sliding_window_view(past[rows], 2 * width, axis=1)
        steps = np.abs(_window_contrast(windows[..., :width], windows[..., width:], least[:, None]))
        here = _window_contrast(past[rows, -width:], t[rows, :width], least)
        contrast[rows] = signed_root(np.clip(here, -_LARGEST, _LARGEST))
        size, large = np.abs(here), row_quantile(steps, 0.95)
        excess[rows] = np.sign(here) * np.log1p(np.minimum(size, _LARGEST) / np.maximum(large, _SMALLEST))
        rank[rows] = np.sign(here) * share_where(steps < size[:, None], steps)
    return contrast, excess, rank


def _window_contrast(left: Floats, right: Floats, least: Floats) -> Floats:
    deviation = np.sqrt((left.var(axis=-1) + right.var(axis=-1)) / 2)
    return np.asarray((right.mean(axis=-1) - left.mean(axis=-1)) / np.maximum(deviation, least))


def _share_of_wins(past: Floats, t: Floats) -> Floats:
    """Return how often the target is better than past versions, as a share of pairs; ties count half."""
    wins, pairs = np.zeros((2, len(past)))
    for column in t.T:
        is_pair = np.isfinite(past) & np.isfinite(column)[:, None]
        wins += (is_pair & (column[:, None] > past)).sum(axis=1)
        wins += (is_pair & (column[:, None] == past)).sum(axis=1) / 2
        pairs += is_pair.sum(axis=1)
    return np.asarray(wins / np.where(pairs > 0, pairs, np.nan))


def _past_trend(past: Floats) -> Floats:
    finite = np.isfinite(past)
    share = np.cumsum(finite, axis=1) / np.maximum(finite.sum(axis=1), 1)[:, None]
    early = np.where(finite & (share <= 1 / 3), past, np.nan)
    late = np.where(finite & (share > 2 / 3), past, np.nan)
    return row_quantile(late, 0.5) - row_quantile(early, 0.5)


def _first_known(rows: Floats) -> Floats:
    return np.asarray(rows[np.arange(len(rows)), np.isfinite(rows).argmax(axis=1)])
