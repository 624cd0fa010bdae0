"""Validate JSON and YAML: typed sections, unique keys, times, and files of earlier stages."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from data.errors import InputError
from data.tables.problems import unknown_message

#: Text of perf in place of a missing count.
UNCOUNTED = ("<not counted>", "<not supported>")
#: Exclusive maximum of the kernel's counters, which have 64 bits.
MAX_COUNT = 2.0**64

_PLACES = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"[ \t\n\r]*:?|[][{},]', re.DOTALL)
#: Lists of numbers, which are removed before keys are compared, to decode less.
_NUMBERS = re.compile(rb"\[[0-9eE+\-., \t\n\r]*+\]")
#: The escape of a colon without its last digit.
_ESCAPED_COLON = b"\\u003"
#: Size in bytes up to which JSON is decoded as a whole.
_AT_ONCE = 1 << 20
#: Maximum number of characters of a key in a message.
_QUOTED_TEXT = 60
_MERGE = "tag:yaml.org,2002:merge"


def require_unique_keys(document: bytes) -> None:
    """Raise an InputError if an object in valid JSON (UTF-8) has a key twice, even if escaped differently.

    The error names the key, the place of the object, such as ``runs[0].counts`` (none for the document
    itself), and the line of the second occurrence of the key.
    """
    # decoding drops repeated keys, so that fewer colons are left
    shortened = _NUMBERS.sub(b"0", document)
    try:
        n_colons = _colons_after_decoding(shortened)
    except (ValueError, RecursionError):
        n_colons = None
    if n_colons != shortened.count(b":") or _ESCAPED_COLON in shortened:
        _refuse_repeated(document)


def _colons_after_decoding(document: bytes | msgspec.Raw) -> int:
    """Return the number of colons after JSON is decoded and encoded; in chunks, to save memory."""
    raw = bytes(document)
    if len(raw) <= _AT_ONCE:
        return msgspec.json.encode(msgspec.json.decode(raw)).count(b":")
    parts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw] | list[msgspec.Raw] | str)
    if isinstance(parts, dict):
        return sum(key.count(":") + 1 + _colons_after_decoding(part) for key, part in parts.items())
    return parts.count(":") if isinstance(parts, str) else sum(map(_colons_after_decoding, parts))


def _refuse_repeated(document: bytes) -> None:
    # for each open object its keys, for each open list None
    key_sets: list[set[str] | None] = []
    # the last key or index of each of them
    path: list[str | int] = []
    for match in _PLACES.finditer(document):
        token = match[0]
        if token in {b"{", b"["}:
            key_sets.append(set() if token == b"{" else None)
            path.append("" if token == b"{" else 0)
        elif token in b"}]":
            key_sets.pop()
            path.pop()
        elif token == b",":
            if isinstance(index := path[-1], int):
                path[-1] = index + 1
        elif token.endswith(b":"):
            keys = key_sets[-1]
            key = json.loads(token[:-1].decode("utf-8", "surrogatepass"))
            assert keys is not None, "only objects have keys"
            if key in keys:
                steps = (
                    f"[{step}]" if isinstance(step, int) else f".{step[:_QUOTED_TEXT]}" for step in path[:-1]
                )
                place = "".join(steps).removeprefix(".")
                line = document.count(b"\n", 0, match.start()) + 1
                raise InputError(_repeated_key(key), line=line, place=place or None)
            keys.add(key)
            path[-1] = key


def _repeated_key(key: object) -> str:
    return f"the key {json.dumps(str(key)[:_QUOTED_TEXT], ensure_ascii=False)} appears twice"


class _UniqueKeys:
    """Rejects mappings with a repeated key; merged keys (``<<``) are not compared."""

    def compose_mapping_node(self: Any, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)  # type: ignore[misc]
        keys = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            name = self.construct_object(key)
            if name in keys:
                raise InputError(_repeated_key(name), line=key.start_mark.line + 1)
            keys.add(name)
        return node


class SafeLoader(_UniqueKeys, yaml.SafeLoader):
    """`yaml.SafeLoader` that rejects mappings with a repeated key."""


class TextLoader(_UniqueKeys, yaml.BaseLoader):
    """`yaml.BaseLoader`, which loads all values as text, but rejects mappings with a repeated key."""


def written(path: Path, stage: str) -> dict[str, Any]:
    """Return the JSON object that `stage` wrote to `path`.

    InputError if the file cannot be read (the message says to run `stage`) or is not JSON. Another JSON value
    than an object is returned unchanged.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise InputError(f"cannot be read; run {stage} first", file=path) from exc
    except (ValueError, RecursionError) as exc:
        raise InputError(f"is not JSON ({exc})", file=path) from exc
    return content


