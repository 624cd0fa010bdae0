"""The family ``comparisons``: where its files lie, its features, and fixed rules as opponents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from data.comparisons.params import Comparisons
from data.comparisons.sides import Floats, Samples, Sides
from data.params import Params, load
from data.paths import Places
from features.comparisons.summaries import Moments, flat, moments, rank_test, welch_t

if TYPE_CHECKING:
    import pandas as pd

Flags = NDArray[np.bool_]


def median_worse(sides: Sides, share: float = 0.05) -> Flags:
    """Fail if the target's median is worse than the baseline's by more than `share` of it."""
    return _any(sides, _median_shift(sides) < -share)


def mann_whitney(sides: Sides, p: float) -> Flags:
    """Fail if Mann-Whitney's two-sided test gives less than `p` and the target ranks worse.

    Normal approximation with the corrections for ties and continuity, as SciPy computes it for all but the
    smallest samples.
    """
    return _any(sides, _ranks_worse(sides, p))


def welch(sides: Sides, p: float = 0.05) -> Flags:
    """Fail if Welch's two-sided t test gives less than `p` and the target's mean is worse."""
    from scipy.special import stdtr

    baseline, target = moments(sides.baseline), moments(sides.target)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = welch_t(baseline, target, sides.sign)
        probability = 2 * stdtr(_welch_degrees(baseline, target), t)
    return _any(sides, (t < 0) & ((probability < p) | np.isneginf(t)))


def asv(sides: Sides, p: float = 0.002, share: float = 0.1) -> Flags:
    """Fail if Mann-Whitney's p is below `p` and the median worse by more than `share`.

    airspeed velocity's defaults. With so few samples that no arrangement of them reaches `p` (5 and 5),
    asv falls back on confidence intervals; that fallback is not modelled, so there this rule passes.
    """
    return _any(sides, _ranks_worse(sides, p) & (_median_shift(sides) < -share))


def perfherder(sides: Sides, t: float = 7.0, share: float = 0.02) -> Flags:
    """Fail if the t statistic exceeds `t` and the mean is worse by more than `share` (Mozilla's alerts)."""
    baseline, target = moments(sides.baseline), moments(sides.target)
    with np.errstate(invalid="ignore", divide="ignore"):
        shift = sides.sign * (target.mean - baseline.mean) / np.abs(baseline.mean)
        return _any(sides, (welch_t(baseline, target, sides.sign) < -t) & (shift < -share))


def conbench(sides: Sides, z: float = 5.0) -> Flags:
    """Fail if the target's mean lies more than `z` standard deviations on the worse side of the baseline's.

    Conbench's lookback z-score. The distribution is that of the means of the baseline's versions if it has
    several, and otherwise that of its samples.
    """
    means = moments(_version_means(sides.baseline))
    samples, target = moments(sides.baseline), moments(sides.target)
    several = means.n > 1
    centre = np.where(several, means.mean, samples.mean)
    deviation = np.sqrt(np.where(several, means.variance, samples.variance))
    with np.errstate(invalid="ignore", divide="ignore"):
        return _any(sides, sides.sign * (target.mean - centre) / deviation < -z)


#: By their names in metrics and verdicts: seed 000 (section 6.1), the textbooks', and those of airspeed
#: velocity, Mozilla Perfherder and Conbench. True is fail, an array of shape (n_comparisons,).
RULES: dict[str, Callable[[Sides], Flags]] = {
    "median-5": median_worse,
    "mann-whitney-05": partial(mann_whitney, p=0.05),
    "mann-whitney-001": partial(mann_whitney, p=0.001),
    "welch-05": welch,
    "asv": asv,
    "perfherder": perfherder,
    "conbench": conbench,
}


def _any(sides: Sides, worse: Flags) -> Flags:
    return np.bincount(sides.comparison[worse], minlength=sides.n_comparisons) > 0


def _median_shift(sides: Sides) -> Floats:
    """Return the shift of the median by the baseline's; negative: target worse."""
    baseline, target = sides.baseline_five[:, 2], sides.target_five[:, 2]
    with np.errstate(invalid="ignore", divide="ignore"):
        return sides.sign * (target - baseline) / np.abs(baseline)


def _ranks_worse(sides: Sides, p: float) -> Flags:
    ranks = rank_test(sides.baseline, sides.target, sides.sign)
    return (ranks.z < 0) & (ranks.p_values() < p)


def _welch_degrees(baseline: Moments, target: Moments) -> Floats:
    """Return the degrees of freedom by Welch and Satterthwaite."""
    of_b, of_t = baseline.variance / baseline.n, target.variance / target.n
    return (of_b + of_t) ** 2 / (of_b**2 / (baseline.n - 1) + of_t**2 / (target.n - 1))


def _version_means(samples: Samples) -> Samples:
    """Return every list as the means of its versions."""
    owner, place = flat(samples)
    values, orders = samples.values[place], samples.orders[place]  # noqa: PD011
    edge = np.r_[True, (np.diff(owner) != 0) | (np.diff(orders) != 0)][: len(owner)]
    first = np.flatnonzero(edge)
    sums = np.add.reduceat(values, first) if len(first) else values
    counts = np.bincount(owner[first], minlength=len(samples.starts))
    stops = np.cumsum(counts)
    return Samples(sums / np.diff(np.r_[first, len(owner)]), orders[first], stops - counts, stops)


@dataclass(frozen=True)
class Family:
    """What the stages need to know of a family.

    Attributes
    ----------
    params : Params
        What holds for all families, and its own section.
    columns : callable
        Returns the features that the models see.
    rules : callable
        Returns the fixed rules' verdicts: a boolean column per rule (True is fail), indexed by
        ``comparison_id``.
    root : Path
        The project's directory.
    """

    params: Params[Comparisons]
    columns: Callable[[], tuple[str, ...]]
    rules: Callable[[], pd.DataFrame]
    root: Path = Path()
    name = "comparisons"

    @property
    def section(self) -> Comparisons:
        """Its own section of params.yaml."""
        return self.params.section

    @property
    def places(self) -> Places:
        """Where its files lie."""
        return Places(self.name, self.root)

    @property
    def features(self) -> Path:
        """The table of labelled vectors."""
        return self.places.processed / "features.parquet"

    @property
    def changes(self) -> Path:
        """The table of how far the medians of the same comparisons moved."""
        return self.places.processed / "changes.parquet"

    @property
    def bare(self) -> Path:
        """The vectors of the same comparisons as if nothing were known of earlier versions."""
        return self.places.processed / "bare.parquet"

    @property
    def runs(self) -> Path:
        """What runs of one build differ by in these comparisons."""
        return self.places.processed / "runs.parquet"


def bound() -> Family:
    """Bind the family to the params.yaml of the working directory and to its files there."""
    params = load(Comparisons)

    def columns() -> tuple[str, ...]:
        from features.comparisons.vectors import columns

        return columns(params.section.featurize.set)

    return Family(params, columns, lambda: _rules(Places(Family.name)))


def _rules(places: Places) -> pd.DataFrame:
    import pandas as pd

    from data.comparisons.sides import Sides
    from data.comparisons.tables import ComparisonTables

    tables = ComparisonTables.read(places.interim)
    sides, index = Sides.of(tables).normalized, pd.Index(tables.comparisons["comparison_id"])
    return pd.DataFrame({name: decide(sides) for name, decide in RULES.items()}, index=index)
