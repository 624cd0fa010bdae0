"""What a measurement of comparisons keeps: repetitions, and how much work an operation is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Repetition:
    """One repetition.

    ``purpose`` is "sample" or "reference", ``nominal`` the work of the baseline in units, ``at`` a UTC time.
    """

    operation: str
    version: str
    threads: int
    purpose: str
    repetition: int
    nominal: int
    at: str
    seconds: float
    real_seconds: float
    user_seconds: float
    kernel_seconds: float
    out_of_cpu_seconds: float

    @property
    def key(self) -> tuple[str, str, int, str, int]:
        """What tells one repetition from another."""
        return self.operation, self.version, self.threads, self.purpose, self.repetition


@dataclass(frozen=True)
class Work:
    """The units of work that the baseline of an operation does."""

    operation: str
    work: int
