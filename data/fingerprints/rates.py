"""The rates that a fingerprint has so far: one JSON line each, kept at once, read again to resume."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from data.fingerprints.suite import FingerprintSuite
from data.measure import journal, machine


@dataclass(frozen=True)
class Task:
    """One stressor to run: on one thread (1) or all (0)."""

    stressor: str
    threads: int
    repetition: int


@dataclass(frozen=True)
class Rate:
    """One rate in bogo operations per second; ``problem`` says why there is none.

    ``at`` is a UTC time, ``foreign`` the share of the machine that others used meanwhile.
    """

    stressor: str
    threads: int
    repetition: int
    at: str
    rate: float | None
    problem: str
    foreign: float

    @property
    def task(self) -> Task:
        """What was measured."""
        return Task(self.stressor, self.threads, self.repetition)


@dataclass
class Rates:
    """The journal of a fingerprint: ``entries``, each kept at once."""

    path: Path
    entries: list[Rate]

    @classmethod
    def open(cls, path: Path, suite: FingerprintSuite) -> Rates:
        """Read the journal at `path`, or begin one for `suite` and this stress-ng.

        Raises
        ------
        InputError
            If the file belongs to another suite or another version of stress-ng.
        """
        begun = {**suite.model_dump(mode="json"), "stress-ng": machine.stress_ng()}
        return cls(path, [Rate(**record) for record in journal.resume(path, begun)])

    def add(self, rate: Rate) -> None:
        """Keep `rate`."""
        self.entries.append(rate)
        journal.append(self.path, [asdict(rate)])
