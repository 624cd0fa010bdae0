"""Carry out the plan of a measurement: resume from its journal, and repeat disturbed runs."""

from __future__ import annotations

import json
import random
import shlex
import sys
import sysconfig
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Protocol, Self, TypeVar

from pydantic import Field, TypeAdapter, ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from data.errors import InputError, escape_invisible
from data.measure import machine
from data.measure.child import TimedOutError, TimeLimits
from data.tables.documents import Section, validation_message
from data.tables.files import write_json, write_text, yaml_content
from data.tables.specs import Tables

Count = Annotated[int, Field(ge=1)]
Kind = TypeVar("Kind", bound=Section)


class Suite(Section):
    """Parameters of a measurement: its ``name``, and the random ``seed`` of its order and drawn values.

    ``timeout`` is the time limit of a run in seconds; by default that of `data.measure.child.TimeLimits`. A
    run is repeated, up to ``attempts`` times in total, if others use more than the share ``foreign`` of the
    machine (or of the suite's processor); the least disturbed attempt is kept.
    """

    #: Settings of the machine that must not change during a measurement, by their names in journals.
    SAME: ClassVar[Mapping[str, str]] = {}

    kind: str
    name: str
    seed: int
    timeout: Annotated[float, Field(gt=0)] | None = None
    foreign: Annotated[float, Field(gt=0, le=1)] = 1.0
    attempts: Count = 1


class CountedSuite(Suite):
    """Parameters of a measurement with counters, read every ``interval`` seconds, and perf's ``events``."""

    SAME: ClassVar[Mapping[str, str]] = {"machine": "processor", "kernel": "kernel"}

    interval: Annotated[float, Field(ge=0.02, le=10)] = 0.2
    foreign: Annotated[float, Field(gt=0, le=1)] = 0.03
    attempts: Count = 3
    events: tuple[str, ...] = ()


def read_suite(kind: type[Kind], path: Path) -> Kind:
    """Return the suite in a YAML file as an instance of `kind`.

    InputError, with the key, if a value is missing or invalid, or a key is unknown or occurs twice; also if
    the file cannot be read or is not YAML.
    """
    try:
        return kind.model_validate(yaml_content(path))
    except ValidationError as exc:
        raise InputError(validation_message(exc), file=path) from exc


def require_unique(names: Sequence[str], what: str, path: Path) -> None:
    """Raise an InputError that names the file `path` if a name occurs twice; `what` is a noun for a name."""
    for name in names:
        if names.count(name) > 1:
            raise InputError("occurs twice", file=path, place=f'{what} "{name}"')


PROGRAMS = Path(__file__).parents[1] / "suites" / "programs"


def fill_command(template: str, place: str, /, **settings: object) -> list[str]:
    """Return the words of a suite's command: `template` with the names in braces replaced by `settings`.

    A setting with spaces gives several words. ``{run} MODULE NAME WORK`` runs a program of the directory
    `PROGRAMS` (``{programs}``) with the Python of the setting ``python`` (default: this one), and ``{site}``
    does so with installed libraries. InputError, at `place`, if a name is no setting, or braces or quotes are
    not closed.
    """
    quote = shlex.quote
    settings = {"python": f"{quote(sys.executable)} -s", "programs": quote(str(PROGRAMS)), **settings}
    run = f"{settings['python']} -S {quote(str(PROGRAMS / 'runner.py'))}"
    settings |= {"run": run, "site": f"env {quote('PYTHONPATH=' + sysconfig.get_path('purelib'))} {run}"}
    try:
        return shlex.split(template.format_map(settings))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as exc:
        problem = f"{exc} is not a setting" if isinstance(exc, KeyError) else exc
        expected = ", ".join(f"{{{name}}}" for name in settings)
        raise InputError(f"{problem}; expected {expected}", place=place) from exc


