"""What of a run tells how far it got: the work that it did, or only the time that it had."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from training.corun.progress.estimate import Mixture

#: Events that the same work counts alike, however long it takes; the best first.
WORK = (
    *("instructions", "branch-instructions", "L1-dcache-stores", "L1-dcache-loads", "dTLB-loads"),
    "dTLB-stores",
)
#: Events that tell phases from each other, beside the rate of work.
NATURE = (
    *("cpu-cycles", "cache-misses", "cache-references", "LLC-loads", "LLC-load-misses", "branch-misses"),
    *("L1-dcache-load-misses", "dTLB-load-misses", "stalled-cycles-backend", "task-clock"),
)


@dataclass(frozen=True)
class ProgressKind:
    """What progress is told by.

    Attributes
    ----------
    event : str
    hides : Mixture or None
        What the event does not show of a slow-down, on the scale of log impact: of cycles that more of them
        are needed for the same work, of time on a processor that its clock is slower, too. None: nothing.
    says : str
        That in a sentence; empty where nothing is hidden.
    """

    event: str
    hides: Mixture | None = None
    says: str = ""


def _hidden(*beliefs: tuple[float, float, float]) -> Mixture:
    return Mixture(*map(np.array, zip(*beliefs, strict=True)))


#: Most co-runs cost little that such events don't show, one in eight a good deal. Of time: as found in every
#: other one of the shipped tasks (`benchmarks.progress` reports the rest); of cycles: that without the clock.
_CYCLES = _hidden((0.6, 0.004, 0.01), (0.28, 0.015, 0.03), (0.12, 0.12, 0.09))
_TIME = _hidden((0.6, 0.004, 0.012), (0.28, 0.015, 0.035), (0.12, 0.13, 0.1))
CLOCKS = (
    ProgressKind(
        "cpu-cycles", _CYCLES, "cycles don't show how many more of them the same work takes together"
    ),
    ProgressKind("ref-cycles", _TIME, "reference cycles show only the share of the processor that it got"),
    ProgressKind("task-clock", _TIME, "task-clock shows only the share of the processor that it got"),
    ProgressKind("cpu-clock", _TIME, "cpu-clock shows only the share of the processor that it got"),
)
KINDS = (*map(ProgressKind, WORK), *CLOCKS)


def kind(counted: Collection[str]) -> ProgressKind | None:
    """Return the best that both runs counted; None if none of it was."""
    return next((one for one in KINDS if one.event in counted), None)
