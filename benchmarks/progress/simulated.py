"""Simulated runs of tasks with phases, alone and beside others, whose impact is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
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
    """Up to 40 %, whatever the phase does."""
    return 1 + rng.uniform(0, 0.4, len(missing))


def little(rng: Generator, missing: Floats) -> Floats:
    """Up to 6 %."""
    return 1 + rng.uniform(0, 0.06, len(missing))


def demanded(rng: Generator, missing: Floats) -> Floats:
    """As much as the others demand, times a sensitivity."""
    return 1 + rng.lognormal(-1.8, 0.8) * rng.beta(1.2, 1.2, len(missing))


def missed(rng: Generator, missing: Floats) -> Floats:
    """As much as the others demand, times how the phase misses caches."""
    return 1 + rng.lognormal(-1.2, 0.7) * missing * np.exp(rng.normal(0, 0.3, len(missing)))


def heavy(rng: Generator, missing: Floats) -> Floats:
    """Mostly little, seldom much."""
    return 1 + rng.exponential(rng.choice([0.03, 0.1, 0.25]), len(missing))


SLOWING: dict[str, Slowing] = {one.__name__: one for one in (uniform, little, demanded, missed, heavy)}


def task(rng: Generator, slowing: Slowing, *, recurring: bool, seconds: float = 60.0) -> Simulated:
    """Make a task of 3 to 8 phases, which come once each or again and again."""
    phases = int(rng.integers(3, 9))
    missing = rng.beta(0.8, 0.8, phases)
    rate = 3e9 * rng.uniform(0.25, 1.2, phases) * (1 - 0.6 * missing)
    slower = slowing(rng, missing)
    rounds = int(rng.integers(3, 12)) if recurring else 1
    order = np.concatenate([rng.permutation(phases) for _ in range(rounds)])
    lasts = rng.dirichlet(np.full(phases, 3.0))[order] * np.exp(rng.normal(0, 0.1, len(order)))
    return Simulated(lasts / lasts.sum() * seconds, rate[order], 1e-4 + 0.02 * missing[order], slower[order])


def sampled(rng: Generator, of: Simulated, *, together: bool, until: float) -> pd.DataFrame:
    """Sample a run every 0.2 s until some seconds, with 2 % of noise."""
    lasts = of.seconds * (of.slower if together else 1.0)
    ends = np.concatenate([[0.0], lasts.cumsum()])
    stop = min(until, ends[-1])
    times = np.append(np.arange(0.2, stop - 1e-6, 0.2), stop)
    work = of.seconds * of.rate
    table = {"t_seconds": times}
    for event, done in {"instructions": work, "cache-misses": work * of.misses}.items():
        within = np.diff(np.interp(times, ends, [0.0, *done.cumsum()]), prepend=0.0)
        table[event] = within * np.exp(rng.normal(0, 0.02, len(times)))
    return pd.DataFrame(table)
