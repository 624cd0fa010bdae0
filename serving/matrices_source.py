"""Where matrices to be judged come from: tables, or a request as HTTP takes it."""

from __future__ import annotations

import re
from pathlib import Path

from data import matrix_formats
from data.errors import InputError
from data.matrix_formats import MatrixReading
from data.reading import Problems

#: How the JSON of a request begins; that of comparisons begins with other keys.
_REQUEST = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:pairs|units)"')
_BEGIN = 4096


def recognised(source: Path) -> bool:
    """Tell whether `source` holds matrices: a directory of tables, one Parquet file, or a request."""
    return matrix_formats.holds_matrices("tables", source) or _requests(source)


def read(source: Path, *, keep_going: bool) -> MatrixReading:
    """Read matrices that `recognised` found.

    Raises
    ------
    InputError
        If they cannot be read; and, unless `keep_going`, at the first thing that is wrong.
    """
    try:
        if not _requests(source):
            return matrix_formats.read("tables", [source], keep_going=keep_going)
        from serving.matrices_request import read_request

        return matrix_formats.checked(read_request(source), source, Problems(keep_going))
    except InputError as exc:
        raise exc.within(source) from exc


def _requests(source: Path) -> bool:
    try:
        with source.open("rb") as file:
            return _REQUEST.match(file.read(_BEGIN)) is not None
    except OSError:
        return False
