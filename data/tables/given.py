"""What comes from outside as JSON or YAML: its types, and what is wrong with it in one line."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from data.tables.nearest import unknown


def _whole(given: Any) -> Any:
    return int(given) if isinstance(given, float) and given.is_integer() else given


#: Takes 4.0 for 4, as JSON Schema does.
AS_WHOLE = BeforeValidator(_whole)
_UNKNOWN = "unknown_key"
#: The most letters of a key or a value that a message repeats.
_QUOTED = 100


class _Known(BaseModel):
    """Only known keys are allowed; an unknown one is told with the nearest of them."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _only_known(cls, content: Any) -> Any:
        """Look for an unknown key first: it may be the one that is missing, misspelt."""
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key in map(str, content) if isinstance(content, dict) else ():
            if key not in known:
                problem = unknown(key[:_QUOTED], known)
                told = PydanticCustomError(_UNKNOWN, "{problem}", {"problem": problem})
                wrong = InitErrorDetails(type=told, loc=(key,), input=None)
                raise ValidationError.from_exception_data(cls.__name__, [wrong])
        return content


class Given(_Known):
    """A part of a JSON file or request: unknown keys and numbers in quotes are errors."""

    model_config = ConfigDict(strict=True)


class Section(_Known):
    """A part of a YAML file: unknown keys are errors, values don't change."""

    model_config = ConfigDict(frozen=True)


def said(exc: ValidationError, whole: str = "the file") -> str:
    """Tell the first thing that is wrong with what was given: place, value and what was expected.

    Parameters
    ----------
    exc : ValidationError
    whole : str
        What the line calls all of it, where no single place is wrong.
    """
    first = exc.errors(include_url=False)[0]
    place = ".".join(str(part)[:_QUOTED] for part in first["loc"] if not _of_union(part))
    told = first["msg"].removeprefix("Value error, ")
    if first["type"] == _UNKNOWN:
        return f"{place} {told}"
    # what lacks a key, or is wrong as a whole, is too much to repeat
    value = f"={_short(first['input'])}" if place and first["type"] != "missing" else ""
    return f"{place or whole}{value}: {told}"


def _of_union(part: int | str) -> bool:
    """Tell whether a part of the place names one of several allowed types."""
    return isinstance(part, str) and part.startswith(("constrained-", "list["))


def _short(value: object) -> str:
    """Quote a number or a word; a list or an object that holds anything is only named."""
    if isinstance(value, list | dict) and value:
        return "a list" if isinstance(value, list) else "an object"
    return repr(value[:_QUOTED] if isinstance(value, str) else value)[: _QUOTED + 10]
