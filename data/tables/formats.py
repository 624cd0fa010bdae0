"""The formats that a family's tables come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from data.errors import InputError
from data.tables.nearest import unknown

TablesType = TypeVar("TablesType")
Reader = TypeVar("Reader")
#: The format of tables that an earlier import wrote; every family has it.
TABLES = "tables"


@dataclass(frozen=True)
class Reading(Generic[TablesType]):
    """Tables as read, what was skipped to read them, and what had to be assumed."""

    tables: TablesType
    skipped: tuple[InputError, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format(Generic[Reader]):
    """A format.

    Attributes
    ----------
    read : callable
        Reads a source.
    sign : str
        A pattern of what a directory of this format holds.
    suffix : str
        What the name of a single file of this format ends with, where it may be one.
    """

    read: Reader
    sign: str
    suffix: str | None = None

    def recognises(self, path: Path) -> bool:
        """Tell whether `path` looks like this format."""
        return path.suffix == self.suffix or any(path.glob(self.sign))


def chosen(formats: Mapping[str, Format[Reader]], name: str, paths: Sequence[Path]) -> Reader:
    """Return what reads a format.

    Raises
    ------
    InputError
        If the format is unknown, or a path is missing.
    """
    if name not in formats:
        raise InputError(f'format "{name}" {unknown(name, formats)}')
    for path in paths:
        if not path.exists():
            raise InputError("no such file or directory", file=path)
    return formats[name].read


def holds(formats: Mapping[str, Format[Reader]], name: str, path: Path) -> bool:
    """Tell whether `path`, said to be of the format `name`, is one of these: all families have ``tables``."""
    return formats[name].recognises(path) if name == TABLES else name in formats
