"""Verdicts on the shifts of all operations: which exceed between-run variation, and how certainly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Sides
from data.deferred import special
from features.comparisons.between_run_variation import (
    ASSUMED,
    LEVEL,
    LEVEL_WHOLE,
    BuildShifts,
    Shifts,
    build_shifts,
    single_shifts,
)
from features.comparisons.outliers import select_configurations
from features.comparisons.run_levels import FEWEST, TINY, RunLevels

#: Expected share of false alarms among the many operations called worse (Benjamini and Hochberg 1995); of n
#: operations, it is larger by the factor 1 + `_FEW_ALARMS` / n: 3.5 % of 20. With several runs a side and no
#: earlier ones, tails are taken for heavy more often, so `_FEW_ALARMS_OF_SIDES` replaces it.
FALSE_DISCOVERY_RATE, _FEW_ALARMS, _FEW_ALARMS_OF_SIDES = 0.02, 15.0, 30.0

#: An operation is doubted from this many standard errors on.
DOUBTED = 2.1

#: Power of the test for the smallest detectable change, as a normal quantile: 80 %.
_POWER = NormalDist().inv_cdf(0.8)

#: Largest logarithm of a ratio that is reported: a billion.
_FARTHEST = float(np.log(1e9))

#: Largest part of a range of probabilities that does not reach the next one.
_ALMOST = 0.999

#: See `RunShifts._tolerance`: calibrated by simulation with 5 to 500 operations.
_SHARED_ERROR = 40.0


@dataclass(frozen=True)
class RunShifts:
    """Shifts of all machines' targets; arrays of shape (n_configurations,) unless stated otherwise."""

    own: Shifts
    together: Floats  # the part of the whole run's shift that is not in `own`; NaN if unknown
    run_spread: Floats  # between-run standard deviation of the configuration, as a share
    is_assumed: NDArray[np.bool_]  # whether the spread is assumed, as operations and runs are too few
    machine: NDArray[np.str_]
    by_machine: dict[str, BuildShifts]  # of machines with `FEWEST` known operations or more
    sign: Floats  # -1 where lower values are better, else 1
    comparison: Ints  # row of the comparison, ascending
    n_comparisons: int

    @classmethod
    def of_singles(cls, sides: Sides, assumed: float = ASSUMED) -> RunShifts:
        """Return the shifts of each comparison by itself; see `single_shifts`."""
        shifts, spread, is_assumed = single_shifts(sides, assumed)
        together, machine = np.full(len(spread), np.nan), np.full(len(spread), "")
        position = sides.sign, sides.comparison, sides.n_comparisons
        return cls(shifts, together, spread, is_assumed, machine, {}, *position)

    @classmethod
    def from_sides(cls, sides: Sides, machines: Sequence[str], assumed: float) -> RunShifts:
        """Return the shifts of each machine separately; see `build_shifts` and `single_shifts`.

        `machines`: one per comparison. `assumed`: between-run standard deviation, as a share, where it cannot
        be estimated.
        """
        machine = np.array(machines, str)[sides.comparison]
        own, by_machine = np.full((4, len(machine)), np.nan), dict[str, BuildShifts]()
        (together, spread), is_assumed = np.full((2, len(machine)), np.nan), np.zeros(len(machine), bool)
        for name in dict.fromkeys(machine.tolist()):
            rows = np.flatnonzero(machine == name)
            chosen = select_configurations(sides, rows)
            levels = RunLevels.from_sides(chosen)
            if levels.n_known < FEWEST:
                shifts, spread[rows], is_assumed[rows] = single_shifts(chosen, assumed)
                own[:, rows] = np.array(shifts)
                continue
            build = by_machine[name] = build_shifts(levels, assumed)
            own[:, rows], spread[rows] = np.array(build.own), build.run_spread
            together[rows] = build.removed
        position = sides.sign, sides.comparison, sides.n_comparisons
        return cls(Shifts(*own), together, spread, is_assumed, machine, by_machine, *position)

    def is_beyond(self, sign: float) -> NDArray[np.bool_]:
        """Return which comparisons moved in the direction of `sign` (-1: worse) by more than variation.

        Shape (n_comparisons,); True, too, if the whole run moved so by more than runs do, and the `interval`
        of the comparison does not include 0. The false discovery rate over all comparisons is limited; see
        `FALSE_DISCOVERY_RATE`.
        """
        p, adjusted = self._p_values(sign)
        beyond = np.asarray((adjusted <= FALSE_DISCOVERY_RATE) & (p <= LEVEL))
        if self.by_machine:
            low, high = self.interval
            moved_along = high < 0 if sign < 0 else low > 0
            beyond |= self._has_any(self._whole_run_beyond(sign, LEVEL_WHOLE) & moved_along)
        return beyond

    def _has_any(self, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which comparisons have one of the configurations `rows`, a mask."""
        return np.bincount(self.comparison, rows, self.n_comparisons) > 0

    def _p_values(self, sign: float) -> tuple[Floats, Floats]:
        """Return the p-value of each comparison, of its clearest configuration, and the adjusted ones."""
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = -sign * self.own.value / self.own.error
        if not self.by_machine and self.is_assumed.all():
            # an assumed variance is known; scipy.special is a fifth of the start of `perfjudge judge`
            p = np.array([*map(NormalDist().cdf, errors.tolist())])
        else:
            p = special.stdtr(self.own.freedom, errors)
        p = np.nan_to_num(p, nan=1.0)
        by_comparison = np.ones(self.n_comparisons)
        numbers = np.bincount(self.comparison, minlength=self.n_comparisons)
        np.minimum.at(by_comparison, self.comparison, p)
        by_comparison = np.minimum(by_comparison * np.maximum(numbers, 1), 1.0)
        if not self.by_machine:
            # comparisons by themselves do not depend on those that are judged with them
            return by_comparison, by_comparison
        tested, adjusted = numbers > 0, np.ones(self.n_comparisons)
        adjusted[tested] = _adjust_discoveries(by_comparison[tested] / self._tolerance)
        return by_comparison, adjusted

    @cached_property
    def clearest(self) -> Ints:
        """The configuration of each comparison that got worse most clearly; -1 without a known shift.

        Shape (n_comparisons,). It has the smallest shift in standard errors.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            order = np.argsort(np.nan_to_num(-self.own.value / self.own.error), kind="stable")
        order = order[np.isfinite(self.own.value[order])]
        clearest = np.full(self.n_comparisons, -1)
        clearest[self.comparison[order]] = order
        return clearest

    @cached_property
    def usual_difference(self) -> Floats:
        """Standard deviation of the difference of two runs, a share, estimated from all of a machine's runs.

        NaN on machines with too few operations.
        """
        is_build = np.isin(self.machine, [*self.by_machine])
        return np.where(is_build, np.sqrt(2.0) * self.run_spread, np.nan)

    def regression_probability(self, low: float, high: float) -> Floats:
        """Return the probability that each comparison is worse, shape (n_comparisons,).

        It is at least `high` where `is_beyond`, from `low` to `high` where otherwise `is_doubted`, and below
        `low` elsewhere; it grows with the shift.
        """
        _, adjusted = self._p_values(-1.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = np.nan_to_num(-self.own.value / self.own.usual_error)
        largest = np.zeros(self.n_comparisons)
        np.maximum.at(largest, self.comparison, errors)
        below = low * np.clip(largest / DOUBTED, 0, _ALMOST)
        between = low + (high - low) * np.clip(1 - DOUBTED / np.maximum(largest, DOUBTED), 0, _ALMOST)
        above = high + (1 - high) * np.clip(1 - adjusted / FALSE_DISCOVERY_RATE, 0, 1)
        return np.select([self.is_beyond(-1.0), self.is_doubted()], [above, between], below)

    @property
    def _n_tested(self) -> int:
        """Number of comparisons with a configuration."""
        return len(np.unique(self.comparison))

    @property
    def _tolerance(self) -> float:
        """Factor by which the false discovery rate may be larger.

        It is with few operations, and where all share an estimated error, which makes their false alarms
        occur together, in fewer builds.
        """
        builds = self.by_machine.values()
        numbers = [len(build.run_spread) for build in builds if build.evidence == "operations"]
        is_shared = len(numbers) == len(np.unique(self.machine)) > 0
        are_sides_alone = all(build.evidence == "runs" and not build.has_history for build in builds)
        alarms = _FEW_ALARMS_OF_SIDES if are_sides_alone else _FEW_ALARMS
        few = 1 + alarms / self._n_tested if self.by_machine else 1.0
        return few * (1 + _SHARED_ERROR / max(numbers)) if is_shared else few

    def is_doubted(self) -> NDArray[np.bool_]:
        """Return which comparisons may be worse, shape (n_comparisons,).

        By more than `DOUBTED` (2.1) standard errors, or because the whole run got worse, and the comparison
        with it, by however little.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            rows = self.own.value / self.own.usual_error < -DOUBTED
        worse = self.own.value + self.together < 0
        return self._has_any(rows | (self._whole_run_beyond(-1.0, LEVEL) & worse))

    def is_worse_by(self, share: float) -> NDArray[np.bool_]:
        """Return which comparisons got worse by `share` or more, including the whole run's shift.

        Shape (n_comparisons,).
        """
        return self._has_any(self.own.value + np.nan_to_num(self.together) <= -np.log1p(share))

    def is_faster_build(self) -> NDArray[np.bool_]:
        """Return which comparisons are of a run that got faster as a whole by more than runs usually do.

        Shape (n_comparisons,); False where the shift of the whole run is unknown.
        """
        return self._has_any(self._whole_run_beyond(1.0, LEVEL))

    def deciding_rows(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which comparisons the shifts decide, and in which they only may doubt a fail.

        Shape (n_comparisons,). They decide where a machine has `FEWEST` operations or more with a level on
        both sides. They may doubt where fewer are compared and the runs are too few to show their variation.
        Neither where the shift of a configuration is unknown.
        """
        decided = self._has_any(np.isin(self.machine, [*self.by_machine]))
        unknown = self._has_any(np.isnan(self.own.value))
        return decided & ~unknown, self._has_any(self.is_assumed) & ~unknown

    def _whole_run_beyond(self, sign: float, level: float) -> NDArray[np.bool_]:
        """Return the configurations whose whole run moved by more than runs do, or at `LEVEL` usually do."""
        beyond = np.zeros(len(self.machine), bool)
        for name, build in self.by_machine.items():
            whole = build.whole
            error = whole.error if level < LEVEL else whole.usual_error
            p = special.stdtr(whole.freedom, -sign * whole.value / np.maximum(error, TINY))
            beyond[self.machine == name] = bool(p[0] <= level)
        return beyond

    @property
    def interval(self) -> tuple[Floats, Floats]:
        """Lower and upper 95 % limits of the shifts (logarithms of ratios), including the whole run's."""
        value = self.own.value + np.nan_to_num(self.together)
        half = special.stdtrit(self.own.freedom, 0.975) * self.own.error
        low, high = (np.clip(limit, -_FARTHEST, _FARTHEST) for limit in (value - half, value + half))
        return low, high

    @cached_property
    def detectable(self) -> Floats:
        """The smallest slow-down that is found with a probability of 80 %, as a positive share."""
        number = self._n_tested if self.by_machine else 1
        level = min(LEVEL, FALSE_DISCOVERY_RATE * self._tolerance / number)
        errors = special.stdtrit(self.own.freedom, 1 - level) + _POWER
        shift = np.minimum(errors * self.own.error, _FARTHEST)
        return np.where(self.sign < 0, np.expm1(shift), -np.expm1(-shift))


def _adjust_discoveries(p: Floats) -> Floats:
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    steps = p[order] * len(p) / np.arange(1, len(p) + 1)
    adjusted[order] = np.minimum.accumulate(steps[::-1])[::-1]
    return adjusted
