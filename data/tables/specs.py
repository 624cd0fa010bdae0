"""Tables by their specs: what their columns are, how they are read from Parquet, and written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import pandas as pd

from data.tables import parquet
from data.tables.files import replacing

#: Rows as they come: records, a frame, or nothing.
Rows: TypeAlias = Sequence[dict[str, Any]] | pd.DataFrame | None


def as_number(_: str) -> str:
    """Return the type of further columns that are all measurements."""
    return "float64"


@dataclass(frozen=True)
class Spec(parquet.Wanted):
    """One table: what is read of its file, and what else holds.

    Attributes
    ----------
    dtypes, optional, unwanted, further, blank
        As in `data.tables.parquet.Wanted`.
    unique : tuple of str
        What a row is known by: columns that no two rows have in common.
    words : mapping of str to str
        How messages call columns of `unique` that they don't call by name.
    file : str
        The name of its Parquet file, without the suffix, where it is not that of the table.
    may_lack : bool
        Whether a source may lack the whole table.
    """

    unique: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    may_lack: bool = False

    def read(self, path: Path) -> pd.DataFrame:
        """Read the table from a Parquet file; one that a source lacks is empty.

        Raises
        ------
        InputError
            As of `data.tables.parquet.read`.
        """
        if self.may_lack and not path.exists():
            return typed(None, self.dtypes)
        return typed(parquet.read(path, self), self.dtypes)

    def place(self, row: Mapping[str, Any]) -> str:
        """Name a row by what it is known by."""
        known = {self.words.get(name, name): row[name] for name in self.unique}
        return " ".join(
            f"{name} {shown(value)}" for name, value in known.items() if not pd.isna(value) and value != ""
        )


def shown(value: Any) -> str:
    """Write a value as messages do: text in quotes, numbers briefly."""
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Tables:
    """Tables that belong together; a family names its own and gives each a `Spec`, in their order."""

    SPECS: ClassVar[Mapping[str, Spec]]
    COMPRESSION: ClassVar[str] = "zstd"

    @classmethod
    def of(cls, frames: Mapping[str, pd.DataFrame]) -> Self:
        """Make the tables from frames that have their types; a family fills here what a source left out."""
        return cls(**frames)

    @classmethod
    def of_rows(cls, *rows: Rows) -> Self:
        """Make the tables from rows, in their order; a column that no row has is filled as `read` does."""
        given = [*rows, *[None] * (len(cls.SPECS) - len(rows))]
        specs = zip(cls.SPECS.items(), given, strict=True)
        return cls.of({name: typed(table, spec.dtypes) for (name, spec), table in specs})

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read the Parquet files of `directory`.

        Raises
        ------
        InputError
            If a file is missing, is no Parquet file, lacks a column, or a value is of another type.
        """
        paths = {name: directory / f"{spec.file or name}.parquet" for name, spec in cls.SPECS.items()}
        return cls.of({name: cls.SPECS[name].read(path) for name, path in paths.items()})

    def write(self, directory: Path) -> None:
        """Write the tables to `directory` as Parquet, each in one piece."""
        for name, spec in self.SPECS.items():
            with replacing(directory / f"{spec.file or name}.parquet") as path:
                getattr(self, name).to_parquet(path, index=False, compression=self.COMPRESSION)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join the tables of several sources; a further column that a source lacks is missing there."""
        if len(parts) <= 1:
            return parts[0] if parts else cls.of_rows()
        tables = {name: [getattr(part, name) for part in parts] for name in cls.SPECS}
        rows = {
            name: pd.concat([table for table in found if len(table)] or found[:1], ignore_index=True)
            for name, found in tables.items()
        }
        return cls.of({name: typed(table, cls.SPECS[name].dtypes) for name, table in rows.items()})


def typed(rows: Rows, dtypes: Mapping[str, str]) -> pd.DataFrame:
    """Return `rows` with the columns of `dtypes` first, with those types, and others after them."""
    frame = pd.DataFrame([] if rows is None else rows)
    others = [column for column in frame.columns if column not in dtypes]
    return frame.reindex(columns=[*dtypes, *others]).astype(dict(dtypes))


def read_table(
    path: Path,
    dtypes: Mapping[str, str],
    optional: Collection[str] = (),
    further: Callable[[str], str] | None = None,
) -> pd.DataFrame:
    """Read one Parquet table and give its columns their types; for the rest see `data.tables.parquet.Wanted`.

    Raises
    ------
    InputError
        As of `data.tables.parquet.read`.
    """
    return Spec(dtypes, optional, further=further).read(path)
