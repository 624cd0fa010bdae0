"""Validate JSON and YAML: typed sections, unique keys, times, and files of earlier stages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from data.errors import InputError, shorten
from data.tables.problems import unknown_message

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

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
    """Raise an InputError with key, place and line if an object in JSON has a key twice, however escaped."""
    # decoding drops repeated keys, so that fewer colons are left
    n_colons = -1
    with suppress(ValueError, RecursionError):
        n_colons = _colons_after_decoding(_NUMBERS.sub(b"0", document))
    if n_colons != document.count(b":") or _ESCAPED_COLON in document:
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
                steps = [f".{step[:_QUOTED_TEXT]}" if isinstance(step, str) else f"[{step}]" for step in path]
                place = "".join(steps[:-1]).removeprefix(".")
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
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
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
    """Return the JSON object that `stage` wrote to `path`; InputError if it cannot be read or is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise InputError(f"cannot be read; run {stage} first", file=path) from exc
    except (ValueError, RecursionError) as exc:
        raise InputError(f"is not JSON ({exc})", file=path) from exc


#: Accepts 4.0 as 4, as JSON Schema does.
AS_WHOLE = BeforeValidator(
    lambda value: int(value) if isinstance(value, float) and value.is_integer() else value
)
_UNKNOWN = "unknown_key"
#: Maximum number of characters of a key that is compared with the known ones.
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


#: Keys that are written without quotes in a path.
_PLAIN = re.compile(r"[\w-]+")
#: Beginnings of pydantic's names for the types of a value that may have one of several types.
_TYPES = ("constrained-", "list[", "literal[")
#: The expected value by pydantic's type of an error; `_PROBLEMS` has problems instead.
_EXPECTED = (
    dict.fromkeys(("model_type", "dict_type", "dataclass_type"), "an object")
    | dict.fromkeys(("list_type", "tuple_type"), "a list")
    | dict.fromkeys(("float_type", "float_parsing"), "a number")
    | dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number")
    | dict.fromkeys(("bool_type", "bool_parsing"), "true or false")
    | {
        "string_type": "a string",
        "string_pattern_mismatch": "a string that matches {pattern}",
        "literal_error": "{expected}",
        "finite_number": "a finite number",
        "greater_than": "a number above {gt:.15g}",
        "greater_than_equal": "a number of at least {ge:.15g}",
        "less_than": "a number below {lt:.15g}",
        "less_than_equal": "a number of at most {le:.15g}",
    }
)
_PROBLEMS = {
    "too_short": "is empty; expected at least one",
    "too_long": "has more than {max_length} entries",
    "string_too_short": "is empty",
    "string_too_long": "has more than {max_length} characters",
    "string_unicode": "holds half a surrogate pair",
}


def validation_message(exc: ValidationError, whole: str = "the file") -> str:
    """Return the first problem of a pydantic error in one line; `whole` is the name of the document."""
    return error_message(first_error(exc), whole)


def first_error(exc: ValidationError) -> ErrorDetails:
    """Return the first error; of a value that may have several types, that of the type that fits best."""
    errors = exc.errors(include_url=False)
    loc = errors[0]["loc"]
    depth = next((at for at, step in enumerate(loc) if str(step).startswith(_TYPES)), len(loc))
    by_type: dict[tuple[int | str, ...], ErrorDetails] = {}
    for error in errors:
        if error["loc"][:depth] == loc[:depth]:
            by_type.setdefault(error["loc"][depth : depth + 1], error)

    def fitting_part(error: ErrorDetails) -> tuple[list[int], bool]:
        inside = error["loc"][depth + 1 :]
        return [step if isinstance(step, int) else 0 for step in inside], not error["type"].endswith("_type")

    return max(by_type.values(), key=fitting_part)


def error_message(error: ErrorDetails, whole: str, place: str = "", expected: str | None = None) -> str:
    """Return an error of pydantic in one line, such as ``runs[0].count="x" is not a number``.

    `place` is the path of the validated part in its document; `whole` is the name of the document, for
    problems without a path. `expected` replaces the usual words for the expected value.
    """
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    steps = [step for step in error["loc"] if not str(step).startswith(_TYPES)]
    if kind == "missing":
        return f"{json_path(steps[:-1], place)} lacks {steps[-1]}".lstrip()
    path = json_path(steps, place) or whole
    if kind == _UNKNOWN:
        return f"{path} {error['msg']}"
    named = f"{path}={quote_value(value)}"
    if steps[-1:] == ["[key]"]:
        path = named = f"{json_path(steps[:-2], place)}: the key {quote_value(value)}"
    # an integer that is too large for a float
    if kind == "float_type" and type(value) is int:
        kind = "finite_number"
    if kind in _PROBLEMS:
        return f"{path} {_PROBLEMS[kind].format(**context)}"
    expected = expected or _EXPECTED.get(kind, "").format(**context).replace("'", '"')
    if expected:
        return f"{named} is not {expected}"
    problem = error["msg"].removeprefix("Value error, ")
    subject = path if isinstance(value, list | dict) else named
    return f"{subject} {problem}" if problem.startswith("is ") else f"{subject}: {problem}"


def json_path(steps: Iterable[int | str], place: str = "") -> str:
    """Return the path of a value in JSON, such as ``runs[0].counts["a.b"]``, inside `place`."""
    for step in steps:
        if isinstance(step, str) and _PLAIN.fullmatch(step):
            place += f".{step[:_QUOTED_TEXT]}"
        else:
            place += f"[{quote_value(step)}]"
    return place.removeprefix(".")


def quote_value(value: object) -> str:
    """Return a value as JSON for a message: shortened, and of lists and objects only the kind."""
    if isinstance(value, list | tuple | dict):
        return "{...}" if isinstance(value, dict) else "[...]"
    if isinstance(value, int) and abs(value) >= 1 << _QUOTED_TEXT:
        return "a huge number"
    return shorten(json.dumps(value, default=str), _QUOTED_TEXT)


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
    """Return the time in `text`, in UTC, as in "2026-11-22T09:30:00Z" or another zone; None if it is none."""
    return datetime.fromisoformat(text).astimezone(UTC) if re.fullmatch(MOMENT, text) else None
