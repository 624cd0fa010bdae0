"""The formats that a family's tables come in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from data.errors import InputError
from data.tables.problems import Problems, unknown

if TYPE_CHECKING:
    from data.tables.specs import Tables

Read = TypeVar("Read")
TablesType = TypeVar("TablesType", bound="Tables")
Reader = TypeVar("Reader")
#: The format of tables that an earlier import wrote; every family has it.
TABLES = "tables"


@dataclass(frozen=True)
class Reading(Generic[Read]):
    """Tables as read, what was skipped to read them, and what had to be assumed."""

    tables: Read
    skipped: tuple[InputError, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format(Generic[Reader]):
    """A format: its reader, and how it is recognised.

    ``sign`` is a pattern of what a directory of this format holds; ``suffix`` the end of the name of a
    single file, where it may be one.
    """

    read: Reader
    sign: str
    suffix: str | None = None

    def recognises(self, path: Path) -> bool:
        """Tell whether `path` looks like this format."""
        return path.suffix == self.suffix or any(path.glob(self.sign))


def chosen(formats: Mapping[str, Format[Reader]], name: str, paths: Sequence[Path]) -> Reader:
    """Return the reader of a format; InputError if the format is unknown, or a path is missing."""
    if name not in formats:
        raise InputError(f'format "{name}" {unknown(name, formats)}')
    for path in paths:
        if not path.exists():
            raise InputError("no such file or directory", file=path)
    return formats[name].read


@dataclass(frozen=True)
class Sources(Generic[TablesType]):
    """How a family reads sources that are read whole.

    ``needed`` has, by a word for messages, what lists the rows that tables must have some of.
    """

    formats: Mapping[str, Format[Callable[[Path], TablesType]]]
    tables: type[TablesType]
    needed: Mapping[str, Callable[[TablesType], Sized]]

    def read(self, name: str, paths: Sequence[Path], *, keep_going: bool = False) -> Reading[TablesType]:
        """Read and join all of `paths` in the format `name`.

        With `keep_going`, leave out and report wrong rows.

        InputError if the format is unknown, a path is missing, a source cannot be read, or nothing is there
        of what is `needed`; and, unless `keep_going`, at the first wrong row.
        """
        reader, problems = chosen(self.formats, name, paths), Problems(keep_going)
        joined = self.tables.joined([reader(path) for path in paths])
        return self.reading(joined.without_flaws(problems), paths[0], problems)

    def reading(self, tables: TablesType, source: Path | str, problems: Problems) -> Reading[TablesType]:
        """Return what was read of `source`; InputError if nothing is there of what is `needed`."""
        for what, listed in self.needed.items():
            if not len(listed(tables)):
                raise InputError(f"holds no {what}", file=source)
        return Reading(tables, tuple(problems.skipped))
