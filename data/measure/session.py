"""A measurement from its plan to its end: what the journal lacks is made, and made again when disturbed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from data.measure import machine
from data.measure.child import TimedOutError, TimeLimits
from data.measure.journal import Entry, Journal, TimedOutRun
from data.measure.screen import Screen
from data.measure.suite import Suite
from data.tables.files import write_json
from data.tables.specs import Tables

#: Seconds to wait when others use the machine.
PATIENCE = 2.0


class Planned(Protocol):
    """One thing to measure: its key in the journal, and what a person reads meanwhile."""

    @property
    def key(self) -> Hashable:
        """What its entry will be known by."""

    @property
    def told(self) -> str:
        """What is being measured."""


Plan = TypeVar("Plan", bound=Planned)
Made = TypeVar("Made")
One = TypeVar("One")


@dataclass
class Session(Generic[Entry]):
    """A measurement that Ctrl-C ends in good order: what was measured is kept, and ``finished`` is False.

    What is measured while others use more than the share ``foreign`` of the machine is made again,
    ``attempts`` times at most; the least disturbed stays. ``unit`` is what entries of the journal are called.
    A run that takes longer than its ``limits`` is invalid: it is kept as that, and the measurement goes on.
    """

    journal: Journal[Entry]
    screen: Screen
    unit: str
    foreign: float = 1.0
    attempts: float = 1
    finished: bool = True
    limits: TimeLimits = field(default_factory=TimeLimits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        if kind is not KeyboardInterrupt:
            return False
        self.finished = False
        self.screen.say(f"kept {len(self.journal.entries)} {self.unit}; start again to resume")
        return True

    @classmethod
    def begin(
        cls,
        directory: Path,
        suite: Suite,
        screen: Screen,
        unit: str,
        entry: type[Entry],
        *,
        note: type | None = None,
        able: Mapping[str, Sequence[str]] | None = None,
    ) -> Self:
        """Begin to measure a suite into `directory`, or go on; for the rest and for errors see `Journal`."""
        described = machine.settings()
        same = {name: described[setting] for name, setting in suite.SAME.items()}
        # whoever lets runs take longer goes on with the same measurement
        begun = suite.model_dump(mode="json", exclude={"timeout"}) | same
        journal = Journal.open(directory / "journal.jsonl", begun, entry, note, able)
        return cls(journal, screen, unit, *suite.patience, limits=TimeLimits(suite.timeout))

    def end(self, suite: Suite, tables: Tables, **settings: Any) -> bool:
        """Write what was measured, and how into ``settings.json``; tell whether it is everything."""
        directory = self.journal.path.parent
        tables.write(directory)
        about = {"machine": machine.settings(), "suite": suite.model_dump(mode="json")}
        described = {**about, "invalid": self.journal.invalid_runs(), **settings}
        write_json(directory / "settings.json", described)
        return self.finished

    def waiting(self, everything: Sequence[Plan]) -> list[Plan]:
        """Return what of it is not yet in the journal; invalid runs wait for a suite with a longer limit."""
        kept, limit = {entry.key for entry in self.journal.entries}, self.limits.timeout or TimeLimits.LEAST
        given_up = {one.run for one in self.journal.invalid if one.limit >= limit}
        return [one for one in everything if one.key not in kept and _written(one.key) not in given_up]

    def measure(
        self,
        everything: Sequence[Plan],
        make: Callable[[Sequence[Plan]], tuple[Sequence[Entry], float]],
        batch: int = 1,
    ) -> None:
        """Measure what the journal lacks, keeping each batch at once.

        Parameters
        ----------
        everything : sequence of Planned
        make : callable
            Measures a batch; returns its entries and the share of the machine that others used.
        batch : int
            How many are made one after the other, and again together.
        """
        waiting, whole = self.waiting(everything), len(everything)
        for at in range(0, len(waiting), batch):
            now = waiting[at : at + batch]
            progress = partial(self.screen.advance, whole - len(waiting) + at, whole)
            progress(now[-1].told)
            try:
                entries, _ = quietest(partial(make, now), self.foreign, self.attempts, progress)
            except TimedOutError as exc:
                self._give_up(now, exc)
            else:
                self.journal.add(*entries)
        self.screen.advance(whole, whole, "done")

    def _give_up(self, planned: Sequence[Plan], error: TimedOutError) -> None:
        for one in planned:
            self.screen.say(f"invalid: {one.told}: {error}")
            self.journal.add_invalid(TimedOutRun(_written(one.key), str(error), error.seconds))


def _written(key: Hashable) -> str:
    return json.dumps(key)


def shuffled(blocks: Iterable[Iterable[One]], shuffle: random.Random) -> list[One]:
    """Return what the blocks hold, one block after the other, each in random order."""
    found: list[One] = []
    for block in map(list, blocks):
        shuffle.shuffle(block)
        found += block
    return found


def quietest(
    make: Callable[[], tuple[Made, float]], foreign: float, attempts: float, progress: Callable[[str], None]
) -> tuple[Made, float]:
    """Make something, and again while others use more than `foreign`; return the least disturbed.

    Parameters
    ----------
    make : callable
        Returns what it made and the share of the machine that others used meanwhile.
    foreign : float
    attempts : float
        How many times at most.
    progress : callable
        Told what is being waited for.
    """
    made, least = make()
    for attempt in count(1):
        if least <= foreign or attempt >= attempts:
            break
        progress(f"waiting: others use {least:.0%} of the machine")
        time.sleep(PATIENCE)
        again, share = make()
        if share < least:
            made, least = again, share
    return made, least
