"""Feature vectors of comparisons: the 15 features of the thesis, and features of samples and history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from data.comparisons.params import FeatureSet
from data.comparisons.sides import Floats, Ints, Samples, Sides, five_numbers, flatten_samples
from features.comparisons.history import (
    HISTORY,
    ORDINARY,
    SIBLINGS,
    Steps,
    run_steps,
    sibling_features,
    version_features,
    with_versions,
    within_runs,
)
from features.comparisons.later import LATER_DIRECTIONS, LATER_FEATURES, later_vectors
from features.comparisons.outliers import (
    Outliers,
    select_configurations,
    without_duplicates,
    without_outliers,
)
from features.comparisons.summaries import (
    estimate_superiority,
    has_samples,
    orient_upwards,
    over_configurations,
    range_overlap,
    rank_test,
    relative_differences,
    robust_spread,
    sample_moments,
    signed_root,
    welch_t,
)

#: Largest change; changes from medians near 0 would overflow.
FARTHEST = 1e9


@dataclass(frozen=True)
class PreparedComparisons:
    """Comparisons prepared for judging: no duplicates or outliers, and the changes of their medians."""

    sides: Sides
    outliers: Outliers  # the removed samples and runs
    #: Shape (n_configurations,): relative change of the median, `FARTHEST` at most; negative is worse.
    change: Floats
    steps: Steps  # steps relative to between-run variation
    within: NDArray[np.bool_]  # shape (n_configurations,): the change is within between-run variation
    #: Shape (n_comparisons,): configurations with the smallest and the largest change; -1 without any.
    worst: Ints
    best: Ints

    @classmethod
    def from_sides(cls, sides: Sides, run_spread: float = ORDINARY) -> PreparedComparisons:
        """Return `sides` without duplicates and outliers, with the changes of their medians.

        run_spread: between-run standard deviation assumed without earlier versions, as a share of the level.
        """
        return cls.from_clean_sides(*without_outliers(without_duplicates(sides)), run_spread)

    @classmethod
    def from_clean_sides(cls, sides: Sides, outliers: Outliers, run_spread: float) -> PreparedComparisons:
        """Return `sides`, where `outliers` are already removed, with the changes of their medians."""
        before, after = sides.baseline_five[:, 2], sides.target_five[:, 2]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            change = sides.sign * (after - before) / np.abs(before)
            change = np.minimum(np.maximum(change, -FARTHEST, out=change), FARTHEST, out=change)
        order = np.append(np.lexsort((change, sides.comparison)), -1)
        counts = sides.per_comparison
        ends = counts.cumsum()
        worst, best = (order[np.where(counts, at, -1)] for at in (ends - counts, ends - 1))
        steps = run_steps(sides, run_spread)
        return cls(sides, outliers, change, steps, within_runs(sides, steps), worst, best)

    @cached_property
    def n_worsened(self) -> Ints:
        """How many configurations of every comparison got worse, shape (n_comparisons,)."""
        return np.bincount(self.sides.comparison[self.change < 0], minlength=self.sides.n_comparisons)

    @property
    def worst_change(self) -> Floats:
        """The most negative change of each comparison's medians, shape (n_comparisons,); NaN if unknown.

        A change for the worse within between-run variation counts as 0. The change is a share of the baseline
        median.
        """
        counts = self.sides.per_comparison
        worst, occupied = np.full(len(counts), np.nan), counts > 0
        if occupied.any():
            changes = np.where(self.within, np.fmax(self.change, 0.0), self.change)
            worst[occupied] = np.fmin.reduceat(changes, (counts.cumsum() - counts)[occupied])
        return worst


#: A baseline of fewer versions is too short to estimate between-run variation.
_SHORT = 5


def without_past(sides: Sides) -> Sides:
    """Return a copy of the comparisons with an empty history and without sibling operations (None)."""
    nothing = replace(sides.history, stops=sides.history.starts)
    return replace(sides, history=nothing, siblings=None, siblings_worse=None)


def _with_past(sides: Sides, rows: Ints) -> Sides:
    """Return the configurations `rows`; their baseline is the history, followed by the baseline."""
    chosen = select_configurations(sides, rows)
    both = chosen.history.followed_by(chosen.baseline)
    owner, place = flatten_samples(both)
    place = place[np.argsort(owner % len(rows), kind="stable")]
    lengths = chosen.history.lengths + chosen.baseline.lengths
    stops = np.cumsum(lengths)
    baseline = Samples(both.values[place], both.orders[place], stops - lengths, stops)
    return replace(chosen, baseline=baseline, baseline_five=five_numbers(baseline))


#: The order of figure 6.5, lines 31-34.
_STATISTICS = ("medians", "mins", "maxes", "q1s", "q3s")
_REDUCTIONS = ("min", "med", "max")
SEED_FEATURES = tuple(f"{statistic}_{reduction}" for statistic in _STATISTICS for reduction in _REDUCTIONS)

#: Features per configuration, and which of their lowest, middle and highest value is kept; the sum of z
#: values is divided by the root of their number (Stouffer): small shifts everywhere add up.
_PER_CONFIGURATION: dict[str, tuple[str, ...]] = {
    "rank_z": ("min", "med", "sum"),
    "superiority": ("min", "med"),
    "welch_t": ("min", "med"),
    "baseline_effect": ("min",),
    "pooled_effect": ("min", "med"),
    "lows": ("min",),
    "highs": ("min",),
    "overlap": ("min",),
    "baseline_noise": ("max",),
    "spread_ratio": ("med",),
    "repetitions": ("min",),
    "run_step": ("min",),
    "run_spread": ("max",),
    "past_known": ("max",),
    **dict.fromkeys(HISTORY, ("min",)),
    **dict.fromkeys(SIBLINGS, ("max",)),
}
EXTENDED_FEATURES = tuple(
    f"{name}_{reduction}" for name, reductions in _PER_CONFIGURATION.items() for reduction in reductions
)
#: Features per configuration that do not change if all of the target's samples get worse by a factor.
_UNDIRECTED = {
    *_STATISTICS[1:],
    *("baseline_noise", "spread_ratio", "repetitions", "past_known", "run_spread", "history_trend"),
    *SIBLINGS,
}
#: All features but those of later versions.
FEATURES = SEED_FEATURES + EXTENDED_FEATURES
#: By feature: -1 if a larger value makes ``fail`` less probable, else 0.
DIRECTIONS: Mapping[str, int] = {
    name: 0 if name.rpartition("_")[0] in _UNDIRECTED else -1 for name in FEATURES
} | {**LATER_DIRECTIONS}
#: Hidden from models: scatter and number of samples are not evidence by themselves; features with a direction
#: are measured in units of them.
_WITHHELD = (*_STATISTICS[1:], "baseline_noise", "spread_ratio", "repetitions", "run_spread")
_SEEN = tuple(name for name in FEATURES if name.rpartition("_")[0] not in _WITHHELD)
#: Statistics that assume independent samples.
_OF_INDEPENDENT = ("rank_z", "welch_t")
#: The feature that measures the step in units of its standard error.
EVIDENCE = "run_step_min"
#: Features of the two sides, without those of versions.
_OF_SIDES = [name for name in _PER_CONFIGURATION if name not in HISTORY + SIBLINGS]
#: Rows of `_OF_SIDES` in units of noise; and these together with the other rows whose root is taken.
_NOISY = [*map(_OF_SIDES.index, ("welch_t", "baseline_effect", "pooled_effect", "run_step"))]
_ROOTED = [*_NOISY, *map(_OF_SIDES.index, ("lows", "highs"))]
_SEED = len(SEED_FEATURES)
#: Column of the sum of z values.
_SUM = FEATURES.index("rank_z_sum")

#: Statistics in units of noise are cut off here before their root is taken.
_LARGEST = 1e4
#: Bound of all features: forests compute in float32, and larger values would not say more.
_BOUND = 1e9
#: Repetitions per side assumed for five numbers without a count: the fewest that have all five.
SUMMARISED = 5
#: Features of later versions by the sets that have them.
_LATER = {"retrospective": LATER_FEATURES}


def model_columns(features: FeatureSet) -> tuple[str, ...]:
    """Return the names of the feature columns that models use with a feature set, in their order.

    "thesis" has the 15 features of the thesis. "extended" has those three of the 15 that are of medians, and
    features of samples (without their scatter and number), of earlier versions and of other operations
    (`SIBLINGS`); "retrospective" adds those of later versions.
    """
    return SEED_FEATURES if features == "thesis" else _SEEN + _LATER.get(features, ())


def vector_columns(features: FeatureSet) -> tuple[str, ...]:
    """Return the names of all columns of `feature_vectors`, with those that models do not use.

    "thesis" counts as "extended".
    """
    return FEATURES + _LATER.get(features, ())


def smallest_set_with(features: Iterable[str]) -> FeatureSet:
    """Return the smallest set ("thesis", "extended", "retrospective") that has all these features.

    An unknown name counts as a feature of "extended"; without names, the result is "thesis".
    """
    names = set(features)
    if names & set(LATER_FEATURES):
        return "retrospective"
    return "thesis" if names <= set(SEED_FEATURES) else "extended"


def feature_vectors(
    sides: Sides, features: FeatureSet = "extended", run_spread: float = ORDINARY, steps: Steps | None = None
) -> Floats:
    """Return all features of all comparisons, shape (n_comparisons, n_features).

    Columns are in the order of ``vector_columns(features)``, values between -`_BOUND` and `_BOUND` (1e9). A
    feature is NaN where it is unknown: those of versions, for example, where there is no history and each
    side is a single version. Features of samples are estimated where a side has only five numbers. Versions
    after the target are used only if `features` is "retrospective"; "thesis" counts as "extended".
    `run_spread`, a share of the level, is the `prior` of `run_steps`; it is ignored if `steps`, the result of
    `run_steps`, is given.

    The first 15 are the features of the thesis, figure 6.5: for each of five differences, the signed square
    roots of its lowest, median and highest value over the configurations. Where lower is better, all values
    are mirrored (v -> -v) first, so that a minimum is always the worst value. ``medians`` is the target's
    median minus the baseline's, divided by the absolute value of the baseline's. ``mins, maxes, q1s, q3s``
    are the target's median minus the target's minimum, maximum or quartile, divided by the absolute value of
    the target's median. Configurations whose divisor is zero or unknown are ignored.
    """
    sides = sides.overflow_safe
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        values = _per_configuration(sides, steps or run_steps(sides, run_spread))
        extent = over_configurations(values, sides.comparison, sides.n_comparisons)
        positions = _feature_positions(len(values))
        rows = np.full((len(FEATURES), sides.n_comparisons), np.nan)
        rows[: len(positions)] = np.concatenate(extent)[positions]
        rows[:_SEED] = signed_root(rows[:_SEED])
        # the known z values of the configurations of a comparison, combined by Stouffer's method
        z = values[len(_STATISTICS)]
        finite = np.isfinite(z)
        owner, n = sides.comparison[finite], sides.n_comparisons
        count = np.bincount(owner, minlength=n)
        rows[_SUM] = np.bincount(owner, z[finite], minlength=n) / np.sqrt(np.where(count > 0, count, np.nan))
        bounded = np.minimum(np.maximum(rows, -_BOUND, out=rows), _BOUND, out=rows).T.copy()
        if features != "retrospective":
            return bounded
        return np.hstack([bounded, np.clip(later_vectors(sides), -_BOUND, _BOUND)])


@cache
def _feature_positions(n_rows: int) -> Ints:
    """Return the positions of the features of `n_rows` rows among all lowest, middle and highest values."""
    rows = [*_STATISTICS, *_PER_CONFIGURATION][:n_rows]
    parts = [name.rpartition("_") for name in SEED_FEATURES + EXTENDED_FEATURES]
    order = [*_REDUCTIONS, "sum"]
    return np.array(
        [order.index(kind) % 3 * n_rows + rows.index(row) for row, _, kind in parts if row in rows]
    )


def _per_configuration(sides: Sides, steps: Steps) -> Floats:
    """Return the features of configurations, one row each; without those of versions if all are unknown."""
    b, t = orient_upwards(np.array((sides.baseline_five, sides.target_five)), sides.sign)
    values = _of_five_numbers(b, t) | _of_samples(sides)
    values["run_step"], values["run_spread"] = steps.step / steps.error, np.log(steps.yardstick.spread)
    values["past_known"] = (sides.history.lengths > 0).astype(np.float64)
    _use_earlier_runs(values, sides, steps)
    summaries = (~has_samples(sides)).nonzero()[0]
    if len(summaries):
        for name, estimate in _of_summaries(b[summaries], t[summaries]).items():
            values[name][summaries] = estimate
    features = np.array([values[name] for name in _OF_SIDES])
    features[_NOISY] = np.clip(features[_NOISY], -_LARGEST, _LARGEST)
    features[_ROOTED] = signed_root(features[_ROOTED])
    rows = with_versions(sides)
    if len(rows) or sides.siblings_worse is not None:
        features = np.concatenate((features, version_features(sides, rows), sibling_features(sides)))
    features[~np.isfinite(features)] = np.nan
    return np.concatenate((relative_differences(b, t), features))


def _use_earlier_runs(values: dict[str, Floats], sides: Sides, steps: Steps) -> None:
    """Replace features by those against all earlier runs where these are larger and the baseline is short."""
    baseline, history = sides.baseline.version_medians.lengths, sides.history.version_medians.lengths
    short = (baseline > 0) & (baseline < _SHORT) & (sides.target.lengths > 0)
    rows = np.flatnonzero(short & (baseline + history >= _SHORT))
    if not len(rows):
        return
    past = _with_past(sides, rows)
    b, t = orient_upwards(np.array((past.baseline_five, past.target_five)), past.sign)
    for name, feature in (_of_five_numbers(b, t) | _of_samples(past)).items():
        if name not in _UNDIRECTED:
            values[name][rows] = np.fmax(values[name][rows], feature)
    for name in _OF_INDEPENDENT:
        values[name][rows] /= np.sqrt(steps.repeated[rows])


def _of_five_numbers(b: Floats, t: Floats) -> dict[str, Floats]:
    shift, size = t[:, 2] - b[:, 2], np.abs(b[:, 2])
    noise_b, noise_t = robust_spread(np.array((b, t)))
    return {
        "baseline_effect": shift / noise_b,
        "pooled_effect": shift / np.sqrt((noise_b**2 + noise_t**2) / 2),
        "lows": (t[:, 0] - b[:, 0]) / size,
        "highs": (t[:, 4] - b[:, 4]) / size,
        "overlap": range_overlap(b, t),
        "baseline_noise": noise_b / size,
        "spread_ratio": np.log(noise_t / np.abs(t[:, 2]) / (noise_b / size)),
    }


def _of_samples(sides: Sides) -> dict[str, Floats]:
    ranks = rank_test(sides.baseline, sides.target, sides.sign)
    baseline, target = sample_moments(sides.pooled_samples).split_halves()
    fewer = np.minimum(baseline.n, target.n).astype(np.float64)
    return {
        "rank_z": ranks.z,
        "superiority": ranks.superiority,
        "welch_t": welch_t(baseline, target, sides.sign),
        "repetitions": np.log2(np.where(fewer > 0, fewer, np.nan)),
    }


def _of_summaries(b: Floats, t: Floats) -> dict[str, Floats]:
    """Estimate the features of `_of_samples` from five numbers, as quantiles of `SUMMARISED` repetitions."""
    better, n = estimate_superiority(b, t), float(SUMMARISED)
    error = np.sqrt((robust_spread(b) ** 2 + robust_spread(t) ** 2) / n)
    return {
        "superiority": better,
        "rank_z": (better - 0.5) / np.sqrt((2 * n + 1) / (12 * n * n)),
        "welch_t": (t[:, 2] - b[:, 2]) / error,
        "repetitions": np.where(np.isnan(better), np.nan, np.log2(n)),
    }
