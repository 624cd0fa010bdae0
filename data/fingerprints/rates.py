"""What a measurement of a fingerprint keeps: rates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """One stressor to run: on one thread (1) or all (0)."""

    stressor: str
    threads: int
    repetition: int

    @property
    def key(self) -> tuple[str, int, int]:
        """What tells one from another."""
        return self.stressor, self.threads, self.repetition

    @property
    def told(self) -> str:
        """The stressor, for people."""
        return self.stressor


@dataclass(frozen=True)
class Rate(Task):
    """The rate of a task in bogo operations per second; ``problem`` says why there is none.

    ``at`` is a UTC time, ``foreign`` the share of the machine that others used meanwhile.
    """

    at: str
    rate: float | None
    problem: str
    foreign: float
