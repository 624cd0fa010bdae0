"""Read labels from ``labels.csv`` in the directory of the data, whatever the format of the data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from data.comparisons.tables import LABEL_DTYPES, LABEL_STATUSES, ComparisonTables
from data.deferred import pd
from data.errors import InputError
from data.tables.cells import read_cells, without_quotes
from data.tables.problems import Problems, nearest_name

FILE = "labels.csv"
#: Required columns; ``labelled_at`` is optional, other columns are ignored.
COLUMNS = ("comparison_id", "status", "annotator")


def with_csv_labels(
    chunks: Iterator[ComparisonTables], paths: list[Path], problems: Problems
) -> Iterator[ComparisonTables]:
    """Yield `chunks`, then for each directory in `paths` with a ``labels.csv`` a chunk of its labels only.

    A label of a comparison that no chunk has, or another wrong row (see `read_labels`), is an InputError, or
    is skipped if ``problems.keep_going``. A file without a required column is always an InputError.
    """
    files = [path / FILE for path in paths if (path / FILE).is_file()]
    seen: set[str] = set()
    for chunk in chunks:
        if files:
            seen.update(chunk.comparisons["comparison_id"])
        yield chunk
    for file in files:
        yield ComparisonTables.from_rows(None, None, read_labels(file, problems, seen))


def read_labels(file: Path, problems: Problems, seen: set[str] | None = None) -> pd.DataFrame:
    """Return the labels of a CSV file as a table with columns ``LABEL_DTYPES``, without rows of empty status.

    The file has the columns ``comparison_id, status, annotator``, and may have ``labelled_at``; others are
    ignored. In the result, ``labelled_by`` is the annotator, and a missing time is NaT. A row is wrong if its
    status is not pass, fail or cannot_tell, its annotator is empty, its comparison is not in `seen` (None:
    any id is valid), or its time is not ISO 8601 (in UTC if it has no offset). InputError if the file or one
    of the three columns is missing, and for a wrong row (wrong statuses first), unless
    ``problems.keep_going``: then `problems` receives an error per wrong row, and these rows are skipped.
    """
    table = read_cells(file, COLUMNS).apply(lambda column: without_quotes(column.str.strip()))
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
            problems.add(_row_error(file, rows.loc[row], column, seen or set()))
        broken |= is_wrong
    return rows.assign(labelled_by=rows["annotator"], labelled_at=at).loc[~broken, [*LABEL_DTYPES]]


def _row_error(file: Path, row: pd.Series, column: str, seen: set[str]) -> InputError:
    meant = nearest_name(str(row["comparison_id"]), seen) if column == "comparison_id" else None
    nothing = "" if seen else ", which have no comparisons; expected the results of two versions"
    hint = f'; did you mean "{meant}"?' if meant else nothing
    expected = {
        "status": f"is not one of {', '.join(LABEL_STATUSES)}",
        "annotator": "is empty; expected a name",
        "comparison_id": f"is not in these data{hint}",
        "labelled_at": "is not a time like 2026-11-22T09:30:00Z",
    }
    return InputError(f'{column}="{row[column]}" {expected[column]}', file=file, line=int(row.name))
