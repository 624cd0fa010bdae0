"""The posterior of a whole run's impact from its first part, aligned with a solo run by work or by time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]

#: Blocks are of one phase if their natures differ by less than this mean square of logarithms, or less than
#: this multiple of the noise.
_SAME, _TIMES = 0.01, 9.0
#: A share of neighbours that are surely of one phase.
_WITHIN = 0.3


def count_phase_returns(natures: Floats) -> int:
    """Return how often a phase came back after another; `natures`, in order of time, as `block_natures`."""
    least = max(_SAME, _TIMES * _neighbour_noise(natures))
    changes = np.flatnonzero((np.diff(natures, axis=0) ** 2).mean(axis=1) > least) + 1
    parts = [part for part in np.split(natures, changes) if len(part) > 1] or [natures]
    means = np.array([part.mean(axis=0) for part in parts])
    distances = ((means[:, None] - means) ** 2).mean(axis=2)
    return sum(bool((distances[i, : i - 1] < least).any()) for i in range(2, len(parts)))


def _neighbour_noise(natures: Floats) -> float:
    """Return the mean square difference of consecutive blocks of one phase; 0 for a single block."""
    differ = np.sort((np.diff(natures, axis=0) ** 2).mean(axis=1))
    # the quantile, without the overhead of np.quantile
    last = len(differ) - 1
    return float(np.interp(_WITHIN * last, np.arange(last + 1), differ)) if last >= 0 else 0.0


#: Largest number of blocks of the seen part and of the rest; least number of intervals of a block.
SEEN, REST, FEWEST = 24, 64, 2
#: Amounts of work that differ by less are equal: runs of one program retire nearly the same instructions.
SAME = 0.01
#: Amounts of work of whole runs of one task differ by less: threads that wait for each other spin.
NEARLY = 0.05
#: Lengths of runs that were sampled for the same time differ by less.
_SAMPLED = 0.02
#: A solo run that is longer than the co-run by this factor was not sampled for the same time.
LONGER = 1.1
#: Least rate or share, relative to the usual one.
_LEAST = 1e-3


@dataclass(frozen=True)
class WorkProgress:
    """The progress of a run.

    `ends`, shape (n_intervals,), are seconds since the start; `work`, same shape, is the work of each
    interval, such as instructions retired; `nature`, shape (n_intervals, n_events), other counts, which
    distinguish phases.
    """

    ends: Floats
    work: Floats
    nature: Floats

    @property
    def sampled_seconds(self) -> float:
        """Seconds from the start to the end of the last interval."""
        return float(self.ends[-1])

    @property
    def total_work(self) -> float:
        """The work of all intervals, in the unit of `work`."""
        return float(self.work.sum())

    def work_until(self, seconds: Floats) -> Floats:
        """Return the work done until each of `seconds` since the start, in its shape (interpolated)."""
        return np.asarray(np.interp(seconds, _from_zero(self.ends), _from_zero(self.work.cumsum())))

    def time_of_work(self, work: Floats) -> Floats:
        """Return the seconds when each amount of `work` was done, in its shape; for a wait, its end."""
        done = _from_zero(self.work.cumsum())
        # a wait gets a tiny amount of work, so that its time is counted
        done += np.linspace(0, 1e-9 * max(done[-1], 1.0), len(done))
        return np.asarray(np.interp(work, done, _from_zero(self.ends)))

    def block_natures(self, edges: Floats) -> Floats:
        """Return each block's log rate of work, then its log events per work: (n_edges - 1, 1 + n_events).

        `edges` are the ascending limits of the blocks in seconds; logarithms are relative to the average of
        all blocks.
        """
        ends, counts = _from_zero(self.ends), np.column_stack([self.work, self.nature])
        sums = np.column_stack([np.interp(edges, ends, _from_zero(column.cumsum())) for column in counts.T])
        within = np.diff(sums, axis=0)
        usual = np.maximum(within.sum(axis=0) / (edges[-1] - edges[0]), 1e-300)
        rates = within / np.diff(edges)[:, None] / usual
        logs = np.log(np.maximum(rates, _LEAST))
        logs[:, 1:] -= logs[:, :1]
        return np.asarray(logs)


@dataclass(frozen=True)
class AlignedRuns:
    """A solo run and a co-run of a task, divided into blocks of equal work.

    `solo` and `corun`, shape (n_blocks,), are seconds of the same blocks of work; `rest`, shape (n_rest,),
    solo seconds of blocks not yet seen in the co-run; `natures` describes all blocks, the seen ones first;
    `whole`: whether the solo run is complete.
    """

    solo: Floats
    corun: Floats
    natures: Floats
    rest: Floats
    whole: bool

    @property
    def seen_seconds(self) -> float:
        """Solo seconds of the part that was seen in the co-run."""
        return float(self.solo.sum())


def align_runs(solo: WorkProgress, corun: WorkProgress, *, whole: bool, ended: bool = False) -> AlignedRuns:
    """Return a task's solo run and co-run, in blocks of equal solo seconds and of the same work in both runs.

    Up to 24 blocks were reached by both runs; ``rest`` has up to 64 later blocks. `whole`: the solo run is
    all of the task's work, not only its beginning; if not, or if less than 1 % of its time is left, ``rest``
    is empty. `ended`: both runs are complete (assumed where `whole`, if their work differs by less than 1 %);
    then they are aligned by the share of their work, without ``rest``.
    """
    both_complete = ended or (whole and abs(corun.total_work / solo.total_work - 1) < SAME)
    common = min(solo.total_work, corun.total_work)
    until = solo.sampled_seconds if both_complete else float(solo.time_of_work(np.array([common]))[0])
    intervals = min(int((solo.ends <= until).sum()), len(corun.ends))
    seen = np.linspace(0, until, _count_blocks(intervals, SEEN) + 1)
    rest = np.linspace(until, solo.sampled_seconds, _count_blocks(int((solo.ends > until).sum()), REST) + 1)
    if not whole or solo.sampled_seconds - until < SAME * solo.sampled_seconds:
        rest = rest[:1]
    work = solo.work_until(seen)
    together = corun.time_of_work(work * (corun.total_work / solo.total_work if both_complete else 1.0))
    if both_complete:
        together[-1] = corun.sampled_seconds
    edges = np.concatenate([seen, rest[1:]])
    lasted = np.maximum(np.diff(together), 1e-6 * until / len(seen))
    return AlignedRuns(np.diff(seen), lasted, solo.block_natures(edges), np.diff(rest), whole)


def is_longer(solo: WorkProgress, corun: WorkProgress) -> bool:
    """Return whether the solo run seems complete: it was sampled over 10 % longer than the co-run."""
    return solo.sampled_seconds > LONGER * corun.sampled_seconds


def have_ended(solo: WorkProgress, corun: WorkProgress) -> bool:
    """Return whether both runs seem complete: work differs by under 5 %, sampled seconds by over 2 %."""
    same = abs(corun.total_work / solo.total_work - 1) < NEARLY
    return same and abs(corun.sampled_seconds / solo.sampled_seconds - 1) > _SAMPLED


def _count_blocks(intervals: int, max_blocks: int) -> int:
    return int(np.clip(intervals // FEWEST, 1, max_blocks))


def _from_zero(values: Floats) -> Floats:
    return np.concatenate([[0.0], values])


# the prior of slow-downs, chosen on simulated runs (`benchmarks.progress`)

#: Scales of log slow-downs; each is `_SHRINKAGE` times as likely as the one before.
_SCALES, _SHRINKAGE = np.array([0.02, 0.04, 0.08, 0.16, 0.32, 0.64]), 0.4
#: Mean slow-down, standard deviation shared by all blocks, and of blocks of one phase, in scales.
_MEAN, _COMMON, _OF_PHASE = 1.3, 0.65, 0.9
#: RMS differences of log rates below which phases count as alike, and the noise of phases that is added to
#: them, as a multiple of the measured one.
_ALIKE, _BLURRED = (0.04, 0.12), 4.0
#: Shares of the variance within a phase that neighbours in time have in common, over these shares of the run.
_NEIGHBOURS, _LENGTHS = (0.003, 0.08), (0.03, 0.15)
#: Correlation of blocks without information.
_UNINFORMED = 0.3
#: Lengths of the whole run over that seen, where the solo run is only a beginning.
_LONGER = (1.3, 2.5, 5.0, 10.0)
#: Odds that the unknown rest is new; each phase that came back divides them by `_RETURNING`.
_NEW, _RETURNING = 8.0, 6.0
#: Factor of the deviations of unseen blocks like a seen one, and its increase for those unlike any. Deviation
#: of the log slow-down of the rest, relative to that so far: co-runners change, too.
_LIKE_SEEN, _UNLIKE, _DRIFT = 0.72, 1.3, 0.06
#: Number of blocks of an unknown rest.
_UNKNOWN = 12
#: Least standard deviation of the logarithm of a block's slow-down.
_NOISE = 2e-3
#: Number of blocks below which noise is not estimated, and the standard deviation that is then assumed.
_FEW, _UNTOLD = 4, 0.01
#: Median of the square of a standard normal variable.
_MEDIAN = 0.455


#: Log weights, means and variances of normal distributions of log impact, all of one shape.
_Normals = tuple[Floats, Floats, Floats]


def _posteriors(runs: AlignedRuns) -> _Normals:
    if runs.whole:
        kernel = _block_kernel(runs, runs.rest[None], runs.natures)
        return _scale_posteriors(runs, runs.rest[None], kernel, _SeenBlocks(runs, kernel))
    seen = runs.natures[: len(runs.solo)]
    new_phase_probability = _NEW / (_NEW + _RETURNING ** count_phase_returns(seen))
    longer = np.array(_LONGER)[:, None]
    blocks = np.repeat((longer - 1) * runs.seen_seconds / _UNKNOWN, _UNKNOWN, axis=1)
    kernel = _block_kernel(runs, blocks, seen)
    # the seen blocks and the length of the whole run are equal for a new rest and a repeated one
    seen_blocks = _SeenBlocks(runs, kernel)
    new = _scale_posteriors(runs, blocks, kernel, seen_blocks)
    blocks = (longer - 1) * runs.solo
    kernel = _block_kernel(runs, blocks, np.concatenate([seen, seen]))
    repeated = _scale_posteriors(runs, blocks, kernel, seen_blocks)
    weights, means, variances = (np.stack(pair, axis=1) for pair in zip(new, repeated, strict=True))
    weights += np.log([new_phase_probability, 1 - new_phase_probability])[:, None, None]
    return weights, means, variances


def _block_kernel(runs: AlignedRuns, rests: Floats, natures: Floats) -> Floats:
    """Return the covariances of blocks, in squared scales: (n_rests, n_correlations, n_blocks, n_blocks).

    `rests`, shape (n_rests, n_rest), are the lengths of the blocks after the seen ones; `natures` are the
    known ones of the first blocks.
    """
    seen, known = len(runs.solo), len(natures)
    distance = ((natures[:, None] - natures) ** 2).mean(axis=2)
    noise = _neighbour_noise(natures[:seen]) * _BLURRED
    lasts = np.concatenate([np.broadcast_to(runs.solo, (len(rests), seen)), rests], axis=1)
    middles = lasts.cumsum(axis=1) - lasts / 2
    distances, whole = np.abs(middles[:, :, None] - middles[:, None]), lasts.sum(axis=1)[:, None, None]
    # axes: rest, similarity of phases, length and share of the neighbours, block, block
    lengths, alike, shares = (np.array(values)[:, None, None] for values in (_LENGTHS, _ALIKE, _NEIGHBOURS))
    # the correlation of blocks by their distance in time
    near = np.exp(-distances[:, None] / (lengths * whole[:, None]))[:, None]
    same = np.repeat(_UNINFORMED + (1 - _UNINFORMED) * near, len(_ALIKE), axis=1)
    # unknown blocks have little in common with the seen ones, and more with their neighbours
    same[..., :seen, seen:] = same[..., seen:, :seen] = _UNINFORMED
    same[..., :known, :known] = np.exp(-distance / (2 * (alike**2 + noise)))[:, None]
    near, same = near[:, :, :, None], same[:, :, :, None]
    kernel = _COMMON**2 + _OF_PHASE**2 * (same + shares * (near - same))
    return np.asarray(kernel.reshape(len(rests), -1, *distances.shape[1:]))


class _SeenBlocks:
    """The seen blocks in the directions in which their slow-downs are independent, for each scale.

    `vectors`, shape (n_rests, n_correlations, n_seen, n_seen), has the directions as columns; `turned` and
    `variances`, shape (n_rests, n_correlations, n_scales, n_seen), are deviations from the prior mean and
    prior variances; `weights`, shape (n_rests, n_correlations, n_scales), are posterior log weights.
    """

    def __init__(self, runs: AlignedRuns, kernel: Floats) -> None:
        ratios, seen, scales = np.log(runs.corun / runs.solo), len(runs.solo), _SCALES[:, None]
        values, self.vectors = np.linalg.eigh(kernel[..., :seen, :seen])
        self.variances = scales**2 * np.maximum(values, 0)[..., None, :] + _noise_variance(ratios)
        self.turned = (ratios - _MEAN * scales) @ self.vectors
        self.weights = -0.5 * (self.turned**2 / self.variances + np.log(self.variances)).sum(axis=-1)
        self.weights -= np.arange(len(scales)) * np.log(_SHRINKAGE)


def _scale_posteriors(runs: AlignedRuns, rests: Floats, kernel: Floats, given: _SeenBlocks) -> _Normals:
    """Return the posterior for each rest, each of its correlations of blocks, and each scale.

    `rests` has the shape (n_rests, n_rest); `kernel` is that of `_block_kernel`, `given` its seen blocks.
    """
    seen, scales = len(runs.solo), _SCALES[:, None]
    if not rests.shape[-1]:
        impact = np.log(runs.corun.sum() / runs.seen_seconds)
        return given.weights, np.full(given.weights.shape, impact), np.zeros(given.weights.shape)
    across = (kernel[..., seen:, :seen] @ given.vectors)[..., None, :, :]
    gains = scales**2 / given.variances
    expected = _MEAN * scales + (across @ (gains * given.turned)[..., None])[..., 0]
    explained = (scales**2 * gains)[..., None, :] * across @ np.swapaxes(across, -1, -2)
    left = scales[..., None] ** 2 * kernel[..., None, seen:, seen:] - explained
    # mean and variance of the log impact, from the seen part and lognormal blocks
    blocks = rests[:, None, None] * np.exp(expected + np.diagonal(left, axis1=-2, axis2=-1) / 2)
    whole = runs.seen_seconds + rests.sum(axis=-1)[:, None, None]
    alike = kernel[..., None, seen:, :seen].max(axis=-1) / (_COMMON**2 + _OF_PHASE**2)
    factors = _LIKE_SEEN + _UNLIKE * (1 - alike)
    left *= factors[..., :, None] * factors[..., None, :]
    left += (_DRIFT * np.log(runs.corun.sum() / runs.seen_seconds)) ** 2
    sums = blocks.sum(axis=-1)
    impacts = (runs.corun.sum() + sums) / whole
    variances = ((blocks * (np.exp(left) @ blocks[..., None])[..., 0]).sum(axis=-1) - sums**2) / whole**2
    spreads = np.log1p(np.maximum(variances, 0) / impacts**2)
    return given.weights, np.log(impacts) - spreads / 2, spreads


def _noise_variance(ratios: Floats) -> float:
    if len(ratios) < _FEW:
        return _UNTOLD**2
    differs = float(np.median(np.diff(ratios) ** 2)) / _MEDIAN / 2
    return max(differs, _NOISE**2)


#: Standard deviation of the logarithm of a whole run's time, over repetitions.
REPEATS = 0.004
#: Probability that a model's prediction is worthless, and the range of such predictions, as logarithms.
WRONG, _ANYWHERE = 0.1, 1.0
#: Steps of log impact below which the search for a quantile ends, by Halley's method and by bisection.
_LAST_STEP, _LAST_BISECTION = 1e-4, 1e-8


@dataclass(frozen=True)
class ImpactPosterior:
    """Mixture of normal distributions of a log impact; all arrays have shape (n_components,)."""

    weights: Floats
    means: Floats
    deviations: Floats

    def quantiles(self, shares: Sequence[float]) -> Floats:
        """Return the log impacts that are not exceeded with probability `shares`, shape (n_shares,).

        `shares` are between 0 and 1. Halley's method from the quantiles of one normal distribution with equal
        mean and variance; a step that leaves the interval of the root is replaced by bisection.
        """
        aims = np.asarray(shares, np.float64)
        low = np.full(aims.shape, (self.means - 9 * self.deviations).min())
        high = np.full(aims.shape, (self.means + 9 * self.deviations).max())
        mean = self.weights @ self.means
        at = mean + ndtri(aims) * np.sqrt(self.weights @ ((self.means - mean) ** 2 + self.deviations**2))
        heights = self.weights / self.deviations / np.sqrt(2 * np.pi)
        declines = heights / self.deviations
        is_found = np.zeros(aims.shape, bool)
        while not is_found.all():
            z = (at[:, None] - self.means) / self.deviations
            bells = np.exp(-0.5 * z**2)
            excess, density, slope = ndtr(z) @ self.weights - aims, bells @ heights, -(bells * z) @ declines
            low, high = np.where(excess < 0, at, low), np.where(excess < 0, high, at)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                moved = at - excess / (density - excess * slope / (2 * density))
            is_inside = (low <= moved) & (moved <= high)
            moved = np.where(is_found, at, np.where(is_inside, moved, (low + high) / 2))
            # the error after a step of Halley's method is about its cube, after a bisection it is the step
            is_found |= np.abs(moved - at) < np.where(is_inside, _LAST_STEP, _LAST_BISECTION)
            at = moved
        return at

    def add_independent(self, other: ImpactPosterior) -> ImpactPosterior:
        """Return the distribution of this log impact plus an independent one, `other`."""
        weights = np.outer(self.weights, other.weights).ravel()
        means = np.add.outer(self.means, other.means).ravel()
        deviations = np.sqrt(np.add.outer(self.deviations**2, other.deviations**2)).ravel()
        return ImpactPosterior(weights, means, deviations)

    def with_prediction(self, mean: float, deviation: float) -> ImpactPosterior:
        """Return the posterior after an independent normal prediction, worthless with probability `WRONG`."""
        total_variance = self.deviations**2 + deviation**2
        likely = np.exp(-0.5 * (self.means - mean) ** 2 / total_variance)
        likely /= np.sqrt(2 * np.pi * total_variance)
        swayed = (1 - WRONG) * self.weights * likely
        weights = np.concatenate([swayed, WRONG / _ANYWHERE * self.weights])
        means = (self.means * deviation**2 + mean * self.deviations**2) / total_variance
        return ImpactPosterior(
            weights / weights.sum(),
            np.concatenate([means, self.means]),
            np.concatenate([self.deviations * deviation / np.sqrt(total_variance), self.deviations]),
        )

    @classmethod
    def from_measured(cls, impact: float) -> ImpactPosterior:
        """Return a narrow distribution around log(`impact`), for an impact measured on whole runs."""
        return cls(np.ones(1), np.log([impact]), np.array([REPEATS]))


def impact_posterior(runs: AlignedRuns) -> ImpactPosterior:
    """Return a normal mixture, the posterior of the natural log of a whole run's impact (co-run / solo time).

    It is conditional on the seen part of the co-run; the deviation is 0.004 if the whole run was seen.
    """
    logs, means, variances = (values.ravel() for values in _posteriors(runs))
    weights = np.exp(logs - logs.max())
    return ImpactPosterior(weights / weights.sum(), means, np.sqrt(variances + REPEATS**2))


#: Events whose count depends on the work, not on the time it takes; the best first.
WORK = (
    *("instructions", "branch-instructions", "L1-dcache-stores", "L1-dcache-loads", "dTLB-loads"),
    "dTLB-stores",
)
#: Events that distinguish phases, in addition to the rate of work.
NATURE = (
    *("cpu-cycles", "cache-misses", "cache-references", "LLC-loads", "LLC-load-misses", "branch-misses"),
    *("L1-dcache-load-misses", "dTLB-load-misses", "stalled-cycles-backend", "task-clock"),
)


@dataclass(frozen=True)
class ProgressKind:
    """An event that measures progress; `hides` is the slow-down it does not show, explained by `says`."""

    event: str
    hides: ImpactPosterior | None = None
    says: str = ""


def _hidden_slowdown(*beliefs: tuple[float, float, float]) -> ImpactPosterior:
    return ImpactPosterior(*map(np.array, zip(*beliefs, strict=True)))


#: Slow-down that these events do not show: little for most co-runs, much for one in eight. For time,
#: estimated on every other one of the shipped tasks (`benchmarks.progress` reports the rest); for cycles,
#: without the effect of the clock.
_CYCLES = _hidden_slowdown((0.6, 0.004, 0.01), (0.28, 0.015, 0.03), (0.12, 0.12, 0.09))
_TIME = _hidden_slowdown((0.6, 0.004, 0.012), (0.28, 0.015, 0.035), (0.12, 0.13, 0.1))
CLOCKS = (
    ProgressKind(
        "cpu-cycles", _CYCLES, "cycles don't show how many more of them the same work takes together"
    ),
    ProgressKind("ref-cycles", _TIME, "reference cycles show only the share of the processor that it got"),
    ProgressKind("task-clock", _TIME, "task-clock shows only the share of the processor that it got"),
    ProgressKind("cpu-clock", _TIME, "cpu-clock shows only the share of the processor that it got"),
)
KINDS = (*map(ProgressKind, WORK), *CLOCKS)


def choose_progress_kind(counted: Collection[str]) -> ProgressKind | None:
    """Return the first of `KINDS` (best first) whose event is in `counted`; None if there is no match.

    Instructions and other counts of work come first, then cycles and clocks. Cycles and clocks do not show
    all of the slow-down: for them, ``hides`` is the distribution of the part that they miss, else None.
    """
    return next((candidate for candidate in KINDS if candidate.event in counted), None)
