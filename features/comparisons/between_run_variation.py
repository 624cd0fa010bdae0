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
from features.comparisons.summaries import flat, spread

#: Least number of operations to estimate the shift of a whole run.
FEWEST = 5
#: Variance of the median of normal samples, relative to that of their mean.
_MEDIAN = np.pi / 2


@dataclass(frozen=True)
class RunLevels:
    """Medians of runs as logarithms, as if higher were better: differences are shares, negative is worse."""

    #: history, baseline, target: shape (n_runs, n_configurations): In the order of the runs; NaN where a
    #: configuration was not measured.
    history: Floats
    baseline: Floats
    target: Floats
    operation: Ints  # shape (n_configurations,): The row of the comparison that each belongs to; ascending
    #: Shape (n_configurations,): Variance of the difference of the sides due to their samples.
    noise: Floats

    @classmethod
    def of(cls, sides: Sides) -> RunLevels:
        """Return the medians of the runs of all sides; of summaries, the medians that they state."""
        baseline, target = (_measured(side, five, sides.sign) for _, side, five in sides.both)
        noise = sum(_noise(side, five) for _, side, five in sides.both)
        history = _levels(sides.history, sides.sign)
        return cls(history, baseline, target, sides.comparison, np.asarray(noise))

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
        found = tuple(self._moved(part - reference) for part in self.parts)
        known = all(np.isfinite(moved).all() for moved in found[1:])
        return (found[0], found[1], found[2]) if known else None

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
        stops, found = np.append(starts[1:], len(values)), values[starts]
        for one in np.flatnonzero(stops - starts > 1).tolist():
            found[one] = middle(values[starts[one] : stops[one]])
        return found

    def _moved(self, against: Floats) -> Floats:
        each = (self.per_operation(run) for run in against)
        return np.array([middle(run) if np.isfinite(run).sum() >= FEWEST else np.nan for run in each])


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


def _measured(side: Samples, five: Floats, sign: Floats) -> Floats:
    """Return the level of every run of a side; of a summary, the median that it states."""
    found, alone = _levels(side, sign), side.lengths == 0
    found[:1, alone] = _logarithm(five[alone, 2], sign[alone])
    return found


def _levels(side: Samples, sign: Floats) -> Floats:
    """Return the level of every run of a side, a run a row; one row at least."""
    levels = side.levels
    owner, place = flat(levels)
    orders, row = np.unique(levels.orders[place], return_inverse=True)
    found = np.full((max(len(orders), 1), len(sign)), np.nan)
    found[row, owner] = _logarithm(levels.values[place], sign[owner])
    return found


def _logarithm(values: Floats, sign: Floats) -> Floats:
    known: NDArray[np.bool_] = np.isfinite(values) & (values > 0)
    return sign * np.log(values, out=np.full(len(values), np.nan), where=known)


