"""Simulated runs of tasks with phases, alone and beside others, whose impact is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Simulated:
    """A task with phases.

    Attributes
    ----------
    seconds : ndarray of shape (n_segments,)
        How long each segment lasts alone.
    rate : ndarray of shape (n_segments,)
        Instructions per second alone.
    misses : ndarray of shape (n_segments,)
        Cache misses per instruction alone.
    slower : ndarray of shape (n_segments,)
        How much slower each is beside the others.
    """

    seconds: Floats
    rate: Floats
    misses: Floats
    slower: Floats

    @property
    def impact(self) -> float:
        """Seconds together over seconds alone."""
        return float(self.seconds @ self.slower / self.seconds.sum())


#: Returns how much slower phases are together, from how they miss caches (0 to 1).
Slowing = Callable[[Generator, Floats], Floats]


def uniform(rng: Generator, missing: Floats) -> Floats:
    return 1 + rng.uniform(0, 0.4, len(missing))


def little(rng: Generator, missing: Floats) -> Floats:
    return 1 + rng.uniform(0, 0.06, len(missing))


def demanded(rng: Generator, missing: Floats) -> Floats:
    return 1 + rng.lognormal(-1.8, 0.8) * rng.beta(1.2, 1.2, len(missing))


def missed(rng: Generator, missing: Floats) -> Floats:
    return 1 + rng.lognormal(-1.2, 0.7) * missing * np.exp(rng.normal(0, 0.3, len(missing)))


def heavy(rng: Generator, missing: Floats) -> Floats:
    return 1 + rng.exponential(rng.choice([0.03, 0.1, 0.25]), len(missing))


SLOWING: dict[str, Slowing] = {one.__name__: one for one in (uniform, little, demanded, missed, heavy)}


def task(rng: Generator, slowing: Slowing, *, recurring: bool, seconds: float = 60.0) -> Simulated:
    """Make a task of 3 to 8 phases, which come once each or again and again."""
    phases = int(rng.integers(3, 9))
    missing = rng.beta(0.8, 0.8, phases)
    rate = 3e9 * rng.uniform(0.25, 1.2, phases) * (1 - 0.6 * missing)
    slower = slowing(rng, missing)
    order = np.arange(phases)
    if recurring:
        order = np.concatenate(
            [
                rng.permutation(phases) if rng.random() < 0.5 else order
                for _ in range(int(rng.integers(3, 12)))
            ]
        )
    lasts = rng.dirichlet(np.full(phases, 3.0))[order] * np.exp(rng.normal(0, 0.1, len(order)))
    return Simulated(lasts / lasts.sum() * seconds, rate[order], 1e-4 + 0.02 * missing[order], slower[order])


def sampled(
    rng: Generator, of: Simulated, *, together: bool, interval: float, noise: float, until: float
) -> tuple[Floats, Floats, Floats]:
    """Sample a run; return the ends of intervals, and instructions and cache misses within each."""
    lasts = of.seconds * (of.slower if together else 1.0)
    ends = lasts.cumsum()
    stop = min(until, ends[-1])
    times = np.append(np.arange(interval, stop - 1e-6, interval), stop)
    work = np.interp(times, [0, *ends], [0, *(of.seconds * of.rate).cumsum()])
    misses = np.interp(times, [0, *ends], [0, *(of.seconds * of.rate * of.misses).cumsum()])
    shaken = [np.diff(one, prepend=0.0) * np.exp(rng.normal(0, noise, len(times))) for one in (work, misses)]
    return times, shaken[0], shaken[1]
