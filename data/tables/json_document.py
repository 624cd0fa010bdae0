"""JSON from outside: read whole, in a bearable size, without NaN."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

from data.errors import InputError

#: What is larger belongs in tables or XML.
MAX_BYTES = 256 * 2**20


def content_of(path: Path) -> object:
    """Return what a JSON file holds.

    Raises
    ------
    InputError
        If the file is missing, empty, too large or no JSON.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            limit = MAX_BYTES >> 20
            raise InputError(f"has {size >> 20} MB; JSON is read whole, up to {limit} MB", file=path)
        source = path.read_bytes()
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be read", file=path) from exc
    if not source.strip():
        raise InputError("is empty; expected JSON", file=path)
    try:
        return json.loads(source, parse_constant=_not_json)
    except json.JSONDecodeError as exc:
        raise InputError(f"is not JSON ({exc.msg}, column {exc.colno})", file=path, line=exc.lineno) from exc
    except UnicodeDecodeError as exc:
        raise InputError(f"is not JSON (byte {exc.start} is not {exc.encoding})", file=path) from exc
    except ValueError as exc:
        raise InputError(f"is not JSON ({exc})", file=path) from exc
    except RecursionError as exc:
        raise InputError("is nested too deeply", file=path) from exc


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")
