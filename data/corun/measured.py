"""What a measurement of co-runs keeps."""

from __future__ import annotations

from dataclasses import dataclass

from data.corun.run import Run
from data.corun.tables import AND


@dataclass(frozen=True)
class PlannedCorun:
    """One thing to measure: the tasks, by processor, and how many times before they were measured, plus 1."""

    tasks: tuple[str, ...]
    repetition: int

    @property
    def key(self) -> tuple[tuple[str, ...], int]:
        """What tells one plan from another."""
        return self.tasks, self.repetition

    @property
    def told(self) -> str:
        """The tasks, for people."""
        return AND.join(self.tasks)


@dataclass(frozen=True)
class MeasuredCorun:
    """What was measured of one plan.

    ``at`` is a UTC time, ``foreign`` the share of the machine that others used meanwhile.
    """

    planned: PlannedCorun
    at: str
    foreign: float
    runs: tuple[Run, ...]

    @property
    def key(self) -> tuple[tuple[str, ...], int]:
        """The key of what was planned."""
        return self.planned.key
