"""Input formats of a model family's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from data.errors import InputError
from data.tables.problems import Problems, unknown_message

if TYPE_CHECKING:
    from data.tables.specs import Tables

Read = TypeVar("Read")
TablesType = TypeVar("TablesType", bound="Tables")
Reader = TypeVar("Reader")
#: The format of tables written by an earlier import, common to all families.
TABLES = "tables"


@dataclass(frozen=True)
class Reading(Generic[Read]):
    """The result of reading a source: its tables, the errors of skipped parts, and notes on assumptions."""

    tables: Read
    skipped: tuple[InputError, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format(Generic[Reader]):
    """A format: its reader, a pattern of a file in its directories, and the suffix if it may be a file."""

    read: Reader
    sign: str
    suffix: str | None = None

    def matches_path(self, path: Path) -> bool:
        """Return whether `path` has this format's suffix, or is a directory with a file like ``sign``."""
        return path.suffix == self.suffix or any(path.glob(self.sign))


def choose_reader(formats: Mapping[str, Format[Reader]], name: str, paths: Sequence[Path]) -> Reader:
    """Return the function that reads the format `name`; InputError if unknown or a path is missing."""
    if name not in formats:
        raise InputError(f'format "{name}" {unknown_message(name, formats)}')
    for path in paths:
        if not path.exists():
            raise InputError("no such file or directory", file=path)
    return formats[name].read


@dataclass(frozen=True)
class Sources(Generic[TablesType]):
    """Reads the sources of a family that are read as a whole.

    ``needed`` maps a noun for messages to a function that lists rows of the tables; at least one is
    required.
    """

    formats: Mapping[str, Format[Callable[[Path], TablesType]]]
    tables: type[TablesType]
    needed: Mapping[str, Callable[[TablesType], Sized]]

    def read(self, name: str, paths: Sequence[Path], *, keep_going: bool = False) -> Reading[TablesType]:
        """Return the joined tables of all `paths`, in the format `name`, with the errors of skipped rows.

        InputError if the format is unknown, a path is missing, a source cannot be read, or no rows of
        `needed` are left; and, unless `keep_going`, at the first wrong row.
        """
        reader, problems = choose_reader(self.formats, name, paths), Problems(keep_going)
        joined = self.tables.join_tables([reader(path) for path in paths])
        return self.make_reading(joined.without_flaws(problems), paths[0], problems)

    def make_reading(self, tables: TablesType, source: Path | str, problems: Problems) -> Reading[TablesType]:
        """Return `tables` and the skipped errors of `problems`; InputError without rows of `needed`."""
        for what, listed in self.needed.items():
            if not len(listed(tables)):
                raise InputError(f"holds no {what}", file=source)
        return Reading(tables, tuple(problems.skipped))
