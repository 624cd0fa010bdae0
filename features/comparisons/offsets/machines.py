"""What runs differ by, a machine at a time: what one has in common, another one has not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Sides
from features.comparisons.copies import some
from features.comparisons.offsets.shifts import Known, Offsets, RunShift, offsets


@dataclass(frozen=True)
class MachineOffsets:
    """What runs of all machines differ by.

    Attributes
    ----------
    value, limit : ndarray of shape (n_configurations,)
        Of what is a configuration's own; see `features.comparisons.offsets.shifts.RunShift`.
    together : ndarray of shape (n_configurations,)
        How far its whole run moved; NaN where that is not known.
    own, beyond : ndarray of shape (n_configurations,)
        -1 where it, or its whole run, is worse by more than runs differ by, 1 where better, else 0.
    machine : ndarray of str, shape (n_configurations,)
    each : mapping of str to Offsets
        The same by machine.
    """

    value: Floats
    limit: Floats
    together: Floats
    own: Ints
    beyond: Ints
    machine: NDArray[np.str_]
    each: Mapping[str, Offsets]

    @property
    def whole(self) -> Mapping[str, RunShift]:
        """How far the whole run moved, by machine; of those of which that is known."""
        return {name: one.whole for name, one in self.each.items() if one.whole is not None}

    def known(self, configuration: int) -> Known:
        """Return what tells what runs differ by there."""
        return self.each[str(self.machine[configuration])].own.known


def machine_offsets(sides: Sides, machines: Sequence[str], assumed: float) -> MachineOffsets:
    """Divide what targets moved by as `features.comparisons.offsets.shifts.offsets` does.

    Parameters
    ----------
    sides : Sides
    machines : sequence of str
        One of each comparison.
    assumed : float
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
