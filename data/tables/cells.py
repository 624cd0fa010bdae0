"""Tables that people type, as CSV: cells of text, and how they become numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError


def cells(path: Path, columns: Sequence[str] = (), **options: Any) -> pd.DataFrame:
    """Read a CSV file as text, with the `columns` that it must have; an empty cell is empty text.

    `options` are those of `pandas.read_csv`. InputError if the file is missing, is no CSV, or lacks a column.
    """
    try:
        table = pd.read_csv(path, **{"dtype": "str", "keep_default_na": False, **options})
    except FileNotFoundError as exc:
        raise InputError("no such file", file=path) from exc
    except pd.errors.EmptyDataError as exc:
        raise InputError("is empty; expected CSV", file=path) from exc
    except (OSError, ValueError) as exc:
        raise InputError(f"cannot be read as CSV ({exc})", file=path) from exc
    if options.get("header", 0) is not None:
        table = table.rename(columns=str.strip)
    for column in columns:
        if column not in table:
            found = ", ".join(table.columns)
            raise InputError(f'lacks the column "{column}"; found {found}', file=path, line=1)
    return table


#: What a spreadsheet computes, but for plain numbers; and such text after the quote that keeps it text.
_FORMULA = re.compile(r"(?![-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z)[=+\-@\t\r\n]")
_QUOTED = re.compile(r"'+[=+\-@\t\r\n]")
#: Characters of a cell that errors show.
_SHOWN = 40


def written_csv(table: pd.DataFrame) -> str:
    """Return a table as CSV whose text no spreadsheet takes for a formula: a quote stands before it.

    `without_quotes` reads the cells back. Plain numbers such as -1.5 stay numbers.
    """
    text = table.select_dtypes(["str", "object"]).columns
    quoted = table.assign(**{name: table[name].map(_quoted) for name in text})
    # a carriage return is put in quotation marks only where it may end a line
    returns = any("\r" in cell for name in text for cell in table[name] if isinstance(cell, str))
    return str(quoted.to_csv(index=False, lineterminator="\r\n" if returns else "\n"))


def without_quotes(column: pd.Series) -> pd.Series:
    """Return the cells of a column without the quotes that `written_csv` puts before formulas."""
    return column.map(lambda cell: cell[1:] if _QUOTED.match(cell) else cell)


def _quoted(cell: Any) -> Any:
    needed = isinstance(cell, str) and (_FORMULA.match(cell) or _QUOTED.match(cell))
    return f"'{cell}" if needed else cell


def infinite(numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark what is no number, or not finite."""
    return ~np.isfinite(numbers)


def fractional(numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark what is no number, or not whole."""
    return ~(numbers % 1 == 0)


def numbers(
    column: pd.Series,
    path: Path,
    expected: str = "a number",
    wrong: Callable[[NDArray[np.float64]], NDArray[np.bool_]] = infinite,
    *,
    gaps: bool = False,
    first: int = 2,
) -> pd.Series:
    """Return a column of cells, text or numbers, as numbers.

    Parameters
    ----------
    expected : str
        The description of a right cell.
    wrong : callable
        Marks wrong numbers; NaN is what is no number at all.
    gaps : bool
        Whether an empty cell may stand for a missing number.
    first : int
        The line of the first row.

    Raises
    ------
    InputError
        At the first wrong cell, with its line.
    """
    text = column.str.strip() if column.dtype == "str" else column
    found = pd.to_numeric(text, errors="coerce").astype("float64")
    bad = wrong(found.to_numpy()) & ~((text == "") & gaps).to_numpy(bool)
    refuse(bad, lambda row: f'{column.name}="{str(text.iloc[row])[:_SHOWN]}" is not {expected}', path, first)
    return found


def refuse(
    wrong: NDArray[np.bool_] | pd.Series, told: Callable[[int], str], path: Path, first: int = 2
) -> None:
    """Raise an InputError at the line of the first row that is `wrong`, if any; row 0 is at line `first`."""
    rows = np.flatnonzero(wrong)
    if len(rows):
        raise InputError(told(int(rows[0])), file=path, line=int(rows[0]) + first)
