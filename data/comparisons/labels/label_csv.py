"""Read labels from ``labels.csv`` in the directory of the data, whatever the format of the data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from data.comparisons.tables import LABEL_DTYPES, LABEL_STATUSES, ComparisonTables
from data.errors import InputError
from data.tables.cells import cells, without_quotes
from data.tables.problems import Problems, nearest

FILE = "labels.csv"
#: Required columns; ``labelled_at`` is optional, other columns are ignored.
COLUMNS = ("comparison_id", "status", "annotator")


def with_listed(
    pieces: Iterator[ComparisonTables], paths: list[Path], problems: Problems
) -> Iterator[ComparisonTables]:
    """Yield `pieces`, then the labels in the ``labels.csv`` of each directory in `paths`."""
    files = [path / FILE for path in paths if (path / FILE).is_file()]
    seen: set[str] = set()
    for piece in pieces:
        if files:
            seen.update(piece.comparisons["comparison_id"])
        yield piece
    for file in files:
        yield ComparisonTables.of_rows(None, None, read(file, problems, seen))


def read(file: Path, problems: Problems, seen: set[str] | None = None) -> pd.DataFrame:
    """Return the labels of a file, without rows whose status is empty (not yet labelled).

    `seen` are the ids of known comparisons, by default any. InputError at the first wrong row, unless
    ``problems.keep_going``: then `problems` receives the errors, and wrong rows are skipped.
    """
    table = cells(file, COLUMNS).apply(lambda column: without_quotes(column.str.strip()))
    table["line"] = range(2, len(table) + 2)
    given = table[table["status"] != ""]
    times = given.get("labelled_at", pd.Series("", given.index))
    at = pd.to_datetime(times.where(times != ""), utc=True, errors="coerce", format="ISO8601")
    wrong = {
        "status": ~given["status"].isin(LABEL_STATUSES),
        "annotator": given["annotator"] == "",
        "comparison_id": ~given["comparison_id"].isin(given["comparison_id"] if seen is None else seen),
        "labelled_at": (times != "") & at.isna(),
    }
    broken = pd.Series(False, given.index)
    for column, rows in wrong.items():
        for row in given.index[rows & ~broken]:
            problems.add(_told(file, given.loc[row], column, seen or set()))
        broken |= rows
    named = given.assign(labelled_by=given["annotator"], labelled_at=at)
    return named.loc[~broken, [*LABEL_DTYPES]]


def _told(file: Path, row: pd.Series, column: str, seen: set[str]) -> InputError:
    meant = nearest(str(row["comparison_id"]), seen) if column == "comparison_id" else None
    expected = {
        "status": f"is none of {', '.join(LABEL_STATUSES)}",
        "annotator": "does not say who",
        "comparison_id": "is no comparison here" + (f'; did you mean "{meant}"?' if meant else ""),
        "labelled_at": "is no time like 2026-11-22T09:30:00Z",
    }
    return InputError(f'{column}="{row[column]}" {expected[column]}', file=file, line=int(row["line"]))
