"""Where matrices to be judged come from: tables, public data, or a request as HTTP takes it."""

from __future__ import annotations

import re
from pathlib import Path

from data.errors import InputError
from data.matrices import formats as matrix_formats
from data.matrices.tables import MatrixTables
from data.tables.formats import Reading
from data.tables.problems import Problems

#: How the JSON of a request begins; that of comparisons begins with other keys.
_REQUEST = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:pairs|units)"')
_BEGIN = 4096


def recognised(source: Path) -> bool:
    """Tell whether `source` holds matrices, in any format, or is a request."""
    if matrix_formats.sniff(source) is not None:
        return True
    try:
        with source.open("rb") as file:
            return _REQUEST.match(file.read(_BEGIN)) is not None
    except OSError:
        return False


def read(source: Path, *, keep_going: bool) -> Reading[MatrixTables]:
    """Read matrices that `recognised` found, as they are to be judged.

    Raises
    ------
    InputError
        If they cannot be read; and, unless `keep_going`, at the first run that is wrong.
    """
    try:
        if kind := matrix_formats.sniff(source):
            return matrix_formats.read_asked(kind, source, keep_going=keep_going)
        from serving.matrices.request import read_request

        return matrix_formats.asked(read_request(source), source, Problems(keep_going))
    except InputError as exc:
        raise exc.within(source) from exc
