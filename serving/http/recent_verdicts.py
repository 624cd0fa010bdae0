"""The last verdicts that a server gave, all its processes together."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, NamedTuple, Self

from data.tables.files import write_json
from serving.reports.verdict_lines import VerdictLine

if TYPE_CHECKING:
    from serving.http.bodies import Answered
    from serving.supply import Door

#: How many verdicts are kept, how many of one answer, and how many letters of what they are called.
KEPT, OF_ONE, LETTERS = 50, 10, 200
#: Seconds after which the other processes know of a verdict.
DELAY = 1.0
_FILES = "recent-*.json"


class RecentVerdict(NamedTuple):
    """A verdict that was given: when, in seconds since 1970 began, at which door, and what it says."""

    at: float
    door: str
    line: VerdictLine

    @classmethod
    def short(cls, at: float, door: str, line: VerdictLine) -> Self:
        """Keep no more of its words than a page shows."""
        if len(line.suite) > LETTERS or len(line.name) > LETTERS or len(line.why) > LETTERS:
            suite, name, why = (text[:LETTERS] for text in (line.suite, line.name, line.why))
            line = VerdictLine(line.verdict, line.probability, suite, name, why)
        return cls(at, door, line)


class Recent:
    """The last verdicts of this process, and of those that it shares a directory with."""

    def __init__(self, shared: str | None = None) -> None:
        self._own = deque[RecentVerdict](maxlen=KEPT)
        self._shared = None if shared is None else Path(shared)
        self._waiting = False

    def add(self, door: Door, answered: Answered) -> None:
        """Keep the first verdicts of an answer, if it gives any; this takes microseconds."""
        if answered.judged is None:
            return
        now, lines = time.time(), answered.judged.first(OF_ONE)
        self._own.extend(RecentVerdict.short(now, door.path, line) for line in lines)
        if self._shared is not None and not self._waiting:
            self._waiting = True
            writing = Timer(DELAY, self._write, [self._shared])
            writing.daemon = True
            writing.start()

    def _write(self, directory: Path) -> None:
        # what comes while the file is written is in the next one
        self._waiting = False
        # a page that shows fewer verdicts is better than a server that fails
        with suppress(OSError):
            told = [one._asdict() | {"line": asdict(one.line)} for one in tuple(self._own)]
            write_json(directory / f"recent-{os.getpid()}.json", told)

    def newest(self) -> list[RecentVerdict]:
        """Return the last verdicts of all processes, the newest first."""
        found = [*tuple(self._own), *self._others()]
        return sorted(found, key=lambda one: -one.at)[:KEPT]

    def _others(self) -> Iterator[RecentVerdict]:
        own = f"recent-{os.getpid()}.json"
        for path in [] if self._shared is None else self._shared.glob(_FILES):
            # another process may have ended, and its file with it
            with suppress(OSError, ValueError):
                if path.name != own:
                    for one in json.loads(path.read_text(encoding="utf-8")):
                        yield RecentVerdict(one["at"], one["door"], VerdictLine(**one["line"]))
