"""Between-run variation, estimated for each machine separately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, Sides
from features.comparisons.outliers import some
from features.comparisons.summaries import MAD, flat, spread

#: Least number of operations to estimate the shift of a whole run.
FEWEST = 5
#: Variance of the median of normal samples, relative to that of their mean.
_MEDIAN = np.pi / 2


@dataclass(frozen=True)
class RunLevels:
    """Medians of runs as logarithms, as if higher were better: differences are shares, negative is worse."""

    #: Shape (n_runs, n_configurations), in the order of the runs; NaN where not measured.
    history: Floats
    baseline: Floats
    target: Floats
    operation: Ints  # shape (n_configurations,): row of the comparison, ascending
    noise: Floats  # shape (n_configurations,): variance of the difference of the sides due to their samples

    @classmethod
    def of(cls, sides: Sides) -> RunLevels:
        """Return the medians of the runs of all sides; of summaries, the medians that they state."""
        levels, noise = [], []
        for _, side, five in sides.both:
            runs, summary = _run_levels(side, sides.sign), side.lengths == 0
            runs[:1, summary] = _logarithm(five[summary, 2], sides.sign[summary])
            levels.append(runs)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                variance = _MEDIAN * (spread(five) / five[:, 2]) ** 2 / side.lengths
            noise.append(np.where(np.isfinite(variance), variance, 0.0))
        history = _run_levels(sides.history, sides.sign)
        return cls(history, levels[0], levels[1], sides.comparison, noise[0] + noise[1])

    @property
    def parts(self) -> tuple[Floats, Floats, Floats]:
        """History, baseline and target."""
        return self.history, self.baseline, self.target

    @cached_property
    def common(self) -> tuple[Floats, Floats, Floats] | None:
        """Shift of each run as a whole: the median over its operations, against the baseline's level.

        Each of shape (n_runs,); NaN for a run of too few operations. None if there is such a run in baseline
        or target.
        """
        reference = mean(self.baseline)
        shifts = []
        for part in self.parts:
            operations = (self.per_operation(run) for run in part - reference)
            medians = [middle(run) if np.isfinite(run).sum() >= FEWEST else np.nan for run in operations]
            shifts.append(np.array(medians))
        history, baseline, target = shifts
        return None if np.isnan(baseline).any() or np.isnan(target).any() else (history, baseline, target)

    def own(self) -> RunLevels:
        """Return a copy without the shift that all operations of a run share; `self` if it is unknown."""
        if self.common is None:
            return self
        history, baseline, target = (
            part - moved[:, None] for part, moved in zip(self.parts, self.common, strict=True)
        )
        return replace(self, history=history, baseline=baseline, target=target)

    def per_operation(self, values: Floats) -> Floats:
        """Return the median over the configurations of each operation, shape (n_operations,)."""
        starts = np.flatnonzero(np.diff(self.operation, prepend=-1))
        stops, medians = np.append(starts[1:], len(values)), values[starts]
        for row in np.flatnonzero(stops - starts > 1).tolist():
            medians[row] = middle(values[starts[row] : stops[row]])
        return medians


def middle(values: Floats) -> float:
    """Return the median of the finite values; NaN without any."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan


def mean(runs: Floats) -> Floats:
    """Return the mean over the runs that are known, shape (n_configurations,)."""
    number = count(runs)
    return np.asarray(np.nansum(runs, axis=0) / np.where(number > 0, number, np.nan))


def count(runs: Floats) -> Floats:
    """Return how many runs are known, shape (n_configurations,)."""
    return np.isfinite(runs).sum(axis=0).astype(np.float64)


def _run_levels(side: Samples, sign: Floats) -> Floats:
    """Return the levels of the runs of a side, shape (n_runs or 1, n_configurations)."""
    levels = side.levels
    owner, place = flat(levels)
    orders, row = np.unique(levels.orders[place], return_inverse=True)
    runs = np.full((max(len(orders), 1), len(sign)), np.nan)
    runs[row, owner] = _logarithm(levels.values[place], sign[owner])
    return runs


def _logarithm(values: Floats, sign: Floats) -> Floats:
    known: NDArray[np.bool_] = np.isfinite(values) & (values > 0)
    return sign * np.log(values, out=np.full(len(values), np.nan), where=known)


#: A variance measured with at least this many degrees of freedom replaces the assumed one.
ENOUGH = 5.0
#: Steps between two runs are cut at this multiple of the usual one, as they may be changes.
_ORDINARY_STEPS = 3.0
#: Degrees of freedom of squared steps between neighbours, which overlap (von Neumann 1941).
_OVERLAP = 2 / 3
#: Most degrees of freedom given to the variance of the other operations.
_OTHERS = 8.0
#: Efficiency of the median absolute deviation of normal values.
_EFFICIENCY = 0.37
#: Its correction for few values (Croux and Rousseeuw 1992, section 4), from two on.
_FEW = (1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107)


