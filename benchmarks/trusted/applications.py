"""Applications whose cause is known, on real fingerprints, and applications that have none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from features.fingerprints.matrix import EVERY_THREAD, Measured
from training.fingerprints.importance import log_rates

Floats = NDArray[np.float64]
#: Of these many machines, so many CPU models.
MACHINES, CPUS = 24, 12
POWER = 0.9


@dataclass(frozen=True)
class MadeUp:
    """An application and the stressor that it follows; None where it follows none alone."""

    measured: Measured
    cause: str | None


Maker = Callable[[Measured, np.random.Generator], MadeUp]


def some(every: Measured, generator: np.random.Generator) -> Measured:
    """Draw `MACHINES` machines of `CPUS` CPU models, as many of each, with their rates on one thread."""
    names, counts = np.unique(every.cpus, return_counts=True)
    each = MACHINES // CPUS
    models = generator.choice(names[counts >= each], CPUS, replace=False)
    rows = [generator.choice(np.flatnonzero(every.cpus == model), each, replace=False) for model in models]
    single = [n for n, column in enumerate(every.columns) if not column.endswith(EVERY_THREAD)]
    return _complete(every.rows(np.concatenate(rows)).only(single))


def whole(every: Measured, _: np.random.Generator) -> Measured:
    """Return all machines."""
    return _complete(every)


def _complete(measured: Measured) -> Measured:
    """Fill gaps, and leave out what is the same everywhere."""
    logs = log_rates(measured.x)
    varying = np.flatnonzero(np.ptp(logs, axis=0) > 0).tolist()
    return replace(measured, x=np.exp(logs)).only(varying)


def following(noise: float, stressor: str | None = None) -> Maker:
    """Make applications whose time is a power of one rate, `noise` aside; of any stressor without one."""

    def made(machines: Measured, generator: np.random.Generator) -> MadeUp:
        cause = stressor or str(generator.choice(machines.columns))
        rate = np.log(machines.x[:, machines.columns.index(cause)])
        return MadeUp(timed(machines, -POWER * rate + generator.normal(0, noise, len(rate))), cause)

    return made


def unrelated(machines: Measured, generator: np.random.Generator) -> MadeUp:
    """Make an application that every CPU model runs at a speed of its own."""
    names, rows = np.unique(machines.cpus, return_inverse=True)
    noise = generator.normal(0, 0.02, len(rows))
    return MadeUp(timed(machines, generator.normal(0, 0.3, len(names))[rows] + noise), None)


def scattered(machines: Measured, generator: np.random.Generator) -> MadeUp:
    """Make an application whose time has nothing to do with the machine."""
    return MadeUp(timed(machines, generator.normal(0, 0.3, len(machines.y))), None)


def flat(machines: Measured, generator: np.random.Generator) -> MadeUp:
    """Make an application that leans on everything alike."""
    logs = np.log(machines.x)
    common = ((logs - logs.mean(axis=0)) / logs.std(axis=0)).mean(axis=1)
    return MadeUp(timed(machines, -0.3 * common + generator.normal(0, 0.02, len(common))), None)


def timed(machines: Measured, logs: Floats) -> Measured:
    """Return the machines with an application of these logarithms of seconds."""
    return replace(machines, application="made", metric="seconds", better="lower", y=np.exp(logs))
