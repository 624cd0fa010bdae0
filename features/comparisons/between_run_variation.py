"""Between-run variation, estimated for each machine separately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, Sides
from features.comparisons.outliers import select_configurations
from features.comparisons.summaries import MAD, flatten_samples, robust_spread

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
    def from_sides(cls, sides: Sides) -> RunLevels:
        """Return the runs' log medians of all sides (of summaries: as stated); NaN unless above 0."""
        levels, noise = [], []
        for _, side, five in sides.both_sides:
            runs, summary = _run_levels(side, sides.sign), side.lengths == 0
            runs[:1, summary] = _signed_logarithm(five[summary, 2], sides.sign[summary])
            levels.append(runs)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                variance = _MEDIAN * (robust_spread(five) / five[:, 2]) ** 2 / side.lengths
            noise.append(np.where(np.isfinite(variance), variance, 0.0))
        history = _run_levels(sides.history, sides.sign)
        return cls(history, levels[0], levels[1], sides.comparison, noise[0] + noise[1])

    @property
    def by_side(self) -> tuple[Floats, Floats, Floats]:
        """The levels of history, baseline and target, in this order."""
        return self.history, self.baseline, self.target

    @cached_property
    def shared_shifts(self) -> tuple[Floats, Floats, Floats] | None:
        """Shift of each run as a whole: the median over its operations, against the baseline's level.

        Each of shape (n_runs,); NaN for a run of fewer than `FEWEST` operations. None if baseline or target
        have such a run.
        """
        reference = mean_over_runs(self.baseline)
        shifts = []
        for part in self.by_side:
            operations = (self.per_operation(run) for run in part - reference)
            medians = [
                finite_median(run) if np.isfinite(run).sum() >= FEWEST else np.nan for run in operations
            ]
            shifts.append(np.array(medians))
        history, baseline, target = shifts
        return None if np.isnan(baseline).any() or np.isnan(target).any() else (history, baseline, target)

    def without_shared_shift(self) -> RunLevels:
        """Return a copy without the shift that all operations of a run share; `self` if it is unknown."""
        if self.shared_shifts is None:
            return self
        history, baseline, target = (
            part - moved[:, None] for part, moved in zip(self.by_side, self.shared_shifts, strict=True)
        )
        return replace(self, history=history, baseline=baseline, target=target)

    def per_operation(self, values: Floats) -> Floats:
        """Return the median of `values` over the configurations of each operation, shape (n_operations,)."""
        starts = np.flatnonzero(np.diff(self.operation, prepend=-1))
        stops, medians = np.append(starts[1:], len(values)), values[starts]
        for row in np.flatnonzero(stops - starts > 1).tolist():
            medians[row] = finite_median(values[starts[row] : stops[row]])
        return medians


def finite_median(values: Floats) -> float:
    """Return the median of the finite values; NaN without any."""
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else np.nan


def mean_over_runs(runs: Floats) -> Floats:
    """Return the mean over the known runs, shape (n_configurations,); NaN without a known run."""
    number = count_runs(runs)
    return np.asarray(np.nansum(runs, axis=0) / np.where(number > 0, number, np.nan))


def count_runs(runs: Floats) -> Floats:
    """Return the number of known runs (not NaN) of each configuration, shape (n_configurations,)."""
    return np.isfinite(runs).sum(axis=0).astype(np.float64)


def _run_levels(side: Samples, sign: Floats) -> Floats:
    """Return the levels of the runs of a side, shape (n_runs or 1, n_configurations)."""
    levels = side.version_medians
    owner, place = flatten_samples(levels)
    orders, row = np.unique(levels.orders[place], return_inverse=True)
    runs = np.full((max(len(orders), 1), len(sign)), np.nan)
    runs[row, owner] = _signed_logarithm(levels.values[place], sign[owner])
    return runs


