"""The co-runs that a measurement has so far: one JSON line each, kept at once, read again to resume."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from data.corun.run import Run
from data.measure import journal


@dataclass(frozen=True)
class Planned:
    """One thing to measure: the tasks, by processor, and how many times before they were measured, plus 1."""

    tasks: tuple[str, ...]
    repetition: int


@dataclass(frozen=True)
class Measured:
    """What was measured of one plan.

    ``at`` is a UTC time, ``foreign`` the share of the machine that others used meanwhile.
    """

    planned: Planned
    at: str
    foreign: float
    runs: tuple[Run, ...]


@dataclass
class Coruns:
    """The journal of co-runs: ``entries``, each kept at once."""

    path: Path
    entries: list[Measured]

    @classmethod
    def open(cls, path: Path, begun: dict[str, Any]) -> Coruns:
        """Read the journal at `path`, or begin one for what `begun` describes.

        Raises
        ------
        InputError
            If the file belongs to another suite or machine.
        """
        return cls(path, [_entry(record) for record in journal.resume(path, begun)])

    def add(self, entry: Measured) -> None:
        """Keep `entry`."""
        self.entries.append(entry)
        journal.append(self.path, [asdict(entry)])


def _entry(record: dict[str, Any]) -> Measured:
    planned = Planned(tuple(record["planned"]["tasks"]), record["planned"]["repetition"])
    return Measured(planned, record["at"], record["foreign"], tuple(Run(**run) for run in record["runs"]))
