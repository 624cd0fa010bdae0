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
    rows = table[table["status"] != ""]
    times = rows.get("labelled_at", pd.Series("", rows.index))
    at = pd.to_datetime(times.where(times != ""), utc=True, errors="coerce", format="ISO8601")
    wrong = {
        "status": ~rows["status"].isin(LABEL_STATUSES),
        "annotator": rows["annotator"] == "",
        "comparison_id": ~rows["comparison_id"].isin(rows["comparison_id"] if seen is None else seen),
        "labelled_at": (times != "") & at.isna(),
    }
    broken = pd.Series(False, rows.index)
    for column, is_wrong in wrong.items():
        for row in rows.index[is_wrong & ~broken]:
            problems.add(_error(file, rows.loc[row], column, seen or set()))
        broken |= is_wrong
    return rows.assign(labelled_by=rows["annotator"], labelled_at=at).loc[~broken, [*LABEL_DTYPES]]


def _error(file: Path, row: pd.Series, column: str, seen: set[str]) -> InputError:
    meant = nearest(str(row["comparison_id"]), seen) if column == "comparison_id" else None
    expected = {
        "status": f"is not one of {', '.join(LABEL_STATUSES)}",
        "annotator": "is empty; expected a name",
        "comparison_id": "is not in these data" + (f'; did you mean "{meant}"?' if meant else ""),
        "labelled_at": "is not a time like 2026-11-22T09:30:00Z",
    }
    return InputError(f'{column}="{row[column]}" {expected[column]}', file=file, line=int(row["line"]))