class Keyed(Protocol):
    """A dataclass that is an entry of a journal."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def journal_key(self) -> Hashable:
        """The key that identifies an entry."""


Entry = TypeVar("Entry", bound=Keyed)


@dataclass(frozen=True)
class TimedOutRun:
    """A run that was ended after ``limit`` seconds and has no entry: its key as JSON, and the reason."""

    run: str
    problem: str
    limit: float


@dataclass
class Journal(Generic[Entry]):
    """A file of ``entries``, one per measured run, and ``notes``, dataclasses with other information.

    Runs that exceeded their time limit are in ``invalid``.
    """

    path: Path
    entries: list[Entry]
    notes: list[Any] = field(default_factory=list)
    invalid: list[TimedOutRun] = field(default_factory=list)

    @classmethod
    def open_or_create(
        cls,
        path: Path,
        begun: Mapping[str, Any],
        entry: type[Entry],
        note: type | None = None,
        able: Mapping[str, Sequence[str]] | None = None,
    ) -> Self:
        """Read the journal at `path`, or create it for the measurement that `begun` describes.

        `begun` has the suite, and the settings of the machine that must not change. `able` lists the parts of
        the suite, by name, that this machine and this user can measure; they must not change either. `entry`
        and `note` are the types of records; a record is a note if it has exactly the keys of `note`.
        InputError if the file belongs to another suite or machine, was begun with other abilities, or has an
        invalid line.
        """
        if not path.exists():
            write_text(path, json.dumps({"suite": begun} | ({} if able is None else {"able": able})) + "\n")
        first, *records = _read_records(path) or [{}]
        if first.get("suite") != begun:
            raise InputError("was begun with another suite; name another directory or remove it", file=path)
        _require_able(able or {}, first.get("able", {}), path)
        journal = cls(path, [])
        lists: dict[type, list[Any]] = {entry: journal.entries, TimedOutRun: journal.invalid}
        if note:
            lists[note] = journal.notes
        kinds = {frozenset(field.name for field in fields(kind)): kind for kind in lists}
        adapters: dict[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in lists}
        for number, record in enumerate(records, 2):
            kind = kinds.get(frozenset(record), entry)
            try:
                lists[kind].append(adapters[kind].validate_python(record))
            except ValidationError as exc:
                raise InputError(validation_message(exc, "the line"), file=path, line=number) from exc
        return journal

    def add_entries(self, *entries: Entry) -> None:
        """Add `entries` and write them to the file."""
        self.entries += entries
        self._append_records(entries)

    def add_note(self, note: Any) -> None:
        """Add a note and write it to the file."""
        self.notes.append(note)
        self._append_records([note])

    def add_invalid(self, run: TimedOutRun) -> None:
        """Add a run that exceeded its time limit, and write it to the file."""
        self.invalid.append(run)
        self._append_records([run])

    def _append_records(self, records: Iterable[Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(asdict(record)) + "\n" for record in records))


def _read_records(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    # a line that was interrupted, for example by a power cut, has no line end
    complete = [line for line in lines if line.endswith("\n")]
    if len(complete) < len(lines):
        write_text(path, "".join(complete))
    records = []
    for number, line in enumerate(complete, 1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError as exc:
            raise InputError(f"is not JSON ({exc.msg})", file=path, line=number) from exc
        if not isinstance(record, dict):
            raise InputError(f"{line[:40]!r} is not a record", file=path, line=number)
        records.append(record)
    return records


def _require_able(able: Mapping[str, Sequence[str]], before: Any, path: Path) -> None:
    for what, now in able.items():
        then = before.get(what, now) if isinstance(before, dict) else now
        changed = [name for name in dict.fromkeys([*then, *now]) if (name in then) != (name in now)]
        if changed:
            change = "is not available here" if changed[0] in then else "was not available then"
            problem = f'was begun with other {what} ("{changed[0]}" {change})'
            raise InputError(f"{problem}; go on as then, or name another directory", file=path)


class Screen(Progress):
    """Notes and a progress bar on standard error."""

    def __init__(self) -> None:
        console, text = Console(stderr=True), TextColumn("{task.description}", markup=False)
        columns = text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        super().__init__(*columns, console=console, disable=not console.is_terminal)
        self._line = self.add_task("measuring", total=None)

    def print_note(self, note: str) -> None:
        """Print a note above the bar."""
        self.console.print(escape_invisible(note), markup=False, highlight=False, soft_wrap=True)

    def show_progress(self, done: int, of: int, what: str) -> None:
        """Show that `done` of `of` runs are measured, and the current run `what`."""
        self.update(self._line, completed=done, total=of, description=escape_invisible(what))


#: Seconds to wait before a disturbed run is repeated.
PATIENCE = 2.0


class Planned(Keyed, Protocol):
    """A planned run: its key in the journal, and its description on the screen."""

    @property
    def description(self) -> str:
        """The description of the run for people."""


Plan = TypeVar("Plan", bound=Planned)
Made = TypeVar("Made")
Element = TypeVar("Element")


@dataclass
class Session(Generic[Entry]):
    """A measurement that can be interrupted with Ctrl-C: entries are kept, and ``finished`` becomes False.

    Disturbed runs are repeated as by `repeat_while_disturbed`. ``unit`` is the plural of an entry's name in
    messages. A run that exceeds its time limit in ``limits`` is recorded as invalid, and the measurement goes
    on.
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
        self.screen.print_note(f"kept {len(self.journal.entries)} {self.unit}; start again to resume")
        return True

    @classmethod
    def begin_or_resume(
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
        """Begin or resume the measurement of a suite in `directory`, with the journal ``journal.jsonl``.

        `unit` is that of `Session`; `entry`, `note` and `able` are as for `Journal.open_or_create`.
        InputError if the journal belongs to another suite or machine, was begun with other abilities, or has
        an invalid line.
        """
        settings = machine.describe_machine()
        same = {name: settings[setting] for name, setting in suite.SAME.items()}
        # a measurement may be resumed with another time limit
        begun = suite.model_dump(mode="json", exclude={"timeout"}) | same
        journal = Journal.open_or_create(directory / "journal.jsonl", begun, entry, note, able)
        limits = TimeLimits(suite.timeout)
        return cls(journal, screen, unit, suite.foreign, suite.attempts, limits=limits)

    def write_results(
        self,
        path: Path,
        suite: Suite,
        tables: Tables,
        *,
        measured: int,
        failures: Sequence[str] = (),
        **settings: Any,
    ) -> bool:
        """Write the tables, and ``settings.json`` with `settings` and the runs over their time limit.

        Returns False after an early Ctrl-C. Otherwise, if `measured`, the number of measured values, is 0,
        InputError after writing; it names the file of the suite, `path`, the reasons in `failures` and those
        of runs over their limit.
        """
        directory = self.journal.path.parent
        tables.write(directory)
        measured_since = {json.dumps(entry.journal_key) for entry in self.journal.entries}
        invalid = [asdict(run) for run in self.journal.invalid if run.run not in measured_since]
        about = {"machine": machine.describe_machine(), "suite": suite.model_dump(mode="json")}
        write_json(directory / "settings.json", {**about, "invalid": invalid, **settings})
        if self.finished and not measured:
            reasons = {*failures, *(run.problem for run in self.journal.invalid)}
            raise InputError("; ".join(["nothing could be measured", *sorted(reasons)]), file=path)
        return self.finished

    def runs_to_measure(self, everything: Sequence[Plan]) -> list[Plan]:
        """Return the planned runs without an entry; invalid runs only if the time limit is higher now."""
        limit = self.limits.timeout or TimeLimits.LEAST
        done = {json.dumps(entry.journal_key) for entry in self.journal.entries}
        done |= {run.run for run in self.journal.invalid if run.limit >= limit}
        return [run for run in everything if json.dumps(run.journal_key) not in done]

    def measure_missing(
        self,
        everything: Sequence[Plan],
        make: Callable[[Sequence[Plan]], tuple[Sequence[Entry], float]],
        batch: int = 1,
    ) -> None:
        """Measure the runs that have no entry, and write each batch to the journal at once.

        `make` measures a batch of `batch` runs; it returns the entries and the share of the machine that
        others used. Disturbed batches are repeated as a whole. If `make` raises TimedOutError, all runs of
        the batch are recorded as invalid, and the next batch follows; other errors are raised.
        """
        missing_runs, total = self.runs_to_measure(everything), len(everything)
        for start in range(0, len(missing_runs), batch):
            runs = missing_runs[start : start + batch]
            progress = partial(self.screen.show_progress, total - len(missing_runs) + start, total)
            progress(runs[-1].description)
            attempt = partial(make, runs)
            try:
                entries, _ = repeat_while_disturbed(attempt, self.foreign, self.attempts, progress)
            except TimedOutError as exc:
                for run in runs:
                    self.screen.print_note(f"invalid: {run.description}: {exc}")
                    self.journal.add_invalid(TimedOutRun(json.dumps(run.journal_key), str(exc), exc.seconds))
            else:
                self.journal.add_entries(*entries)
        self.screen.show_progress(total, total, "done")


def shuffle_blocks(blocks: Iterable[Iterable[Element]], shuffle: random.Random) -> list[Element]:
    """Return the elements of all blocks, block by block, each block in random order by `shuffle`."""
    elements: list[Element] = []
    for block in map(list, blocks):
        shuffle.shuffle(block)
        elements += block
    return elements


def repeat_while_disturbed(
    make: Callable[[], tuple[Made, float]], foreign: float, attempts: float, progress: Callable[[str], None]
) -> tuple[Made, float]:
    """Call `make` until others use at most the share `foreign`; return the least disturbed result.

    `make` and this function return a result and the share of the machine that others used (0 to 1). `make` is
    called at most `attempts` times; before each further call, `progress` gets the reason for waiting, and
    2 s pass.
    """
    made, least = make()
    attempt = 1
    while least > foreign and attempt < attempts:
        progress(f"waiting: others use {least:.0%} of the machine")
        time.sleep(PATIENCE)
        repeated, share = make()
        if share < least:
            made, least = repeated, share
        attempt += 1
    return made, least
