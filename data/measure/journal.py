"""What a measurement has measured so far: one JSON line each, kept at once, read again to resume."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from data.errors import InputError
from data.tables.files import write_text
from data.tables.given import said


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
        """Read the journal at `path`, or begin one for what `begun` describes.

        Parameters
        ----------
        path : Path
        begun : mapping
            The suite, and what of the machine must be the same all the time.
        entry, note : type
            What lines are read into: a note if they have just its keys.
        able : mapping, optional
            By name what this machine and this user can do of the suite: it must be the same, too, or entries
            would differ by who measured them. Older journals don't have it.

        Raises
        ------
        InputError
            If the file belongs to another suite or machine, was begun by who can do other things, or has a
            line that is no record.
        """
        if not path.exists():
            write_text(path, json.dumps({"suite": begun} | ({} if able is None else {"able": able})) + "\n")
        first, *records = _records(path) or [{}]
        if first.get("suite") != begun:
            raise InputError("was begun with another suite; name another directory or remove it", file=path)
        _require_able(able or {}, first.get("able", {}), path)
        keys = {one.name for one in fields(note)} if note else set()
        an_entry = TypeAdapter(entry)
        a_note: TypeAdapter[Any] = TypeAdapter(note or entry)
        an_invalid = TypeAdapter(TimedOutRun)
        journal = cls(path, [])
        for number, record in enumerate(records, 2):
            try:
                if record.keys() == {"run", "problem", "limit"}:
                    journal.invalid.append(an_invalid.validate_python(record))
                elif record.keys() == keys:
                    journal.notes.append(a_note.validate_python(record))
                else:
                    journal.entries.append(an_entry.validate_python(record))
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