def _signed_logarithm(values: Floats, sign: Floats) -> Floats:
    is_positive: NDArray[np.bool_] = np.isfinite(values) & (values > 0)
    return sign * np.log(values, out=np.full(len(values), np.nan), where=is_positive)


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
        """Return variances that are shrunk towards the median of all; `self` if at most one has data."""
        has_data = self.freedom > 0
        if has_data.sum() <= 1:
            return self
        freedom = float(np.median(self.freedom[has_data]))
        usual = np.median(self.value[has_data]) / (1 - 2 / (9 * freedom)) ** 3
        others = min(_OTHERS, float(self.freedom[has_data].sum()) / 2)
        squares = np.where(has_data, self.value * self.freedom, 0.0)
        return Variance((squares + others * usual) / (self.freedom + others), self.freedom + others)


def between_runs(history: Floats, baseline: Floats, target: Floats) -> Variance:
    """Return the variance of a run's level, from runs of one side and from steps between earlier runs.

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
    """Return the variance, a single value, of the shifts of unchanged operations.

    Assumes that most operations did not change, and uses the median absolute deviation (Efron 2004). With
    fewer than two finite `shifts`, both variance and degrees of freedom are 0.
    """
    finite = shifts[np.isfinite(shifts)]
    n = len(finite)
    if n < 2:  # noqa: PLR2004 - a single value has no spread
        return Variance(np.zeros(1), np.zeros(1))
    few = _FEW[n - 2] if n - 2 < len(_FEW) else n / (n - 0.8)
    spread = few * float(np.median(np.abs(finite - np.median(finite)))) / MAD
    return Variance(np.array([spread**2]), np.array([_EFFICIENCY * (n - 1)]))


def _variance_around_mean(runs: Floats) -> Variance:
    freedom = np.maximum(count_runs(runs) - 1, 0.0)
    squares = np.nansum((runs - mean_over_runs(runs)) ** 2, axis=0)
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
VariationEvidence = Literal["runs", "operations", "assumed"]


@dataclass(frozen=True)
class RunShift:
    """Shifts, and how large they are without a change; as logarithms, negative is worse."""

    #: value, limit: a shift within the limit, in either direction, is between-run variation.
    value: Floats
    limit: Floats
    evidence: VariationEvidence

    @property
    def sign_beyond_limit(self) -> Ints:
        """-1 where the target is worse by more than between-run variation, 1 where better, else 0."""
        return np.where(np.abs(self.value) > self.limit, np.sign(self.value), 0.0).astype(np.int64)


@dataclass(frozen=True)
class Offsets:
    """Differences between runs without a change: shared by a whole run, and of single operations."""

    whole: RunShift | None  # of the whole run, one value; None with too few operations
    per_configuration: RunShift  # of each configuration, the shared shift removed, shape (n_configurations,)


def divide_shifts(sides: Sides, assumed: float = ASSUMED) -> Offsets:
    """Return the targets' shifts on one machine: of the whole run, and of each configuration without it.

    Shifts are logarithms of ratios; negative is worse. The shared part is the median shift of the run's
    operations. The variance without a change is estimated from earlier runs and from several runs per side
    (at least `ENOUGH` degrees of freedom), otherwise from the operations of this pair of runs, assuming that
    most are unchanged; with too few operations, `assumed`, a standard deviation as a share, is used.
    Estimates with too few degrees of freedom can only increase the limit.

    An unchanged comparison exceeds the limits with probability `LEVEL`, whatever its number of
    configurations; an unchanged run exceeds its limit with probability `LEVEL_WHOLE`.
    """
    levels = RunLevels.from_sides(sides)
    level = LEVEL / sides.per_comparison[sides.comparison]
    return Offsets(_whole_shift(levels, assumed), _own_shifts(levels.without_shared_shift(), assumed, level))


def _whole_shift(levels: RunLevels, assumed: float) -> RunShift | None:
    if levels.shared_shifts is None:
        return None
    history, baseline, target = (shifts[:, None] for shifts in levels.shared_shifts)
    measured = between_runs(history, baseline, target)
    variance = _at_least_assumed(measured, assumed)
    value, runs = _level_shift(history, baseline, target, variance)
    limit = _limit_in_errors(measured.freedom, np.array([LEVEL_WHOLE])) * np.sqrt(variance * runs)
    return RunShift(value, limit, "runs" if measured.freedom[0] >= ENOUGH else "assumed")


def _own_shifts(levels: RunLevels, assumed: float, level: Floats) -> RunShift:
    measured = between_runs(*levels.by_side).with_others()
    is_measured = measured.freedom >= ENOUGH
    variance = _at_least_assumed(measured, assumed)
    value, runs = _level_shift(*levels.by_side, variance)
    limit2 = _limit_in_errors(measured.freedom, level) ** 2 * (variance * runs + levels.noise)
    operations = between_operations(levels.per_operation(value))
    by_operations = operations.freedom[0] >= ENOUGH
    if not np.isfinite(levels.history).any():
        # without history, the runs of two builds do not show the variation between builds
        noisier = np.maximum(levels.noise - np.median(levels.noise), 0.0)
        of_pair = _limit_in_errors(operations.freedom, level) ** 2 * (operations.value + noisier)
        if not by_operations:
            # most of so few operations may have changed
            limit2 = np.maximum(limit2, np.minimum(of_pair, _AT_MOST**2 * limit2))
        else:
            limit2 = np.where(is_measured, np.maximum(limit2, of_pair), of_pair)
    evidence: VariationEvidence = (
        "runs" if is_measured.all() else "operations" if by_operations else "assumed"
    )
    return RunShift(value, np.sqrt(limit2), evidence)


def _at_least_assumed(measured: Variance, assumed: float) -> Floats:
    """Return the variances, at least the assumed one where the degrees of freedom are too few."""
    return np.maximum(measured.value, np.where(measured.freedom >= ENOUGH, 0.0, assumed**2))


def _level_shift(
    history: Floats, baseline: Floats, target: Floats, variance: Floats
) -> tuple[Floats, Floats]:
    """Return the shift of the target from the earlier level, and its variance in units of a run's."""
    n_history, n_baseline, n_target = count_runs(history), count_runs(baseline), count_runs(target)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(mean_over_runs(history) - mean_over_runs(baseline))
        error = np.sqrt(variance * (1 / n_history + 1 / n_baseline))
        usual = _limit_in_errors(np.zeros(1), np.array([LEVEL])) * error
        same = np.where(distance <= usual, n_history, 0.0)
        before = n_baseline + same
        earlier = np.where(same > 0, mean_over_runs(history), 0.0)
        level = (n_baseline * mean_over_runs(baseline) + same * earlier) / before
        return mean_over_runs(target) - level, 1 / before + 1 / n_target


