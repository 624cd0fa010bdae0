"""Read and write CSV that people edit: cells of text, and their conversion to numbers."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import numpy as np
from numpy.typing import NDArray

from data.deferred import pd
from data.errors import InputError


def read_cells(path: Path, columns: Sequence[str] = (), **options: Any) -> pd.DataFrame:
    """Return a CSV file as a frame of text, with stripped column names; an empty cell is empty text.

    The index is the line of the file in which a row begins, from 1: blank lines are skipped, and cells may
    have line breaks. Cells are not stripped; those missing at the end of a row are empty text. `columns` are
    required; further columns are returned as well. `options` are those of `pandas.read_csv` and take
    precedence. InputError if the file is missing or empty, is not CSV, has rows that are longer than its
    header or two names that differ only in white space at their ends, or does not have one of `columns`.
    """
    options = {"dtype": "str", "keep_default_na": False, "index_col": False, **options}
    try:
        # otherwise pandas drops what is beyond the header
        with catch_warnings(action="error", category=pd.errors.ParserWarning):
            table = pd.read_csv(path, **options)
    except FileNotFoundError as exc:
        raise InputError("no such file", file=path) from exc
    except pd.errors.EmptyDataError as exc:
        raise InputError("is empty; expected CSV", file=path) from exc
    except pd.errors.ParserWarning as exc:
        # pandas warns of the first row only; at a later one, its error has the line
        raise InputError(
            _separator_problem(path, options) or "has rows that are longer than its header",
            file=path,
            line=_first_line(path, options),
        ) from exc
    except (OSError, ValueError) as exc:
        raise InputError(
            _separator_problem(path, options) or f"cannot be read as CSV ({exc})", file=path
        ) from exc
    if options.get("header", 0) is not None:
        table = table.rename(columns=str.strip)
        if not table.columns.is_unique:
            name = table.columns[table.columns.duplicated()][0]
            raise InputError(f'has the column "{name}" twice', file=path, line=1)
    for column in columns:
        if column not in table:
            raise InputError(
                _separator_problem(path, options)
                or f'has no column "{column}"; found {", ".join(table.columns)}',
                file=path,
                line=1,
            )
    return table.set_axis(_lines_of_rows(path, len(table), options), axis="index")


def _separator_problem(path: Path, options: Mapping[str, Any]) -> str:
    """Return the problem of a header with semicolons or tabs, but without the expected commas; "" if none."""
    header = ""
    with suppress(OSError), path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline(10_000)
    if options.get("sep", ",") != "," or "," in header:
        return ""
    name = "semicolons" if ";" in header else "tabs" if "\t" in header else ""
    return f"has {name} between columns; expected commas" if name else ""


def _first_line(path: Path, options: Mapping[str, Any]) -> int | None:
    """Return the line of the first row after the header; blank lines do not count."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        lines = [number for number, line in enumerate(file, 1) if line.strip()]
    rows = [number for number in lines if number > options.get("skiprows", 0)]
    return next(iter(rows["names" not in options :]), None)


def _lines_of_rows(path: Path, n_rows: int, options: Mapping[str, Any]) -> pd.Index:
    """Return the line of each row; if the module `csv` reads the file differently, each row counts as one."""
    skipped = options.get("skiprows", 0)
    first = skipped + (options.get("header", None if "names" in options else 0) is not None)
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = file.readlines()
    begins, begin = list[int](), 1
    if len(lines) > first + n_rows:
        separator, quote = options.get("sep", ","), options.get("quotechar", '"')
        delimiter = separator if len(separator) == 1 else " "
        after = options.get("skipinitialspace", False)
        reader = csv.reader(lines, delimiter=delimiter, quotechar=quote, skipinitialspace=after)
        blank = " \t\r\n".replace(separator, "") if options.get("skip_blank_lines", True) else ""
        with suppress(csv.Error):
            for number, _ in enumerate(reader):
                if number < skipped or lines[begin - 1].strip(blank):
                    begins.append(begin)
                begin = reader.line_num + 1
    one_each = pd.RangeIndex(first + 1, first + 1 + n_rows)
    return pd.Index(begins[first:]) if len(begins) == first + n_rows else one_each


#: Text that a spreadsheet takes for a formula, except plain numbers; and such text after quotes.
_FORMULA = re.compile(r"(?![-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z)[=+\-@\t\r\n]")
_QUOTED = re.compile(r"'+[=+\-@\t\r\n]")
#: Number of characters of a cell in errors.
_SHOWN = 40


def written_csv(table: pd.DataFrame) -> str:
    """Return a table as CSV, with a leading ``'`` in text that a spreadsheet would take for a formula.

    That is text in a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end, or with ``'``
    before one of these; plain numbers such as -1.5 get none. The index is not written; lines end with a line
    feed, or CRLF if a cell has a carriage return.
    """
    text = table.select_dtypes(["str", "object"])
    quoted = table.assign(**text.map(_quote_formula))
    # pandas quotes carriage returns only if they are part of the line terminator
    returns = text.map(lambda cell: isinstance(cell, str) and "\r" in cell).any(axis=None)
    return str(quoted.to_csv(index=False, lineterminator="\r\n" if returns else "\n"))


def without_quotes(column: pd.Series) -> pd.Series:
    """Return a column of text without the leading ``'`` that `written_csv` puts before formulas."""
    return column.map(lambda cell: cell[1:] if _QUOTED.match(cell) else cell)


def _quote_formula(cell: Any) -> Any:
    needed = isinstance(cell, str) and (_FORMULA.match(cell) or _QUOTED.match(cell))
    return f"'{cell}" if needed else cell


def not_finite(numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask of the shape of `numbers`, true where a number is NaN or infinite."""
    return ~np.isfinite(numbers)


def not_whole(numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask of the shape of `numbers`, true where a number is NaN, infinite or not whole."""
    return ~(np.isfinite(numbers) & (np.trunc(numbers) == numbers))


def parse_numbers(
    column: pd.Series,
    path: Path,
    expected: str = "a number",
    wrong: Callable[[NDArray[np.float64]], NDArray[np.bool_]] = not_finite,
    *,
    gaps: bool = False,
) -> pd.Series:
    """Return a column of cells, text or numbers, as a Series of floats with the index of the column.

    `wrong` takes all numbers, shape (n_rows,), with NaN where a cell is not a number, and marks the invalid
    ones; by default those that are NaN or infinite. With `gaps`, blank text is allowed and becomes NaN.
    InputError at the first invalid cell, with the line of its row in `path`, which is the index of the column
    (as `read_cells` returns it); `expected` describes a valid cell.
    """
    text = column.str.strip() if column.dtype == "str" else column
    values = pd.to_numeric(text, errors="coerce").astype("float64")
    invalid = wrong(values.to_numpy()) & ~((text == "") & gaps).to_numpy(bool)
    refuse_wrong_rows(
        pd.Series(invalid, column.index),
        lambda row: f'{column.name}="{str(text.iloc[row])[:_SHOWN]}" is not {expected}',
        path,
    )
    return values


def refuse_wrong_rows(wrong: pd.Series, describe_row: Callable[[int], str], path: Path) -> None:
    """Raise an InputError at the first row of the mask `wrong`, whose index has the lines of `path`, if any.

    `describe_row` takes the position of that row, from 0, and returns the message.
    """
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(describe_row(row), file=path, line=int(wrong.index[row]))
