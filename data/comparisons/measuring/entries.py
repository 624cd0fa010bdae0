"""What a measurement of comparisons keeps: runs, references, and what was found out about builds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BuildRun:
    """Samples of a build at a number of threads, or pairs of it and the unchanged build.

    ``purpose`` is "run" or "reference"; ``number`` counts the passes, or the runs of a changed build.
    ``at`` is the UTC time of its begin, ``foreign`` the share of the processor that others used.
    ``unchanged`` has the samples of the unchanged build that were taken in turn with ``values``, for
    references only.
    """

    operation: str
    change: str
    purpose: str
    number: int
    threads: int
    at: str
    foreign: float
    values: tuple[float, ...]
    unchanged: tuple[float, ...] = ()

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """What tells one run from another."""
        return self.operation, self.change, self.purpose, self.number, self.threads


@dataclass(frozen=True)
class Trial:
    """What trying a build told: the units of ``work`` of a sample and the usual number of ``samples``.

    ``problem`` says why a build cannot be measured here.
    """

    operation: str
    change: str
    work: int
    samples: int
    noise: float
    problem: str
