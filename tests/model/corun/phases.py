"""Programs with phases, whose impact is known: what perf would count of them, alone and beside others."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

CLOCK = 3e9


@dataclass(frozen=True)
class Phased:
    """A program that goes through 3 to 8 phases, once or in rounds; each with its own IPC and sensitivity."""

    seconds: np.ndarray
    ipc: np.ndarray
    slower: np.ndarray

    @classmethod
    def of(cls, rng, seconds=60.0, rounds=None):
        phases, drawn = rng.integers(3, 9), rng.integers(1, 9)
        rounds = rounds or drawn
        # what is starved of memory retires little, and mostly suffers more
        starved = rng.uniform(0, 1, phases)
        ipc = rng.uniform(1.2, 3.0, phases) * (1 - 0.75 * starved)
        sensitive = np.clip(starved + rng.normal(0, 0.35, phases), 0, 1.2)
        slower = 1 + rng.uniform(0.02, 0.4) * sensitive
        order = np.tile(np.arange(phases), rounds)
        lasts = rng.uniform(0.3, 1.7, phases)[order] * rng.uniform(0.9, 1.1, len(order))
        return cls(lasts / lasts.sum() * seconds, ipc[order], slower[order])

    @property
    def impact(self):
        return float(self.seconds @ self.slower / self.seconds.sum())

    def sampled(self, rng, slower=None, until=np.inf, interval=0.2, noise=0.02):
        """Return what perf stat -I counts until some seconds; `slower` is 1 alone."""
        lasts = self.seconds * (1.0 if slower is None else slower)
        ends = np.concatenate([[0.0], lasts.cumsum()])
        stop = min(until, ends[-1])
        times = np.append(np.arange(interval, stop - 1e-9, interval), stop)
        work = np.concatenate([[0.0], (self.seconds * self.ipc * CLOCK).cumsum()])
        shaken = np.exp(rng.normal(0, noise, (2, len(times))))
        counts = np.diff(np.interp(times, ends, work), prepend=0.0) * shaken[0]
        busy = np.diff(times, prepend=0.0)
        events = {"instructions": counts, "cycles": busy * CLOCK * shaken[1], "task-clock": busy * 1000}
        return pd.DataFrame({"t_seconds": times, **events})
