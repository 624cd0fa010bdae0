"""JSON and YAML from outside: typed sections, unique keys, moments, and files of earlier stages."""

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
from data.tables.problems import unknown

#: Cells of perf in place of a count.
UNCOUNTED = ("<not counted>", "<not supported>")
#: The kernel's counters have 64 bits: no count is larger.
MAX_COUNT = 2.0**64

_PLACES = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"[ \t\n\r]*:?|[][{},]', re.DOTALL)
#: Lists of numbers: without them there is less to decode, and equal keys are still equal.
_NUMBERS = re.compile(rb"\[[0-9eE+\-., \t\n\r]*+\]")
#: How a colon is escaped, but for its last letter.
_ESCAPED_COLON = b"\\u003"
#: Bytes of JSON that become objects at once.
_AT_ONCE = 1 << 20
#: Characters of a key that a message quotes.
_QUOTED_TEXT = 60
_MERGE = "tag:yaml.org,2002:merge"


def require_unique_keys(document: bytes) -> None:
    """Refuse valid JSON in UTF-8 with an object that has a key twice, however the key is escaped.

    InputError names the key, the object's place and the line.
    """
    # decoding keeps one of equal keys: then fewer colons are written than were read
    try:
        left = _colons(_NUMBERS.sub(b"0", document))
    except (ValueError, RecursionError):
        left = None
    if left != document.count(b":") or _ESCAPED_COLON in document:
        _refuse_repeated(document)


def _colons(document: bytes | msgspec.Raw) -> int:
    """Count the colons that are left of JSON when it is decoded and encoded, in pieces to save memory."""
    raw = bytes(document)
    if len(raw) <= _AT_ONCE:
        return msgspec.json.encode(msgspec.json.decode(raw)).count(b":")
    parts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw] | list[msgspec.Raw] | str)
    if isinstance(parts, dict):
        return sum(key.count(":") + 1 + _colons(part) for key, part in parts.items())
    return parts.count(":") if isinstance(parts, str) else sum(map(_colons, parts))


def _refuse_repeated(document: bytes) -> None:
    # of every open object its keys and the last of them, of every open list None and an index
    opened: list[tuple[set[str] | None, list[Any]]] = []
    for match in _PLACES.finditer(document):
        token = match[0]
        if token == b"{":
            opened.append((set(), [""]))
        elif token == b"[":
            opened.append((None, [0]))
        elif token in b"}]":
            opened.pop()
        elif token == b",":
            keys, at = opened[-1]
            if keys is None:
                at[0] += 1
        elif token.endswith(b":"):
            keys, at = opened[-1]
            key = json.loads(token[:-1].decode("utf-8", "surrogatepass"))
            assert keys is not None, "only objects have keys"
            if key in keys:
                place = "".join(_step(step) for _, (step,) in opened[:-1]).removeprefix(".")
                line = document.count(b"\n", 0, match.start()) + 1
                raise InputError(_twice(key), line=line, place=place or None)
            keys.add(key)
            at[0] = key


def _step(step: str | int) -> str:
    return f"[{step}]" if isinstance(step, int) else f".{step[:_QUOTED_TEXT]}"


def _twice(key: object) -> str:
    return f"the key {json.dumps(str(key)[:_QUOTED_TEXT], ensure_ascii=False)} appears twice"


class _UniqueKeys:
    """Refuses mappings in which a key appears twice; keys that are merged (``<<``) are not compared."""

    def compose_mapping_node(self: Any, anchor: Any) -> Any:
        """Compose a mapping, and compare its keys."""
        node = super().compose_mapping_node(anchor)  # type: ignore[misc]
        keys = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            name = self.construct_object(key)
            if name in keys:
                raise InputError(_twice(name), line=key.start_mark.line + 1)
            keys.add(name)
        return node


class SafeLoader(_UniqueKeys, yaml.SafeLoader):
    """`yaml.SafeLoader`, for mappings whose keys are unique."""


class TextLoader(_UniqueKeys, yaml.BaseLoader):
    """`yaml.BaseLoader`, for mappings whose keys are unique: all values are text."""


def written(path: Path, stage: str) -> dict[str, Any]:
    """Read JSON that `stage` wrote to `path`; InputError if the file is missing or is no JSON."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise InputError(f"cannot be read; run {stage} first", file=path) from exc
    except ValueError as exc:
        raise InputError(f"is not JSON ({exc})", file=path) from exc
    return content


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
    """Return the first problem in one line: place, value and what was expected.

    `whole` is the name of the whole document, for problems without a single place.
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


_DAYS = (
    "20[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))",
    "20([02468][048]|[13579][26])-02-29",
)
_CLOCK = "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#: All days that there are in this century, and the time with its zone.
MOMENT = f"({'|'.join(_DAYS)}){_CLOCK}"
#: What messages show as such a time.
EXAMPLE_MOMENT = "2026-11-22T09:30:00Z"


def moment(text: str) -> datetime | None:
    """Return a time such as `EXAMPLE_MOMENT` in UTC; None if it is not of that form."""
    return datetime.fromisoformat(text).astimezone(UTC) if re.fullmatch(MOMENT, text) else None