class Variance(NamedTuple):
    """Variances with their degrees of freedom; 0 degrees of freedom: no data."""

    value: Floats
    freedom: Floats

    def with_others(self) -> Variance:
        """Return a copy with each variance shrunk towards the median of all."""
        has_data = self.freedom > 0
        if has_data.sum() <= 1:
            return self
        freedom = float(np.median(self.freedom[has_data]))
        usual = np.median(self.value[has_data]) / (1 - 2 / (9 * freedom)) ** 3
        others = min(_OTHERS, float(self.freedom[has_data].sum()) / 2)
        squares = np.where(has_data, self.value * self.freedom, 0.0)
        return Variance((squares + others * usual) / (self.freedom + others), self.freedom + others)


def between_runs(history: Floats, baseline: Floats, target: Floats) -> Variance:
    """Estimate the variance of a run's level from runs of one side and from steps between earlier runs.

    Levels have shape (n_runs, n_configurations), NaN where a configuration was not measured in a run; the
    result has arrays of shape (n_configurations,).
    """
    before = np.vstack([history, baseline])
    earlier = _step_variance(before) if np.isfinite(history).any() else _variance_around_mean(baseline)
    after = _variance_around_mean(target)
    freedom = earlier.freedom + after.freedom
    total = earlier.value * earlier.freedom + after.value * after.freedom
    return Variance(total / np.where(freedom > 0, freedom, 1.0), freedom)


def between_operations(shifts: Floats) -> Variance:
    """Estimate the variance, a single value, of the shifts of unchanged operations.

    Assumes that most operations did not change, and uses the median absolute deviation (Efron 2004).
    """
    known = shifts[np.isfinite(shifts)]
    n = len(known)
    if n < 2:  # noqa: PLR2004 - a single value has no spread
        return Variance(np.zeros(1), np.zeros(1))
    few = _FEW[n - 2] if n - 2 < len(_FEW) else n / (n - 0.8)
    spread = few * float(np.median(np.abs(known - np.median(known)))) / MAD
    return Variance(np.array([spread**2]), np.array([_EFFICIENCY * (n - 1)]))


def _variance_around_mean(runs: Floats) -> Variance:
    freedom = np.maximum(count(runs) - 1, 0.0)
    squares = np.nansum((runs - mean(runs)) ** 2, axis=0)
    return Variance(squares / np.where(freedom > 0, freedom, 1.0), freedom)


def _step_variance(runs: Floats) -> Variance:
    """Return half the mean square of the steps between neighbours, with large steps limited."""
    halves, counts = np.zeros((2, runs.shape[1]))
    for column, levels in enumerate(runs.T):
        steps = np.abs(np.diff(levels[np.isfinite(levels)]))
        if len(steps):
            limited = np.minimum(steps, _ORDINARY_STEPS * np.median(steps) / MAD)
            halves[column], counts[column] = np.mean(limited**2) / 2, len(steps)
    return Variance(halves, _OVERLAP * counts)


#: Between-run variation (standard deviation, as a share) assumed without evidence.
ASSUMED = 0.03
#: Probability that an unchanged comparison, and an unchanged whole run, exceeds its limit.
LEVEL, LEVEL_WHOLE = 0.006, 0.002

#: Estimates from few operations increase a limit at most by this factor.
_AT_MOST = 2.0

#: Evidence used to estimate between-run variation.
Known = Literal["runs", "operations", "assumed"]


@dataclass(frozen=True)
class RunShift:
    """Shifts, and how large they are without a change; as logarithms, negative is worse."""

    #: value, limit: a shift within the limit, in either direction, is between-run variation.
    value: Floats
    limit: Floats
    known: Known

    @property
    def beyond(self) -> Ints:
        """-1 where the target is worse by more than between-run variation, 1 where better, else 0."""
        return np.where(np.abs(self.value) > self.limit, np.sign(self.value), 0.0).astype(np.int64)


@dataclass(frozen=True)
class Offsets:
    """Differences between runs without a change: shared by a whole run, and of single operations."""

    whole: RunShift | None  # of the whole run, one value; None with too few operations
    own: RunShift  # of each configuration, the shared shift removed, shape (n_configurations,)


def offsets(sides: Sides, assumed: float = ASSUMED) -> Offsets:
    """Divide the shifts of the targets into a part shared by the whole run and a part of each operation.

    The shared part is the median shift of the run's operations. The variance without a change is estimated
    from earlier runs and from several runs per side (at least `ENOUGH` degrees of freedom), otherwise from
    the operations of this pair of runs, assuming that most are unchanged; with too few operations, `assumed`
    is used. Estimates with too few degrees of freedom can only increase the limit.

    An unchanged comparison exceeds the limits with probability `LEVEL`, whatever its number of
    configurations; an unchanged run exceeds its limit with probability `LEVEL_WHOLE`.
    """
    levels = RunLevels.of(sides)
    level = LEVEL / sides.per_comparison[sides.comparison]
    return Offsets(_whole_shift(levels, assumed), _own_shifts(levels.own(), assumed, level))


