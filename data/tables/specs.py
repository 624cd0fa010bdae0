"""Tables by their specs: what their columns are, how they are read from Parquet, and written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import pandas as pd

from data.errors import InputError
from data.tables import parquet
from data.tables.files import replacing
from data.tables.problems import Problems


@dataclass(frozen=True)
class Rule:
    """A rule for the values of a column.

    ``told`` describes right values; ``holds`` marks them among those that are there; ``gaps``: whether
    values may be missing.
    """

    column: str
    told: str = "there"
    holds: Callable[[pd.Series], pd.Series] = pd.Series.notna
    gaps: bool = False


def broken(
    table: pd.DataFrame, rules: Sequence[Rule], dtypes: Mapping[str, str], name: str
) -> dict[int, tuple[str, str]]:
    """Return by row, counted from 0, the first rule that it breaks, and the column that has no value.

    Raises
    ------
    InputError
        If a column is missing or has another type; it calls the table `name`.
    """
    for column in dict.fromkeys(rule.column for rule in rules):
        if column not in table:
            raise InputError(f"the column {column} must be there", place=name)
        dtype, expected = str(table[column].dtype), dtypes.get(column)
        if expected and dtype.casefold() != expected.casefold():
            raise InputError(f"the column {column} holds {dtype}; expected {expected}", place=name)
    found: dict[int, tuple[str, str]] = {}
    for rule in rules:
        values = table[rule.column]
        known = values.notna().to_numpy(bool)
        wrong = ~known & (not rule.gaps)
        wrong[known] = ~rule.holds(values[known]).to_numpy(bool)
        for row in np.flatnonzero(wrong):
            value = values.iloc[row]
            empty = pd.isna(value) or value == ""
            told = f"has no {rule.column}" if empty else f"{rule.column}={shown(value)} must be {rule.told}"
            found.setdefault(int(row), (told, rule.column if empty else ""))
    return found


def shown(value: Any) -> str:
    """Write a value as messages do: text in quotes, numbers briefly."""
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def positive(column: str, *, gaps: bool = False) -> Rule:
    """Return the rule of a number above 0 and finite."""
    return Rule(column, "above 0 and finite", lambda found: (found > 0) & np.isfinite(found), gaps)


def named(*columns: str) -> tuple[Rule, ...]:
    """Return the rules of columns of text that is never missing or empty."""
    return tuple(Rule(column, "a name", lambda found: found != "") for column in columns)


def one_of(column: str, *values: str, gaps: bool = False) -> Rule:
    """Return the rule of text that is one of `values`."""
    return Rule(column, " or ".join(f'"{value}"' for value in values), lambda found: found.isin(values), gaps)


#: Rows as they come: records, a frame, or nothing.
Rows: TypeAlias = Sequence[dict[str, Any]] | pd.DataFrame | None


def as_number(_: str) -> str:
    """Return the type of further columns that are all measurements."""
    return "float64"


@dataclass(frozen=True)
class Spec(parquet.WantedColumns):
    """One table: what is read of its file, and what else holds.

    Attributes
    ----------
    dtypes, optional, unwanted, further, blank
        As in `data.tables.parquet.WantedColumns`.
    unique : tuple of str
        What a row is known by: columns that no two rows have in common.
    words : mapping of str to str
        How messages call columns of `unique` that they don't call by name.
    file : str
        The name of its Parquet file, without the suffix, where it is not that of the table.
    may_lack : bool
        Whether a source may lack the whole table.
    rules : sequence of Rule
        What its values must be, in the order in which they are checked.
    """

    unique: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    may_lack: bool = False
    rules: Sequence[Rule] = ()

    def read(self, path: Path) -> pd.DataFrame:
        """Read the table from a Parquet file; one that a source may lack is empty.

        See `data.tables.parquet.read`.
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

    def sound(self, table: pd.DataFrame, name: str, problems: Problems) -> pd.DataFrame:
        """Return the table `name` without wrong rows, and report each of these once to `problems`.

        A row is wrong by the first rule that it breaks, or because it repeats another one in the columns
        `unique`. Of repeated rows the first that is right otherwise stays. InputError at the first, unless
        ``problems.keep_going``; and if a column is missing or of another type.
        """
        rows, known = table.reset_index(drop=True), list(self.unique)
        wrong = broken(rows, self.rules, self.dtypes, name) if self.rules else {}
        for row, (told, gap) in wrong.items():
            named = known and gap not in known
            place = self.place(rows.loc[row, known]) if named else f"{name} row {row}"
            problems.add(InputError(told, place=place))
        left = rows.drop(index=list(wrong))
        repeated = left.duplicated(known).to_numpy() if known else np.zeros(len(left), bool)
        for row in left.index[repeated]:
            problems.add(InputError("stands twice", place=self.place(left.loc[row, known])))
        return left[~repeated].reset_index(drop=True)


def text(*columns: str) -> dict[str, str]:
    """Return the types of columns of text."""
    return dict.fromkeys(columns, "str")


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
        """Read the Parquet files of `directory`; see `data.tables.parquet.read`."""
        paths = {name: directory / f"{spec.file or name}.parquet" for name, spec in cls.SPECS.items()}
        return cls.of({name: cls.SPECS[name].read(path) for name, path in paths.items()})

    def write(self, directory: Path) -> None:
        """Write the tables to `directory` as Parquet, each in one piece."""
        for name, spec in self.SPECS.items():
            with replacing(directory / f"{spec.file or name}.parquet") as path:
                getattr(self, name).to_parquet(path, index=False, compression=self.COMPRESSION)

    def counted(self) -> str:
        """Say how much is in the tables."""
        return ", ".join(f"{len(getattr(self, name))} {name}" for name in self.SPECS)

    def explained(self) -> list[str]:
        """Tell what a reader of the tables should know, a line each; nothing where they are not decisions."""
        return []

    def spec(self, name: str) -> Spec:
        """Return what holds of one of the tables; a family adds what depends on its columns."""
        return self.SPECS[name]

    def sound(self, name: str, problems: Problems) -> pd.DataFrame:
        """Return one of the tables without what is wrong in it; see `Spec.sound`."""
        return self.spec(name).sound(getattr(self, name), name, problems)

    def without_flaws(self, problems: Problems) -> Self:
        """Return the tables without unusable rows, and report these to `problems`.

        InputError at the first of them, unless ``problems.keep_going``.
        """
        return replace(self, **{name: self.sound(name, problems) for name in self.SPECS})

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
    others = frame.loc[:, ~frame.columns.isin([*dtypes])]
    known = frame.reindex(columns=[*dtypes]).astype(dict(dtypes))
    # to give a type to some columns of many takes as long as to all
    return pd.concat([known, others], axis="columns") if others.shape[1] else known


def read_table(
    path: Path,
    dtypes: Mapping[str, str],
    optional: Collection[str] = (),
    further: Callable[[str], str] | None = None,
) -> pd.DataFrame:
    """Read one Parquet table and give its columns their types; see `data.tables.parquet.WantedColumns`."""
    return Spec(dtypes, optional, further=further).read(path)
