"""The three tables that every source of comparisons is read into."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.tables.files import replacing
from data.tables.specs import read_table, typed

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
#: Columns that a source may leave out.
OPTIONAL = frozenset({"stat", "source", "measured_at", "version", "labelled_by", "labelled_at"})


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
            read_table(directory / "results.parquet", RESULT_DTYPES, OPTIONAL),
            read_table(directory / "comparisons.parquet", COMPARISON_DTYPES, OPTIONAL),
            read_table(directory / "labels.parquet", LABEL_DTYPES, OPTIONAL),
        )

    def write(self, directory: Path) -> None:
        """Write the three tables to `directory` as Parquet, each in one piece."""
        for name in ("results", "comparisons", "labels"):
            with replacing(directory / f"{name}.parquet") as path:
                getattr(self, name).to_parquet(path, index=False, compression="zstd")