def _whole_shift(levels: RunLevels, assumed: float) -> RunShift | None:
    if levels.common is None:
        return None
    history, baseline, target = (shifts[:, None] for shifts in levels.common)
    measured = between_runs(history, baseline, target)
    variance = _at_least_assumed(measured, assumed)
    value, runs = _shift(history, baseline, target, variance)
    limit = _quantile(measured.freedom, np.array([LEVEL_WHOLE])) * np.sqrt(variance * runs)
    return RunShift(value, limit, "runs" if measured.freedom[0] >= ENOUGH else "assumed")


def _own_shifts(levels: RunLevels, assumed: float, level: Floats) -> RunShift:
    measured = between_runs(*levels.parts).with_others()
    is_measured = measured.freedom >= ENOUGH
    variance = _at_least_assumed(measured, assumed)
    value, runs = _shift(*levels.parts, variance)
    limit2 = _quantile(measured.freedom, level) ** 2 * (variance * runs + levels.noise)
    operations = between_operations(levels.per_operation(value))
    by_operations = operations.freedom[0] >= ENOUGH
    if not np.isfinite(levels.history).any():
        # without history, the runs of two builds do not show the variation between builds
        noisier = np.maximum(levels.noise - np.median(levels.noise), 0.0)
        of_pair = _quantile(operations.freedom, level) ** 2 * (operations.value + noisier)
        if not by_operations:
            # most of so few operations may have changed
            limit2 = np.maximum(limit2, np.minimum(of_pair, _AT_MOST**2 * limit2))
        else:
            limit2 = np.where(is_measured, np.maximum(limit2, of_pair), of_pair)
    known: Known = "runs" if is_measured.all() else "operations" if by_operations else "assumed"
    return RunShift(value, np.sqrt(limit2), known)


def _at_least_assumed(measured: Variance, assumed: float) -> Floats:
    """Return the variances, at least the assumed one where the degrees of freedom are too few."""
    return np.maximum(measured.value, np.where(measured.freedom >= ENOUGH, 0.0, assumed**2))


def _shift(history: Floats, baseline: Floats, target: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return the shift of the target from the earlier level, and its variance in units of a run's."""
    n_history, n_baseline, n_target = count(history), count(baseline), count(target)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(mean(history) - mean(baseline))
        error = np.sqrt(variance * (1 / n_history + 1 / n_baseline))
        usual = _quantile(np.zeros(1), np.array([LEVEL])) * error
        same = np.where(distance <= usual, n_history, 0.0)
        before = n_baseline + same
        earlier = np.where(same > 0, mean(history), 0.0)
        level = (n_baseline * mean(baseline) + same * earlier) / before
        return mean(target) - level, 1 / before + 1 / n_target


def _quantile(freedom: Floats, level: Floats) -> Floats:
    """Return the limit in standard errors, from Student's t where the variance is measured, else normal."""
    from scipy.special import ndtri, stdtrit

    student = stdtrit(np.maximum(freedom, ENOUGH), 1 - level)
    return np.where(freedom >= ENOUGH, student, ndtri(1 - level))


@dataclass(frozen=True)
class MachineOffsets:
    """Between-run differences of all machines; arrays of shape (n_configurations,)."""

    value: Floats  # shift without the shared one; see `RunShift`
    limit: Floats
    together: Floats  # shift of the whole run; NaN if unknown
    #: -1 where the configuration, or its whole run, is worse by more than between-run variation, 1 where
    #: better, else 0.
    own: Ints
    beyond: Ints
    machine: NDArray[np.str_]
    each: Mapping[str, Offsets]  # by machine

    @property
    def whole(self) -> Mapping[str, RunShift]:
        """Shift of the whole run by machine, for the machines where it is known."""
        return {name: part.whole for name, part in self.each.items() if part.whole is not None}

    def known(self, configuration: int) -> Known:
        """Return the evidence used to estimate between-run variation on the machine of a configuration."""
        return self.each[str(self.machine[configuration])].own.known


def machine_offsets(sides: Sides, machines: Sequence[str], assumed: float) -> MachineOffsets:
    """Divide the shifts of the targets as `offsets` does, for each machine separately.

    machines: one per comparison. assumed: between-run variation where none can be estimated, as a share of
    the median.
    """
    machine = np.array(machines, str)[sides.comparison]
    value, limit, together = np.full((3, len(machine)), np.nan)
    (own, beyond), each = np.zeros((2, len(machine)), np.int64), dict[str, Offsets]()
    for name in dict.fromkeys(machine.tolist()):
        rows = np.flatnonzero(machine == name)
        part = each[name] = offsets(some(sides, rows), assumed)
        value[rows], limit[rows], own[rows] = part.own.value, part.own.limit, part.own.beyond
        if part.whole is not None:
            together[rows] = part.whole.value
            beyond[rows] = part.whole.beyond
    return MachineOffsets(value, limit, together, own, beyond, machine, each)
