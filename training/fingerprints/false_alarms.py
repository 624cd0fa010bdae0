"""How often two profiles of one and the same application seem to differ: what A/A pairs show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from data.fingerprints.params import Profiling
from features.fingerprints.matrix import FingerprintTable, Measured
from training.fingerprints.differences import FEW, adjusted, exchanged

#: Applications that are looked at, and how often the machines of each are halved.
APPLICATIONS, HALVINGS = 20, 5


@dataclass(frozen=True)
class FalseAlarms:
    """What the test of two profiles says of halves of the same machines.

    Attributes
    ----------
    applications, pairs : int
        How many were looked at.
    alarms : int
        Pairs in which some stressor seemed to have moved.
    """

    applications: int
    pairs: int
    alarms: int

    @property
    def share(self) -> float:
        """Alarms per pair."""
        return self.alarms / self.pairs


def false_alarms(
    table: FingerprintTable, applications: Sequence[str], params: Profiling, seed: int
) -> FalseAlarms | None:
    """Compare an application on one half of its machines with itself on the other half, several times.

    Parameters
    ----------
    applications : sequence of str
        Of more than `APPLICATIONS`, as many are taken at equal distances.

    Returns
    -------
    FalseAlarms or None
        None where no application was measured on enough machines to halve.
    """
    every = [table.measured(name).by_machine() for name in applications]
    enough = [one for one in every if len(one.machines) >= 2 * FEW]
    if not enough:
        return None
    places = np.unique(np.linspace(0, len(enough) - 1, APPLICATIONS).astype(int))
    found = [
        _alarm(enough[place], params, (seed, int(place), again))
        for place in places
        for again in range(HALVINGS)
    ]
    return FalseAlarms(len(places), len(found), sum(found))


def _alarm(measured: Measured, params: Profiling, seed: tuple[int, ...]) -> bool:
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(measured.machines))
    first = order < len(order) // 2
    scores = exchanged(
        measured.rows(first), measured.rows(~first), params.resamples, int(generator.integers(2**31))
    )
    return bool((adjusted(scores.b - scores.a) <= params.significance).any())
