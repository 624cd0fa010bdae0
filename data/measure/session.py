"""A measurement from its plan to its end: what the journal lacks is made, and made again when disturbed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Protocol, Self, TypeVar

from pydantic import Field, TypeAdapter, ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from data.errors import InputError, visible
from data.measure import machine
from data.measure.child import TimedOutError, TimeLimits
from data.tables.documents import Section, said
from data.tables.files import write_json, write_text
from data.tables.specs import Tables

Count = Annotated[int, Field(ge=1)]
Kind = TypeVar("Kind", bound=Section)


class Suite(Section):
    """A measurement: its ``name``, and the ``seed`` of its order and of all that is drawn.

    A run may take ``timeout`` seconds; without it, what `data.measure.child.TimeLimits` says.
    """

    #: What of the machine must be the same all the time: its settings by what journals call them.
    SAME: ClassVar[Mapping[str, str]] = {}

    kind: str
    name: str
    seed: int
    timeout: Annotated[float, Field(gt=0)] | None = None

    @property
    def patience(self) -> tuple[float, float]:
        """The share of the machine that others may use, and how many times something is measured at most."""
        return 1.0, 1


class CountedSuite(Suite):
    """A measurement that counts: every ``interval`` seconds, and of perf the ``events``.

    When others use more than the share ``foreign`` of the machine, something is measured again, ``attempts``
    times at most; the least disturbed stays.
    """

    SAME: ClassVar[Mapping[str, str]] = {"machine": "processor", "kernel": "kernel"}

    interval: Annotated[float, Field(ge=0.02, le=10)] = 0.2
    foreign: Annotated[float, Field(gt=0, le=1)] = 0.03
    attempts: Count = 3
    events: tuple[str, ...] = ()

    @property
    def patience(self) -> tuple[float, float]:
        """What ``foreign`` and ``attempts`` say."""
        return self.foreign, self.attempts


def typed(kind: type[Kind], content: Any, path: Path) -> Kind:
    """Validate what a suite says; InputError naming file, key and value."""
    try:
        return kind.model_validate(content)
    except ValidationError as exc:
        raise InputError(said(exc), file=path) from exc


def unique(names: Sequence[str], what: str, path: Path) -> None:
    """Raise an InputError if a name stands twice."""
    for name in names:
        if names.count(name) > 1:
            raise InputError("stands twice", file=path, place=f'{what} "{name}"')


WORKLOADS = Path(__file__).with_name("workloads.py")


class Keyed(Protocol):
    """A dataclass of what was measured."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def key(self) -> Hashable:
        """What tells one entry from another."""


Entry = TypeVar("Entry", bound=Keyed)


@dataclass(frozen=True)
class TimedOutRun:
    """A run that was ended after ``limit`` seconds: its key as JSON, and why it has no entry."""

    run: str
    problem: str
    limit: float


@dataclass
class Journal(Generic[Entry]):
    """The file that ``entries`` live in, and ``notes``: dataclasses of what else is to be known again.

    Runs that were ended because they took too long are in ``invalid``.
    """

    path: Path
    entries: list[Entry]
    notes: list[Any] = field(default_factory=list)
    invalid: list[TimedOutRun] = field(default_factory=list)

    @classmethod
    def open(
        cls,
        path: Path,
        begun: Mapping[str, Any],
        entry: type[Entry],
        note: type | None = None,
        able: Mapping[str, Sequence[str]] | None = None,
    ) -> Self:
        """Read the journal at `path`, or begin one for the measurement that `begun` describes.

        Parameters
        ----------
        begun : mapping
            The suite, and settings of the machine that must be the same all the time.
        entry, note : type
            The types of lines: a note if they have just its keys.
        able : mapping, optional
            By name the parts of the suite that this machine and this user can do: they must be the
            same, too, or
            entries would differ by who measured them.

        Raises
        ------
        InputError
            If the file belongs to another suite or machine, was begun with other abilities, or has a
            line that is
            no record.
        """
        if not path.exists():
            write_text(path, json.dumps({"suite": begun} | ({} if able is None else {"able": able})) + "\n")
        first, *records = _records(path) or [{}]
        if first.get("suite") != begun:
            raise InputError("was begun with another suite; name another directory or remove it", file=path)
        _require_able(able or {}, first.get("able", {}), path)
        journal, an_entry = cls(path, []), TypeAdapter(entry)
        others: list[tuple[Any, list[Any]]] = [(TimedOutRun, journal.invalid)]
        others += [(note, journal.notes)] if note else []
        kinds: dict[frozenset[str], tuple[list[Any], TypeAdapter[Any]]] = {
            frozenset(one.name for one in fields(kind)): (found, TypeAdapter(kind)) for kind, found in others
        }
        for number, record in enumerate(records, 2):
            found, adapter = kinds.get(frozenset(record), (journal.entries, an_entry))
            try:
                found.append(adapter.validate_python(record))
            except ValidationError as exc:
                raise InputError(said(exc, "the line"), file=path, line=number) from exc
        return journal

    def add(self, *entries: Entry) -> None:
        """Keep `entries`."""
        self.entries += entries
        self._append(entries)

    def note(self, note: Any) -> None:
        """Keep what is no entry."""
        self.notes.append(note)
        self._append([note])

    def add_invalid(self, run: TimedOutRun) -> None:
        """Keep that a run has no entry."""
        self.invalid.append(run)
        self._append([run])

    def invalid_runs(self) -> list[dict[str, Any]]:
        """Return the runs that have no entry, as they are written."""
        measured = {json.dumps(entry.key) for entry in self.entries}
        return [asdict(one) for one in self.invalid if one.run not in measured]

    def _append(self, records: Iterable[Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(asdict(record)) + "\n" for record in records))


def _records(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    # A line that was being written when the power went has no end.
    whole = [line for line in lines if line.endswith("\n")]
    if len(whole) < len(lines):
        write_text(path, "".join(whole))
    return [_record(line, path, number) for number, line in enumerate(whole, 1)]


def _require_able(able: Mapping[str, Sequence[str]], before: Any, path: Path) -> None:
    for what, now in able.items():
        then = before.get(what, now) if isinstance(before, dict) else now
        changed = [name for name in dict.fromkeys([*then, *now]) if (name in then) != (name in now)]
        if changed:
            told = "is not to be had here" if changed[0] in then else "was not to be had then"
            told = f'was begun with other {what} ("{changed[0]}" {told})'
            raise InputError(f"{told}; go on as then, or name another directory", file=path)


def _record(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as exc:
        raise InputError(f"is not JSON ({exc.msg})", file=path, line=number) from exc
    if not isinstance(record, dict):
        raise InputError(f"{line[:40]!r} is no record", file=path, line=number)
    return record


class Screen:
    """Standard error as a person sees it."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._line = self._bar.add_task("measuring", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, note: str) -> None:
        """Print a note above the bar."""
        self._console.print(visible(note), markup=False, highlight=False, soft_wrap=True)

    def advance(self, done: int, of: int, what: str) -> None:
        """Show that `done` of `of` are measured, and what is being measured."""
        self._bar.update(self._line, completed=done, total=of, description=visible(what))


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

        `make` measures a batch and returns its entries and the share of the machine that others used;
        batches are made, and made again, as a whole.
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
    """Make something, and again while others use more than the share `foreign`.

    Return the least disturbed.

    `make` returns what it made and the share of the machine that others used; `progress` is called with the
    reason for waiting.
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
