"""Read labels from ``labels.csv`` in the directory of the data, whatever the format of the data."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from data.comparisons.tables import LABEL_DTYPES, LABEL_STATUSES
from data.deferred import pd
from data.errors import InputError
from data.tables.cells import read_cells, without_quotes
from data.tables.problems import Problems, nearest_name

FILE = "labels.csv"
#: Required columns.
COLUMNS = ("comparison_id", "status", "annotator")
#: The optional column with the time of a label.
TIME = "labelled_at"
#: Labels have later times, or none.
_OLDEST = datetime.fromtimestamp(0, UTC)


def read_labels(
    file: Path, problems: Problems, seen: set[str] | None = None, *, may_be_anonymous: bool = False
) -> pd.DataFrame:
    """Return the labels of a CSV file as a table with columns ``LABEL_DTYPES``, without rows of empty status.

    The file has the columns ``comparison_id, status, annotator``, and may have ``labelled_at``; others are
    ignored. In the result, ``labelled_by`` is the annotator, and a missing time is NaT. A row is wrong if its
    status is not pass, fail or cannot_tell, its annotator is empty (unless `may_be_anonymous`: then it is
    missing in the result), its comparison is not in `seen` (None: any id but "" is valid), or its time is in
    the future, before 1970 or not ISO 8601 (in UTC if it has no offset). InputError if the file or one of the
    three columns is missing, or there is a misspelt ``labelled_at``; and for a wrong row (wrong statuses
    first), unless ``problems.keep_going``: then `problems` receives an error per wrong row, and these rows
    are skipped.
    """
    required = COLUMNS[: -1 if may_be_anonymous else None]
    table = read_cells(file, required).apply(lambda column: without_quotes(column.str.strip()))
    if COLUMNS[-1] not in table:
        table[COLUMNS[-1]] = ""
    for column in table.columns if TIME not in table else ():
        if nearest_name(column, [TIME]):
            raise InputError(f'has the column "{column}"; did you mean "{TIME}"?', file=file, line=1)
    rows = table[table["status"] != ""]
    times = rows.get(TIME, pd.Series("", rows.index))
    at = pd.to_datetime(times.where(times != ""), utc=True, errors="coerce", format="ISO8601")
    wrong = {
        "status": ~rows["status"].isin(LABEL_STATUSES),
        "annotator": (rows["annotator"] == "") & (not may_be_anonymous),
        "comparison_id": rows["comparison_id"].eq("") if seen is None else ~rows["comparison_id"].isin(seen),
        TIME: ((times != "") & at.isna()) | (at > datetime.now(UTC)) | (at <= _OLDEST),
    }
    broken = pd.Series(False, rows.index)
    for column, is_wrong in wrong.items():
        for row in rows.index[is_wrong & ~broken]:
            problems.add(_row_error(file, rows.loc[row], column, seen or set()))
        broken |= is_wrong
    people = rows["annotator"].where(rows["annotator"] != "")
    return rows.assign(annotator=people, labelled_by=people, labelled_at=at).loc[~broken, [*LABEL_DTYPES]]


def _row_error(file: Path, row: pd.Series, column: str, seen: set[str]) -> InputError:
    meant = nearest_name(str(row["comparison_id"]), seen) if column == "comparison_id" else None
    nothing = "" if seen else ", which have no comparisons; expected the results of two versions"
    hint = f'; did you mean "{meant}"?' if meant else nothing
    expected = {
        "status": f"is not one of {', '.join(LABEL_STATUSES)}",
        "annotator": "is empty; expected a name",
        "comparison_id": f"is not in these data{hint}"
        if row["comparison_id"]
        else "is empty; expected an id",
        TIME: "is not a past time like 2026-11-22T09:30:00Z",
    }
    return InputError(f'{column}="{row[column]}" {expected[column]}', file=file, line=int(row.name))
