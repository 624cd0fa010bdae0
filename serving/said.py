"""What is wrong with a request, in one line."""

from __future__ import annotations

from pydantic import ValidationError


def said(exc: ValidationError) -> str:
    """Tell the first thing that is wrong with a request: place, value and what was expected."""
    first = exc.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part)[:100] for part in first["loc"] if not _of_union(part))
    told = first["msg"].removeprefix("Value error, ")
    return f"{place or 'the body'}={_short(first['input'])}: {told}"


def _of_union(part: int | str) -> bool:
    """Tell whether a part of the place names one of several allowed types."""
    return isinstance(part, str) and part.startswith(("constrained-", "list["))


def _short(value: object) -> str:
    """Quote a number or a word; anything larger is only named."""
    if isinstance(value, (str, int, float, type(None))):
        return repr(str(value)[:100] if isinstance(value, str) else value)[:110]
    return "a list" if isinstance(value, list) else "an object"