#: Accepts 4.0 as 4, as JSON Schema does.
AS_WHOLE = BeforeValidator(
    lambda value: int(value) if isinstance(value, float) and value.is_integer() else value
)
_UNKNOWN = "unknown_key"
#: Maximum number of characters of a key or a value in a message.
_QUOTED = 100


class _Known(BaseModel):
    """Allows only known keys; the error for an unknown one suggests the nearest."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _only_known(cls, content: Any) -> Any:
        """Check for unknown keys first: one may be a missing key, misspelt."""
        known_keys = [field.alias or name for name, field in cls.model_fields.items()]
        for key in map(str, content) if isinstance(content, dict) else ():
            if key not in known_keys:
                problem = {"problem": unknown_message(key[:_QUOTED], known_keys)}
                error = PydanticCustomError(_UNKNOWN, "{problem}", problem)
                details = InitErrorDetails(type=error, loc=(key,), input=None)
                raise ValidationError.from_exception_data(cls.__name__, [details])
        return content


class JsonSection(_Known):
    """A part of a JSON file or request: unknown keys and numbers in quotes are errors."""

    model_config = ConfigDict(strict=True)


class Section(_Known):
    """A part of a YAML file: unknown keys are errors, instances are immutable."""

    model_config = ConfigDict(frozen=True)


def validation_message(exc: ValidationError, whole: str = "the file") -> str:
    """Return the first problem of a pydantic error in one line: key with its path, value, expectation.

    `whole` is the name of the whole document, for problems without a key.
    """
    first = exc.errors(include_url=False)[0]
    # parts that name one of several allowed types are left out
    parts = (str(part)[:_QUOTED] for part in first["loc"])
    place = ".".join(part for part in parts if not part.startswith(("constrained-", "list[")))
    problem = first["msg"].removeprefix("Value error, ")
    if first["type"] == _UNKNOWN:
        return f"{place} {problem}"
    # do not quote the value if a key is missing or the whole document is wrong
    value = f"={_shorten_value(first['input'])}" if place and first["type"] != "missing" else ""
    return f"{place or whole}{value}: {problem}"


def _shorten_value(value: object) -> str:
    if isinstance(value, list | dict) and value:
        return "a list" if isinstance(value, list) else "an object"
    return repr(value[:_QUOTED] if isinstance(value, str) else value)[: _QUOTED + 10]


_DAYS = (
    "20[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))",
    "20([02468][048]|[13579][26])-02-29",
)
_CLOCK = "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#: Pattern of valid dates of this century, with time and time zone.
MOMENT = f"({'|'.join(_DAYS)}){_CLOCK}"
#: Example of such a time for messages.
EXAMPLE_MOMENT = "2026-11-22T09:30:00Z"


def parse_moment(text: str) -> datetime | None:
    """Return the time in `text`, in UTC; None unless it is written like "2026-11-22T09:30:00Z".

    Also accepted are other zones ("+01:00"), decimals of seconds (up to six) and the years 2000 to 2099.
    """
    return datetime.fromisoformat(text).astimezone(UTC) if re.fullmatch(MOMENT, text) else None
