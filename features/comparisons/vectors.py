"""Feature vectors of comparisons: the 15 components of seed 000, and features of samples and history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from data.comparisons.params import FeatureSet
from data.comparisons.sides import Floats, Ints, Samples, Sides, five_numbers
from features.comparisons.history import (
    HISTORY,
    HISTORY_DIRECTIONS,
    ORDINARY,
    RUNS_DIRECTIONS,
    SIBLING_DIRECTIONS,
    SIBLINGS,
    Steps,
    run_features,
    run_steps,
    sibling_features,
    version_features,
    with_versions,
    within_runs,
)
from features.comparisons.later import LATER_DIRECTIONS, LATER_FEATURES, later_vectors
from features.comparisons.outliers import Wild, some, without_copies, without_wild
from features.comparisons.summaries import (
    flat,
    moments,
    oriented,
    over_configurations,
    overlap,
    rank_test,
    relative_differences,
    sampled,
    signed_root,
    spread,
    superiority,
    welch_t,
)

#: Largest change; changes from medians near 0 would overflow.
FARTHEST = 1e9


@dataclass(frozen=True)
class PreparedComparisons:
    """Comparisons prepared for judging: no duplicates or outliers, and the changes of their medians."""

    sides: Sides
    wild: Wild  # the removed samples and runs
    #: Shape (n_configurations,): The target's median against the baseline's, as a share of it, `FARTHEST` at
    #: most; negative is worse.
    change: Floats
    steps: Steps  # steps relative to between-run variation
    #: Shape (n_configurations,): Whether the change is within the between-run variation of this operation.
    within: NDArray[np.bool_]
    #: worst, best: shape (n_comparisons,): The configuration with the smallest and with the largest change;
    #: -1 without configurations.
    worst: Ints
    best: Ints

    @classmethod
    def of(cls, sides: Sides, run_spread: float = ORDINARY) -> PreparedComparisons:
        """Remove duplicates and outliers, and compare the medians; `run_spread` as in `vectors`."""
        return cls.compared(*without_wild(without_copies(sides)), run_spread)

    @classmethod
    def compared(cls, sides: Sides, wild: Wild, run_spread: float) -> PreparedComparisons:
        """Compare the medians of `sides`, whose outliers `wild` are already removed."""
        before, after = sides.baseline_five[:, 2], sides.target_five[:, 2]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            change = sides.sign * (after - before) / np.abs(before)
            change = np.minimum(np.maximum(change, -FARTHEST, out=change), FARTHEST, out=change)
        order = np.append(np.lexsort((change, sides.comparison)), -1)
        many = sides.per_comparison
        ends = many.cumsum()
        worst, best = (order[np.where(many, at, -1)] for at in (ends - many, ends - 1))
        steps = run_steps(sides, run_spread)
        return cls(sides, wild, change, steps, within_runs(sides, steps), worst, best)

    @cached_property
    def worsened(self) -> Ints:
        """How many configurations of every comparison got worse, shape (n_comparisons,)."""
        return np.bincount(self.sides.comparison[self.change < 0], minlength=self.sides.n_comparisons)

    @property
    def worst_change(self) -> Floats:
        """The most negative change of each comparison's medians, shape (n_comparisons,); NaN if unknown.

        A change for the worse within between-run variation counts as 0.
        """
        many = self.sides.per_comparison
        found, some = np.full(len(many), np.nan), many > 0
        if some.any():
            counted = np.where(self.within, np.fmax(self.change, 0.0), self.change)
            found[some] = np.fmin.reduceat(counted, (many.cumsum() - many)[some])
        return found


#: A baseline of fewer versions is too short to estimate between-run variation.
_SHORT = 5


def short_of_runs(sides: Sides) -> Ints:
    """Return the configurations whose baseline has few versions, but whose past has enough."""
    if not sides.history.lengths.any():
        return np.zeros(0, np.int64)
    baseline, history = sides.baseline.levels.lengths, sides.history.levels.lengths
    short = (baseline > 0) & (baseline < _SHORT) & (sides.target.lengths > 0)
    return np.flatnonzero(short & (baseline + history >= _SHORT))


def without_past(sides: Sides) -> Sides:
    """Return a copy of the comparisons without history and without sibling operations."""
    history = sides.history
    nothing = Samples(history.values, history.orders, history.starts, history.starts)
    return replace(sides, history=nothing, siblings=None, siblings_worse=None)


def with_past(sides: Sides, rows: Ints) -> Sides:
    """Return the configurations `rows` with history and baseline joined as their baseline."""
    own = some(sides, rows)
    baseline = _joined(own.history, own.baseline)
    nothing = Samples(baseline.values, baseline.orders, baseline.starts, baseline.starts)
    return replace(own, baseline=baseline, history=nothing, baseline_five=five_numbers(baseline))


def _joined(before: Samples, after: Samples) -> Samples:
    parts = [flat(side) for side in (before, after)]
    order = np.argsort(np.concatenate([owner for owner, _ in parts]), kind="stable")
    both = list(zip((before, after), parts, strict=True))
    values = np.concatenate([side.values[place] for side, (_, place) in both])[order]
    orders = np.concatenate([side.orders[place] for side, (_, place) in both])[order]
    stops = np.cumsum(before.lengths + after.lengths)
    return Samples(values, orders, stops - before.lengths - after.lengths, stops)


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
#: By feature per configuration: whether a larger value makes ``fail`` less probable (-1) or more (1); 0: the
#: feature does not change if all of the target's samples get worse by a factor.
_DIRECTIONS = {
    **dict.fromkeys(_STATISTICS[1:], 0),
    **dict.fromkeys(("baseline_noise", "spread_ratio", "repetitions", "past_known"), 0),
    **RUNS_DIRECTIONS,
    **HISTORY_DIRECTIONS,
    **SIBLING_DIRECTIONS,
}
DIRECTIONS: Mapping[str, int] = {
    name: _DIRECTIONS.get(name.rpartition("_")[0], -1) for name in SEED_FEATURES + EXTENDED_FEATURES
} | {**LATER_DIRECTIONS}
#: All features but those of later versions.
FEATURES = SEED_FEATURES + EXTENDED_FEATURES
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

#: Comparisons handled at once: few enough for intermediate results to stay in the processor's cache.
_BLOCK = 16_384
#: Statistics in units of noise are cut off here before their root is taken.
_LARGEST = 1e4
#: Bound of all features: forests compute in float32, and larger values would not say more.
_BOUND = 1e9
#: Repetitions per side assumed for five numbers without a count: the fewest that have all five.
SUMMARISED = 5


def columns(features: FeatureSet) -> tuple[str, ...]:
    """Return the columns that models use with the parameter ``comparisons.featurize.set``."""
    return SEED_FEATURES if features == "seed" else _SEEN + _of_later(features)


def computed(features: FeatureSet) -> FeatureSet:
    """Return the feature set to compute for a model: "retrospective" for itself, else "extended"."""
    return "retrospective" if features == "retrospective" else "extended"


def described(features: FeatureSet) -> tuple[str, ...]:
    """Return the names of the columns of `vectors` for a set, with those that models do not use."""
    return FEATURES + _of_later(features)


def set_of(features: Iterable[str]) -> FeatureSet:
    """Return the smallest set that has all these features."""
    given = set(features)
    if given & set(LATER_FEATURES):
        return "retrospective"
    return "seed" if given <= set(SEED_FEATURES) else "extended"


def _of_later(features: FeatureSet) -> tuple[str, ...]:
    return LATER_FEATURES if features == "retrospective" else ()


def seed_vectors(sides: Sides) -> Floats:
    """Return the vector of figure 6.5 for every comparison (seed 000, section 6.5).

    Returns
    -------
    ndarray of shape (n_comparisons, 15)
        Columns `SEED_FEATURES`. Negative ``medians_*`` mean a worse target, also where lower is better.
    """
    n = sides.n_comparisons
    vector = np.empty((5, 3, n))
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        rows = slice(*np.searchsorted(sides.comparison, (start, stop)))
        differences = relative_differences(
            oriented(sides.baseline_five[rows], sides.sign[rows]),
            oriented(sides.target_five[rows], sides.sign[rows]),
        )
        extent = over_configurations(differences, sides.comparison[rows] - start, stop - start)
        for column, values in enumerate(extent):
            vector[:, column, start:stop] = signed_root(values)
    return vector.reshape(15, n).T


def vectors(
    sides: Sides,
    features: FeatureSet = "extended",
    run_spread: float = ORDINARY,
    steps: Steps | None = None,
) -> Floats:
    """Return all features of all comparisons.

    Parameters
    ----------
    sides : Sides
    features : {"extended", "retrospective"}
        Only "retrospective" uses versions after the target.
    run_spread : float
        Between-run spread of a build where no versions show it; see `features.comparisons.history`.
    steps : Steps, optional
        The result of `run_steps`, where it is already computed.

    Returns
    -------
    ndarray of shape (n_comparisons, n_features)
        In the order of ``described(features)``, between -`_BOUND` and `_BOUND`. NaN where a feature is
        unknown: features of versions without history and with one version per side. Where there are five
        numbers instead of samples, features of samples are estimated from them.
    """
    sides = sides.normalized
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        found = _vectors(sides, steps or run_steps(sides, run_spread))
        if features != "retrospective":
            return found
        return np.hstack([found, np.clip(later_vectors(sides), -_BOUND, _BOUND)])


def _vectors(sides: Sides, steps: Steps) -> Floats:
    values = _per_configuration(sides, steps)
    extent = over_configurations(values, sides.comparison, sides.n_comparisons)
    kept = _kept(len(values))
    found = np.full((_SEED + len(EXTENDED_FEATURES), sides.n_comparisons), np.nan)
    found[: len(kept)] = np.concatenate(extent)[kept]
    found[:_SEED] = signed_root(found[:_SEED])
    found[_SUM] = _stouffer(values[len(_STATISTICS)], sides)
    bounded = np.minimum(np.maximum(found, -_BOUND, out=found), _BOUND, out=found)
    return bounded.T.copy()


@cache
def _kept(n_rows: int) -> Ints:
    """Return the positions of the features of `n_rows` rows among all lowest, middle and highest values."""
    rows = [*_STATISTICS, *_PER_CONFIGURATION][:n_rows]
    parts = [name.rpartition("_") for name in SEED_FEATURES + EXTENDED_FEATURES]
    order = [*_REDUCTIONS, "sum"]
    return np.array(
        [order.index(kind) % 3 * n_rows + rows.index(row) for row, _, kind in parts if row in rows]
    )


def _stouffer(z: Floats, sides: Sides) -> Floats:
    """Combine the known z values of every comparison's configurations."""
    known = np.isfinite(z)
    owner, n = sides.comparison[known], sides.n_comparisons
    count = np.bincount(owner, minlength=n)
    return np.bincount(owner, z[known], minlength=n) / np.sqrt(np.where(count > 0, count, np.nan))


