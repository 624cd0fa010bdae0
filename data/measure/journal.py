"""What a measurement has measured so far: one JSON line each, kept at once, read again to resume."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from data.errors import InputError
from data.tables.files import write_text


@dataclass(frozen=True)
class Entry:
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


class Journal:
    """The file that `entries` and `works` (units of work by operation) live in.

    Raises
    ------
    InputError
        From `open`, if the file belongs to another suite or has a line that is no entry.
    """

    def __init__(self, path: Path, entries: list[Entry], works: dict[str, int]) -> None:
        self.path = path
        self.entries = entries
        self.works = works

    @classmethod
    def open(cls, path: Path, suite: dict[str, Any]) -> Journal:
        """Read the journal at `path`, or begin one for `suite`."""
        records = resume(path, suite)
        works = {record["operation"]: record["work"] for record in records if "work" in record}
        entries = [Entry(**record) for record in records if "work" not in record]
        return cls(path, entries, works)

    def add(self, entries: list[Entry]) -> None:
        """Keep `entries`."""
        self.entries += entries
        append(self.path, [asdict(entry) for entry in entries])

    def calibrate(self, operation: str, work: int) -> None:
        """Keep the units of work that `operation`'s baseline does."""
        self.works[operation] = work
        append(self.path, [{"operation": operation, "work": work}])


def resume(
    path: Path, suite: dict[str, Any], able: Mapping[str, Sequence[str]] | None = None
) -> list[dict[str, Any]]:
    """Return the records of the journal at `path`, or begin one for `suite`.

    Parameters
    ----------
    path : Path
    suite : dict
        What is measured; it must be the same all the time.
    able : mapping, optional
        By name what this machine and this user can do of it, kept with the suite: it must be the same, too,
        or runs would differ by who measured them. Older journals don't have it.

    Raises
    ------
    InputError
        If the file belongs to another suite, was begun by who can do other things, or has a line that is no
        record.
    """
    if not path.exists():
        begin = {"suite": suite} | ({} if able is None else {"able": able})
        write_text(path, json.dumps(begin) + "\n")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    # A line that was being written when the power went has no end.
    whole = [line for line in lines if line.endswith("\n")]
    if len(whole) < len(lines):
        write_text(path, "".join(whole))
    records = [_record(line, path, number) for number, line in enumerate(whole, 1)]
    if not records or records[0].get("suite") != suite:
        raise InputError("was begun with another suite; name another directory or remove it", file=path)
    _require_able(able or {}, records[0].get("able", {}), path)
    return records[1:]


def _require_able(able: Mapping[str, Sequence[str]], before: Any, path: Path) -> None:
    for what, now in able.items():
        then = before.get(what, now) if isinstance(before, dict) else now
        changed = [name for name in dict.fromkeys([*then, *now]) if (name in then) != (name in now)]
        if changed:
            told = "is not to be had here" if changed[0] in then else "was not to be had then"
            told = f'was begun with other {what} ("{changed[0]}" {told})'
            raise InputError(f"{told}; go on as then, or name another directory", file=path)


def append(path: Path, records: list[dict[str, Any]]) -> None:
    """Add `records` to the journal at `path`."""
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(record) + "\n" for record in records))


def _record(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as exc:
        raise InputError(f"is not JSON ({exc.msg})", file=path, line=number) from exc
    if not isinstance(record, dict):
        raise InputError(f"{line[:40]!r} is no record", file=path, line=number)
    return record
