"""Tables defined by specs: their columns and rules, and how to read, check and write them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from data.deferred import pd
from data.errors import InputError
from data.tables.files import Compression, write_tables
from data.tables.problems import Problems


@dataclass(frozen=True)
class Rule:
    """A rule for the values of a column.

    ``holds`` takes the values that are not missing and returns a mask, true for valid ones; ``expected``
    describes valid values in errors; ``gaps`` is whether values may be missing.
    """

    column: str
    expected: str = "there"
    holds: Callable[[pd.Series], pd.Series] = lambda values: values.notna()
    gaps: bool = False


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def positive_rule(column: str, *, gaps: bool = False) -> Rule:
    """Return the rule that a number in `column` is finite and above 0; with `gaps`, it may be missing."""
    return Rule(column, "above 0 and finite", lambda numbers: (numbers > 0) & np.isfinite(numbers), gaps)


def name_rules(*columns: str) -> tuple[Rule, ...]:
    """Return a rule for each of `columns`, in this order: its texts are neither missing nor empty."""
    return tuple(Rule(column, "a name", lambda names: names != "") for column in columns)


def one_of(column: str, *values: str, gaps: bool = False) -> Rule:
    """Return the rule that a text in `column` is one of `values`; with `gaps`, the text may be missing."""
    return Rule(column, " or ".join(f'"{value}"' for value in values), lambda texts: texts.isin(values), gaps)


#: Rows of a table: records, a frame, or None for no rows.
Rows: TypeAlias = "Sequence[dict[str, Any]] | pd.DataFrame | None"


def as_number(_: str) -> str:
    """Return "float64", the type of additional columns (whatever their name) that are all measurements."""
    return "float64"


@dataclass(frozen=True)
class Spec:
    """The definition of one table: its columns in the file, and rules for its rows.

    ``dtypes`` are the types by column; columns in ``optional`` may be absent, those in ``unwanted`` are
    treated as absent. ``other_dtype`` returns the type of any other column by name; without it, other columns
    are read without conversion, lists, structs, maps and text that is not UTF-8 are left out, and durations
    and times of day are refused. ``blank`` is text that represents a missing value.

    The columns ``unique`` identify a row; ``words`` are other names of them in messages. ``file`` is the name
    of the Parquet file without suffix, by default that of the table. With ``may_lack``, the table may be
    absent from a source. ``rules`` are checked in their order.
    """

    dtypes: Mapping[str, str]
    optional: Collection[str] = ()
    unwanted: Collection[str] = ()
    other_dtype: Callable[[str], str] | None = None
    blank: Collection[str] = ()
    unique: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    may_lack: bool = False
    rules: Sequence[Rule] = ()

    def read(self, path: Path) -> pd.DataFrame:
        """Return the table in a Parquet file, with the columns of `dtypes` first, in their types.

        Absent optional columns are filled with missing values. InputError if the file is missing or not
        Parquet, another column is missing, a column is repeated or holds durations or times of day, a value
        cannot be converted, or is missing in a column of the type int64 or bool.
        """
        if self.may_lack and not path.exists():
            return with_dtypes(None, self.dtypes)
        if not path.is_file():
            raise InputError("no such file; expected a Parquet table", file=path)
        # pyarrow, which only Parquet needs, is in an extra
        from data.tables.parquet import read_columns

        absent = {"optional": self.optional, "unwanted": self.unwanted}
        columns = read_columns(path, self.dtypes, self.other_dtype, self.blank, **absent)
        return with_dtypes(columns, self.dtypes)

    def _describe_row(self, row: Mapping[str, Any]) -> str:
        return " ".join(
            f"{self.words.get(name, name)} {_format_value(row[name])}"
            for name in self.unique
            if not pd.isna(row[name]) and row[name] != ""
        )

    def _broken_rules(self, table: pd.DataFrame) -> dict[int, tuple[str, str]]:
        """Return by wrong row its first problem, and the column if the row has no value there, else ""."""
        problems: dict[int, tuple[str, str]] = {}
        for rule in self.rules:
            values = table[rule.column]
            present = values.notna().to_numpy(bool)
            wrong = ~present & (not rule.gaps)
            wrong[present] = ~rule.holds(values[present]).to_numpy(bool)
            for row in np.flatnonzero(wrong).tolist():
                value = values.iloc[row]
                if pd.isna(value) or value == "":
                    problem, empty = f"has no {rule.column}", rule.column
                else:
                    problem, empty = f"{rule.column}={_format_value(value)} must be {rule.expected}", ""
                problems.setdefault(row, (problem, empty))
        return problems

    def drop_invalid_rows(self, table: pd.DataFrame, name: str, problems: Problems) -> pd.DataFrame:
        """Return the table without wrong rows, renumbered; each wrong row is added once to `problems`.

        A row is wrong if it breaks a rule, or if an earlier valid row has equal values in the columns
        `unique`. `name` is that of the table for messages; it must have the columns of all rules.
        """
        rows, keys = table.reset_index(drop=True), list(self.unique)
        wrong = self._broken_rules(rows)
        for row, (problem, missing) in wrong.items():
            has_keys = keys and missing not in keys
            place = self._describe_row(rows.loc[row, keys]) if has_keys else f"{name} row {row}"
            problems.add(InputError(problem, place=place))
        valid = rows.drop(index=list(wrong))
        repeated = valid.duplicated(keys).to_numpy() if keys else np.zeros(len(valid), bool)
        for row in valid.index[repeated]:
            problems.add(InputError("occurs twice", place=self._describe_row(valid.loc[row, keys])))
        return valid[~repeated].reset_index(drop=True)


def text_dtypes(*columns: str) -> dict[str, str]:
    """Return the type "str" by column, for each of `columns`."""
    return dict.fromkeys(columns, "str")


@dataclass(frozen=True)
class Tables:
    """Tables that belong together; a family's subclass has them as fields, with a `Spec` for each."""

    SPECS: ClassVar[Mapping[str, Spec]]
    COMPRESSION: ClassVar[Compression] = "zstd"

    @classmethod
    def from_frames(cls, frames: Mapping[str, pd.DataFrame]) -> Self:
        """Return the tables from typed frames; families override this to fill in missing data."""
        return cls(**frames)

    @classmethod
    def from_rows(cls, *rows: Rows) -> Self:
        """Return the tables from `rows`, one per table of `SPECS`; those without an argument are empty."""
        tables = zip_longest(cls.SPECS.items(), rows)
        return cls.from_frames({name: with_dtypes(table, spec.dtypes) for (name, spec), table in tables})

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Return the tables in Parquet files of `directory`, named in the specs; see `Spec.read`."""
        paths = {name: directory / f"{spec.file or name}.parquet" for name, spec in cls.SPECS.items()}
        return cls.from_frames({name: cls.SPECS[name].read(path) for name, path in paths.items()})

    def write(self, directory: Path) -> None:
        """Write the tables to `directory` (created if missing) as Parquet, each file atomically."""
        import pyarrow as pa  # noqa: F401 - without it, pandas raises an error that does not name the package

        files = {spec.file or name: getattr(self, name) for name, spec in self.SPECS.items()}
        write_tables(directory, files, self.COMPRESSION)

    def describe_counts(self) -> str:
        """Return a text with the number of rows of each table, such as "12 runs, 3 metrics"."""
        return ", ".join(f"{len(getattr(self, name))} {name}" for name in self.SPECS)

    def explanation_lines(self) -> list[str]:
        """Return lines of explanation for readers of the tables; empty unless a family overrides it."""
        return []

    def table_spec(self, name: str) -> Spec:
        """Return the spec of a table; families override this for rules that depend on its columns."""
        return self.SPECS[name]

    def drop_invalid_rows(self, name: str, problems: Problems) -> pd.DataFrame:
        """Return the table `name` without wrong rows, which are added to `problems` (see `Spec`)."""
        return self.table_spec(name).drop_invalid_rows(getattr(self, name), name, problems)

    def without_flaws(self, problems: Problems) -> Self:
        """Return the tables without wrong rows, which are added to `problems`."""
        return replace(self, **{name: self.drop_invalid_rows(name, problems) for name in self.SPECS})

    @classmethod
    def join_tables(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all `parts` as one object; absent columns are filled with missing values."""
        if len(parts) <= 1:
            return parts[0] if parts else cls.from_rows()
        joined = {}
        for name, spec in cls.SPECS.items():
            tables = [getattr(part, name) for part in parts]
            rows = pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)
            joined[name] = with_dtypes(rows, spec.dtypes)
        return cls.from_frames(joined)


def with_dtypes(rows: Rows, dtypes: Mapping[str, str]) -> pd.DataFrame:
    """Return `rows` as a frame: the columns of `dtypes` first, with their types, then all others, unchanged.

    Columns that `rows` does not have are filled with missing values; None gives a frame without rows. A frame
    keeps its index. ValueError or TypeError if a value cannot be converted, also a missing one to int64. In
    a column of the type bool, NaN becomes True and None becomes False.
    """
    frame = pd.DataFrame([] if rows is None else rows)
    others = frame.loc[:, ~frame.columns.isin([*dtypes])]
    converted = frame.reindex(columns=[*dtypes]).astype(dict(dtypes))
    # astype on some of many columns takes as long as on all of them
    return pd.concat([converted, others], axis="columns") if others.shape[1] else converted


def read_table(
    path: Path, dtypes: Mapping[str, str], other_dtype: Callable[[str], str] | None = None
) -> pd.DataFrame:
    """Return a Parquet table: the columns of `dtypes` with their types, then all others; see `Spec.read`."""
    return Spec(dtypes, other_dtype=other_dtype).read(path)
