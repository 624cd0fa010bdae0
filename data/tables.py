"""The three tables that every source of comparisons is read into."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.errors import InputError
from data.files import replacing

RESULT_DTYPES = {
    "series_id": "str",
    "group": "str",
    "benchmark": "str",
    "operation": "str",
    "machine": "str",
    "unit": "str",
    "better": "str",
    "threads": "int64",
    "version": "str",
    "order": "int64",
    "measured_at": "datetime64[us, UTC]",
    "value": "float64",
    "stat": "str",
}
COMPARISON_DTYPES = {
    "comparison_id": "str",
    "benchmark": "str",
    "operation": "str",
    "machine": "str",
    "baseline_from": "int64",
    "baseline_to": "int64",
    "target_from": "int64",
    "target_to": "int64",
    "source": "str",
}
LABEL_DTYPES = {
    "comparison_id": "str",
    "status": "str",
    "labelled_by": "str",
    "labelled_at": "datetime64[us, UTC]",
}
STATS = ("min", "q1", "median", "q3", "max", "mean", "stdev")
FIVE_NUMBERS = STATS[:5]
#: So many columns are named in one line.
SHOWN = 8


@dataclass(frozen=True)
class ComparisonTables:
    """Results, comparisons and labels, as the contracts of the design name them.

    Attributes
    ----------
    results : DataFrame
        One row per sample (``stat`` missing) or per summary statistic (``stat`` one of `STATS`),
        with the columns of `RESULT_DTYPES`, and any further columns.
    comparisons : DataFrame
        One row per comparison, with the columns of `COMPARISON_DTYPES`. ``source`` is ``file:line``,
        for messages.
    labels : DataFrame
        One row per person's verdict, with the columns of `LABEL_DTYPES`.
    """

    results: pd.DataFrame
    comparisons: pd.DataFrame
    labels: pd.DataFrame

    @classmethod
    def of_rows(cls, results: list[dict], comparisons: list[dict], labels: list[dict]) -> ComparisonTables:  # type: ignore[type-arg]
        """Make the tables from plain rows; a column that no row has is filled with missing values."""
        return cls(
            typed(pd.DataFrame(results), RESULT_DTYPES),
            typed(pd.DataFrame(comparisons), COMPARISON_DTYPES),
            typed(pd.DataFrame(labels), LABEL_DTYPES),
        )

    @classmethod
    def read(cls, directory: Path) -> ComparisonTables:
        """Read the three Parquet files of `directory`.

        Raises
        ------
        InputError
            If a file is missing, is no Parquet file, or lacks a column.
        """
        return cls(
            read_table(directory / "results.parquet", RESULT_DTYPES),
            read_table(directory / "comparisons.parquet", COMPARISON_DTYPES),
            read_table(directory / "labels.parquet", LABEL_DTYPES),
        )

    def write(self, directory: Path) -> None:
        """Write the three tables to `directory` as Parquet, each in one piece."""
        for name in ("results", "comparisons", "labels"):
            with replacing(directory / f"{name}.parquet") as path:
                getattr(self, name).to_parquet(path, index=False, compression="zstd")


#: Columns that a source may leave out.
OPTIONAL = frozenset({"stat", "source", "measured_at", "version", "labelled_by", "labelled_at"})


def typed(frame: pd.DataFrame, dtypes: dict[str, str]) -> pd.DataFrame:
    """Give `frame` the columns of `dtypes` first, with those types, and its other columns after them."""
    others = [column for column in frame.columns if column not in dtypes]
    ordered = frame.reindex(columns=[*dtypes, *others])
    return ordered.astype(dtypes)


def read_table(
    path: Path,
    dtypes: dict[str, str],
    optional: Collection[str] = OPTIONAL,
    unwanted: Collection[str] = (),
) -> pd.DataFrame:
    """Read one Parquet table and give its columns their types.

    Those in `optional` may be absent; those in `unwanted` are taken as if they were.

    Raises
    ------
    InputError
        If the file is missing, is no Parquet file, lacks a column, or a column has another type.
    """
    if not path.is_file():
        raise InputError("no such file; expected a Parquet table", file=path)
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as exc:
        raise InputError(f"is not a readable Parquet file ({exc})", file=path) from exc
    missing = [column for column in dtypes if column not in frame.columns and column not in optional]
    if missing:
        found = [str(column) for column in frame.columns]
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        told = f"lacks the column {missing[0]!r}; found {', '.join(found[:SHOWN]) or 'none'}{more}"
        raise InputError(told, file=path)
    frame = frame.drop(columns=[column for column in unwanted if column in frame.columns])
    try:
        return typed(frame, dtypes)
    except (TypeError, ValueError) as exc:
        told = f"{_mistyped(frame, dtypes)} has another type than expected ({exc})"
        raise InputError(told, file=path) from exc


def _mistyped(frame: pd.DataFrame, dtypes: dict[str, str]) -> str:
    """Name the first column that cannot be brought to its type."""
    for column in frame.columns.intersection(list(dtypes)):
        try:
            frame[column].astype(dtypes[column])
        except (TypeError, ValueError):
            return f"the column {column!r}"
    return "a column"