def _per_configuration(sides: Sides, steps: Steps) -> Floats:
    """Compute the features of configurations, a row each; no versions and siblings if all unknown."""
    b, t = oriented(np.array((sides.baseline_five, sides.target_five)), sides.sign)
    values = _of_five_numbers(b, t) | _of_samples(sides)
    values |= dict(zip(RUNS_DIRECTIONS, run_features(steps), strict=True))
    values["past_known"] = (sides.history.lengths > 0).astype(np.float64)
    _look_back(values, sides, steps)
    given = (~sampled(sides)).nonzero()[0]
    if len(given):
        for name, estimate in _of_summaries(b[given], t[given]).items():
            values[name][given] = estimate
    own = np.array([values[name] for name in _OF_SIDES])
    own[_NOISY] = np.clip(own[_NOISY], -_LARGEST, _LARGEST)
    own[_ROOTED] = signed_root(own[_ROOTED])
    rows = with_versions(sides)
    found = own
    if len(rows) or sides.siblings_worse is not None:
        found = np.concatenate((own, version_features(sides, rows), sibling_features(sides)))
    found[~np.isfinite(found)] = np.nan
    return np.concatenate((relative_differences(b, t), found))


def _look_back(values: dict[str, Floats], sides: Sides, steps: Steps) -> None:
    """Take features against all earlier runs where they are better and the baseline has few runs."""
    rows = short_of_runs(sides)
    if not len(rows):
        return
    past = with_past(sides, rows)
    b, t = oriented(np.array((past.baseline_five, past.target_five)), past.sign)
    clustered = np.sqrt(steps.repeated[rows])
    for name, found in (_of_five_numbers(b, t) | _of_samples(past)).items():
        if _DIRECTIONS.get(name, -1) == 0:
            continue
        shared = clustered if name in _OF_INDEPENDENT else 1.0
        values[name][rows] = np.fmax(values[name][rows], found) / shared