def _limit_in_errors(freedom: Floats, level: Floats) -> Floats:
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
    configuration_sign: Ints
    whole_run_sign: Ints
    machine: NDArray[np.str_]
    by_machine: Mapping[str, Offsets]  # by machine

    @property
    def whole_run_shifts(self) -> Mapping[str, RunShift]:
        """Shift of the whole run by machine, for the machines where it is known."""
        return {name: part.whole for name, part in self.by_machine.items() if part.whole is not None}

    def evidence_at(self, configuration: int) -> VariationEvidence:
        """Return the evidence used to estimate between-run variation on the machine of a configuration."""
        return self.by_machine[str(self.machine[configuration])].per_configuration.evidence


def machine_offsets(sides: Sides, machines: Sequence[str], assumed: float) -> MachineOffsets:
    """Return the shifts of whole runs and of configurations, and their limits, for each machine separately.

    Shifts are logarithms of ratios, negative is worse; see `divide_shifts`. machines: one per comparison.
    assumed: between-run variation where none can be estimated, as a share of the median.
    """
    machine = np.array(machines, str)[sides.comparison]
    value, limit, together = np.full((3, len(machine)), np.nan)
    (configuration_sign, whole_run_sign), by_machine = (
        np.zeros((2, len(machine)), np.int64),
        dict[str, Offsets](),
    )
    for name in dict.fromkeys(machine.tolist()):
        rows = np.flatnonzero(machine == name)
        part = by_machine[name] = divide_shifts(select_configurations(sides, rows), assumed)
        value[rows], limit[rows], configuration_sign[rows] = (
            part.per_configuration.value,
            part.per_configuration.limit,
            part.per_configuration.sign_beyond_limit,
        )
        if part.whole is not None:
            together[rows] = part.whole.value
            whole_run_sign[rows] = part.whole.sign_beyond_limit
    return MachineOffsets(value, limit, together, configuration_sign, whole_run_sign, machine, by_machine)