def _noise(side: Samples, five: Floats) -> Floats:
    """Return the variance of a side's median due to its samples, relative to the median; else 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = _MEDIAN * (spread(five) / five[:, 2]) ** 2 / side.lengths
    return np.where(np.isfinite(found), found, 0.0)


#: A variance measured with at least this many degrees of freedom replaces the assumed one.
ENOUGH = 5.0
#: Steps between two runs are cut at this multiple of the usual one, as they may be changes.
_ORDINARY_STEPS = 3.0
#: Median of the absolute value of a standard normal variable.
_MAD = 0.6745
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
        known = self.freedom > 0
        if known.sum() <= 1:
            return self
        freedom = float(np.median(self.freedom[known]))
        usual = np.median(self.value[known]) / (1 - 2 / (9 * freedom)) ** 3
        others = min(_OTHERS, float(self.freedom[known].sum()) / 2)
        own = np.where(known, self.value * self.freedom, 0.0)
        return Variance((own + others * usual) / (self.freedom + others), self.freedom + others)


def between_runs(history: Floats, baseline: Floats, target: Floats) -> Variance:
    """Estimate the variance of a run's level from runs of one side and from steps between earlier runs.

    Parameters
    ----------
    history, baseline, target : ndarray of shape (n_runs, n_configurations)
        NaN where a configuration was not measured in a run.

    Returns
    -------
    Variance
        Arrays of shape (n_configurations,).
    """
    before = np.vstack([history, baseline])
    earlier = _of_steps(before) if np.isfinite(history).sum() else _around(baseline)
    after = _around(target)
    freedom = earlier.freedom + after.freedom
    total = earlier.value * earlier.freedom + after.value * after.freedom
    return Variance(total / np.where(freedom > 0, freedom, 1.0), freedom)


def between_operations(shifts: Floats) -> Variance:
    """Estimate the variance, a single value, of the shifts of unchanged operations.

    Assumes that most operations did not change, and uses the median absolute deviation (Efron 2004).
    """
    known = shifts[np.isfinite(shifts)]
    n = len(known)
    if n < 2:  # noqa: PLR2004 - one differs from nothing
        return Variance(np.zeros(1), np.zeros(1))
    few = _FEW[n - 2] if n - 2 < len(_FEW) else n / (n - 0.8)
    spread = few * float(np.median(np.abs(known - np.median(known)))) / _MAD
    return Variance(np.array([spread**2]), np.array([_EFFICIENCY * (n - 1)]))


def _around(runs: Floats) -> Variance:
    """Return the variance of the runs around their mean."""
    freedom = np.maximum(count(runs) - 1, 0.0)
    squares = np.nansum((runs - mean(runs)) ** 2, axis=0)
    return Variance(squares / np.where(freedom > 0, freedom, 1.0), freedom)


def _of_steps(runs: Floats) -> Variance:
    """Return half the mean square of the steps between neighbours, large ones cut."""
    steps = [_steps(column) for column in runs.T]
    many = np.array([len(one) for one in steps], np.float64)
    halves = np.array([np.mean(one**2) / 2 if len(one) else 0.0 for one in steps])
    return Variance(halves, _OVERLAP * many)


def _steps(runs: Floats) -> Floats:
    steps = np.abs(np.diff(runs[np.isfinite(runs)]))
    return np.minimum(steps, _ORDINARY_STEPS * np.median(steps) / _MAD) if len(steps) else steps


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
    own = levels.own()
    level = LEVEL / sides.per_comparison[sides.comparison]
    return Offsets(_whole(levels, assumed), _own(own, assumed, level))


def _whole(levels: RunLevels, assumed: float) -> RunShift | None:
    if levels.common is None:
        return None
    history, baseline, target = (moved[:, None] for moved in levels.common)
    told = between_runs(history, baseline, target)
    variance = _measured_or(told, assumed)
    value, runs = _shift(history, baseline, target, variance)
    limit = _quantile(told.freedom, np.array([LEVEL_WHOLE])) * np.sqrt(variance * runs)
    return RunShift(value, limit, "runs" if told.freedom[0] >= ENOUGH else "assumed")


def _own(levels: RunLevels, assumed: float, level: Floats) -> RunShift:
    told = between_runs(*levels.parts).with_others()
    measured = told.freedom >= ENOUGH
    variance = _measured_or(told, assumed)
    value, runs = _shift(*levels.parts, variance)
    limit2 = _quantile(told.freedom, level) ** 2 * (variance * runs + levels.noise)
    alike = between_operations(levels.per_operation(value))
    if not np.isfinite(levels.history).any():
        # without history, the runs of two builds do not show the variation between builds
        noisier = np.maximum(levels.noise - np.median(levels.noise), 0.0)
        limit2 = _beside(limit2, alike, level, measured, noisier)
    by_operations = alike.freedom[0] >= ENOUGH
    known: Known = "runs" if measured.all() else "operations" if by_operations else "assumed"
    return RunShift(value, np.sqrt(limit2), known)


def _measured_or(told: Variance, assumed: float) -> Floats:
    """Return the measured variance where it has enough degrees of freedom, else at least the assumed one."""
    least = np.where(told.freedom >= ENOUGH, 0.0, assumed**2)
    return np.maximum(told.value, least)


def _beside(
    limit2: Floats, alike: Variance, level: Floats, measured: NDArray[np.bool_], noisier: Floats
) -> Floats:
    """Widen limits by the scatter of the pair's operations; use it alone where runs give no estimate."""
    of_pair = _quantile(alike.freedom, level) ** 2 * (alike.value + noisier)
    if alike.freedom[0] < ENOUGH:
        # most of so few operations may have changed
        return np.maximum(limit2, np.minimum(of_pair, _AT_MOST**2 * limit2))
    return np.where(measured, np.maximum(limit2, of_pair), of_pair)


def _shift(history: Floats, baseline: Floats, target: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return the shift of the target from the earlier level, and its variance in units of a run's."""
    n_history, n_baseline, n_target = count(history), count(baseline), count(target)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(mean(history) - mean(baseline))
        usual = _quantile(np.zeros(1), np.array([LEVEL])) * np.sqrt(
            variance * (1 / n_history + 1 / n_baseline)
        )
        same = np.where(apart <= usual, n_history, 0.0)
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
    """Between-run differences of all machines."""

    #: value, limit: shape (n_configurations,): Shifts without the shared one; see
    #: `features.comparisons.between_run_variation.RunShift`.
    value: Floats
    limit: Floats
    together: Floats  # shape (n_configurations,): Shift of its whole run; NaN if unknown
    #: own, beyond: shape (n_configurations,): -1 where the configuration, or its whole run, is worse by more
    #: than between-run variation, 1 where better, else 0.
    own: Ints
    beyond: Ints
    machine: NDArray[np.str_]  # shape (n_configurations,)
    each: Mapping[str, Offsets]  # by machine

    @property
    def whole(self) -> Mapping[str, RunShift]:
        """Shift of the whole run by machine, for the machines where it is known."""
        return {name: one.whole for name, one in self.each.items() if one.whole is not None}

    def known(self, configuration: int) -> Known:
        """Return the evidence used to estimate between-run variation on the machine of a configuration."""
        return self.each[str(self.machine[configuration])].own.known


def machine_offsets(sides: Sides, machines: Sequence[str], assumed: float) -> MachineOffsets:
    """Divide the shifts of the targets as `offsets` does, for each machine separately.

    Parameters
    ----------
    machines : sequence of str, one per comparison
    assumed : float
        Between-run variation used where none can be estimated, as a share of the median.
    """
    machine = np.array(machines, str)[sides.comparison]
    value, limit, together = np.full((3, len(machine)), np.nan)
    (own, beyond), each = np.zeros((2, len(machine)), np.int64), dict[str, Offsets]()
    for name in dict.fromkeys(machine.tolist()):
        rows = np.flatnonzero(machine == name)
        found = each[name] = offsets(some(sides, rows), assumed)
        value[rows], limit[rows], own[rows] = found.own.value, found.own.limit, found.own.beyond
        if found.whole is not None:
            together[rows] = found.whole.value
            beyond[rows] = found.whole.beyond
    return MachineOffsets(value, limit, together, own, beyond, machine, each)