def _of_five_numbers(b: Floats, t: Floats) -> dict[str, Floats]:
    shift, size = t[:, 2] - b[:, 2], np.abs(b[:, 2])
    noise_b, noise_t = spread(np.array((b, t)))
    return {
        "baseline_effect": shift / noise_b,
        "pooled_effect": shift / np.sqrt((noise_b**2 + noise_t**2) / 2),
        "lows": (t[:, 0] - b[:, 0]) / size,
        "highs": (t[:, 4] - b[:, 4]) / size,
        "overlap": overlap(b, t),
        "baseline_noise": noise_b / size,
        "spread_ratio": np.log(noise_t / np.abs(t[:, 2]) / (noise_b / size)),
    }


def _of_samples(sides: Sides) -> dict[str, Floats]:
    ranks = rank_test(sides.baseline, sides.target, sides.sign)
    baseline, target = moments(sides.pooled).halves()
    fewer = np.minimum(baseline.n, target.n).astype(np.float64)
    return {
        "rank_z": ranks.z,
        "superiority": ranks.superiority,
        "welch_t": welch_t(baseline, target, sides.sign),
        "repetitions": np.log2(np.where(fewer > 0, fewer, np.nan)),
    }


def _of_summaries(b: Floats, t: Floats) -> dict[str, Floats]:
    """Estimate the features of `_of_samples` from five numbers, as quantiles of `SUMMARISED` repetitions."""
    better, n = superiority(b, t), float(SUMMARISED)
    error = np.sqrt((spread(b) ** 2 + spread(t) ** 2) / n)
    return {
        "superiority": better,
        "rank_z": (better - 0.5) / np.sqrt((2 * n + 1) / (12 * n * n)),
        "welch_t": (t[:, 2] - b[:, 2]) / error,
        "repetitions": np.where(np.isnan(better), np.nan, np.log2(n)),
    }
