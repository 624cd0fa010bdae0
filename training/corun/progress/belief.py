"""What is believed of the slow-down in phases that nobody has seen: a Gaussian process, averaged over scales.

The logarithm of how much slower a block of work is together than alone is a Gaussian process: what all blocks
of a pair have in common, what blocks of one nature have in common (their rates alone), and what only
neighbours have. How large these parts are nobody knows beforehand, so many sizes are believed in, each
as much as it explains what was seen (Bayesian model averaging).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from training.corun.progress.course import AlignedRuns
from training.corun.progress.returns import Returned

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SlowdownPrior:
    """Which sizes are believed in, before anything is seen; found on simulated runs (`benchmarks.progress`).

    Attributes
    ----------
    scales : tuple of float
        Of slow-downs, as logarithms; each is believed in `shrinkage` times as much as the next.
    shrinkage : float
    mean, common, own : float
        The mean slow-down, the deviation that all blocks have in common, and that of blocks of one nature, in
        scales.
    alike : tuple of float
        Root mean square difference of the logarithms of rates below which natures count as alike.
    neighbours : tuple of float
        Shares of the variance of `own` that neighbours in time have in common, and not those of one nature.
    lengths : tuple of float
        For how long neighbours have it, as a share of the run.
    again : float
        How alike blocks are of which nothing is known.
    longer : tuple of float
        How much longer the whole run is than what was seen of it, where the run alone is only a beginning.
    new, returning : float
        The odds that what is unknown is new, not what was seen again: each phase that came back divides them.
    blurred : float
        How much noise of natures is added to `alike`, as a multiple of what was found.
    """

    scales: tuple[float, ...] = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
    shrinkage: float = 0.55
    mean: float = 1.3
    common: float = 0.65
    own: float = 0.9
    alike: tuple[float, ...] = (0.06, 0.2, 0.8)
    neighbours: tuple[float, ...] = (0.01, 0.15)
    lengths: tuple[float, ...] = (0.03, 0.15)
    again: float = 0.2
    longer: tuple[float, ...] = (1.3, 2.5, 5.0, 10.0)
    new: float = 8.0
    returning: float = 6.0
    blurred: float = 1.0

    def anew(self, returned: int) -> float:
        """Return the chance that the rest is new, where so many phases came back."""
        return self.new / (self.new + self.returning**returned)


PRIOR = SlowdownPrior()
#: Blocks that stand for a rest of which nothing is known.
_UNKNOWN = 12
#: The least noise of the logarithm of a block's slow-down.
_NOISE = 2e-3
#: Blocks below which noise cannot be told, and what it is then taken to be.
_FEW, _UNTOLD = 4, 0.01
#: The median of the square of a standard normal number.
_MEDIAN = 0.455


@dataclass(frozen=True)
class Guesses:
    """The impact of the whole run, under one belief each.

    Attributes
    ----------
    weights : ndarray of shape (n_guesses,)
        The logarithm of how much each is believed in.
    means, variances : ndarray of shape (n_guesses,)
        Of the logarithm of the impact.
    """

    weights: Floats
    means: Floats
    variances: Floats

    def weighed(self, chance: float, variance: float = 0.0) -> Guesses:
        """Return them believed in with a chance, and wider by a variance."""
        return Guesses(self.weights + np.log(chance), self.means, self.variances + variance)

    @classmethod
    def joined(cls, parts: Iterable[Guesses]) -> Guesses:
        """Put several into one."""
        columns = zip(*((one.weights, one.means, one.variances) for one in parts), strict=True)
        return cls(*map(np.concatenate, columns))


def guesses(runs: AlignedRuns, prior: SlowdownPrior = PRIOR) -> Guesses:
    """Return what each belief says of the impact of the whole run."""
    return Guesses.joined(_each(runs, prior))


def _each(runs: AlignedRuns, prior: SlowdownPrior) -> Iterator[Guesses]:
    seen = runs.natures[: len(runs.solo)]
    if runs.whole:
        yield from _guessed(runs, runs.rest, runs.natures, prior)
        return
    returned = Returned.of(seen)
    anew = prior.anew(returned.times)
    for longer in prior.longer:
        blocks = np.full(_UNKNOWN, (longer - 1) * runs.seen / _UNKNOWN)
        for guess in _guessed(runs, blocks, seen, prior):
            yield guess.weighed(anew)
        mixed = _mixed(runs, returned.stretches) * (1 - 1 / longer) ** 2
        for guess in _guessed(runs, (longer - 1) * runs.solo, np.concatenate([seen, seen]), prior):
            yield guess.weighed(1 - anew, mixed)


def _guessed(runs: AlignedRuns, rest: Floats, known: Floats, prior: SlowdownPrior) -> Iterator[Guesses]:
    """Yield what is believed where the rest lasts so long, and the first blocks have these natures."""
    seen = len(runs.solo)
    apart = ((known[:, None] - known) ** 2).mean(axis=2)
    noise = Returned.noise(known[:seen]) * prior.blurred
    for alike, length in product(prior.alike, prior.lengths):
        near = _near(runs.solo, rest, length)
        same = prior.again + (1 - prior.again) * near
        # what is unknown has little in common with what was seen, and is like its own neighbours
        same[:seen, seen:] = same[seen:, :seen] = prior.again
        same[: len(known), : len(known)] = np.exp(-apart / (2 * (alike**2 + noise)))
        for share in prior.neighbours:
            yield _scaled(runs, rest, (1 - share) * same + share * near, prior)


def _mixed(runs: AlignedRuns, stretches: int) -> float:
    """Return the variance of the logarithm of a rest that has the same phases, in other shares."""
    ratios = np.log(runs.corun / runs.solo)
    mean = np.average(ratios, weights=runs.solo)
    between = np.average((ratios - mean) ** 2, weights=runs.solo) - _noise(ratios)
    return float(max(between, 0.0)) / stretches


def _near(solo: Floats, rest: Floats, length: float) -> Floats:
    """Return how blocks correlate by their distance in time; `length` is a share of the run."""
    lasts = np.concatenate([solo, rest])
    middles = lasts.cumsum() - lasts / 2
    return np.asarray(np.exp(-np.abs(middles[:, None] - middles) / (length * lasts.sum())))


def _scaled(runs: AlignedRuns, rest: Floats, own: Floats, prior: SlowdownPrior) -> Guesses:
    """Return what is believed for each scale, where blocks have so much of their own in common."""
    seen, scales = len(runs.solo), np.array(prior.scales)
    ratios = np.log(runs.corun / runs.solo)
    noise = _noise(ratios)
    kernel = prior.common**2 + prior.own**2 * own
    values, vectors = np.linalg.eigh(kernel[:seen, :seen])
    variances = scales[:, None] ** 2 * np.maximum(values, 0) + noise
    means = prior.mean * scales
    turned = (ratios - means[:, None]) @ vectors
    weights = -0.5 * (turned**2 / variances + np.log(variances)).sum(axis=1)
    weights -= np.arange(len(scales)) * np.log(prior.shrinkage)
    if not len(rest):
        impact = np.log(runs.corun.sum() / runs.seen)
        return Guesses(weights, np.full(len(scales), impact), np.zeros(len(scales)))
    across = kernel[seen:, :seen] @ vectors
    squared = scales[:, None] ** 2
    expected = means[:, None] + squared * (turned / variances) @ across.T
    explained = squared[..., None] * ((across / variances[:, None, :]) @ across.T)
    left = squared[..., None] * (kernel[seen:, seen:] - explained)
    return Guesses(weights, *_summed(runs, rest, expected, left))


def _summed(runs: AlignedRuns, rest: Floats, expected: Floats, left: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of the logarithm of the impact: what is seen, and lognormal blocks."""
    own = np.diagonal(left, axis1=1, axis2=2)
    blocks = rest * np.exp(expected + own / 2)
    whole = runs.seen + rest.sum()
    means = (runs.corun.sum() + blocks.sum(axis=1)) / whole
    variances = (blocks * (np.expm1(left) @ blocks[..., None])[..., 0]).sum(axis=1) / whole**2
    spreads = np.log1p(np.maximum(variances, 0) / means**2)
    return np.log(means) - spreads / 2, spreads


def _noise(ratios: Floats) -> float:
    """Return the variance of a block's noise, from what most neighbours differ by: few change the phase."""
    if len(ratios) < _FEW:
        return _UNTOLD**2
    differs = float(np.median(np.diff(ratios) ** 2)) / _MEDIAN / 2
    return max(differs, _NOISE**2)
