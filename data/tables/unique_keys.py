"""Keys of JSON objects and YAML mappings: none may appear twice, since a reader keeps one value only."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import yaml

from data.errors import InputError

_PLACES = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"[ \t\n\r]*:?|[][{},]', re.DOTALL)
#: Lists of numbers: without them there is less to decode, and equal keys are still equal.
_NUMBERS = re.compile(rb"\[[0-9eE+\-., \t\n\r]*+\]")
#: How a colon is escaped, but for its last letter.
_ESCAPED_COLON = b"\\u003"
#: Bytes of JSON that become objects at once.
_AT_ONCE = 1 << 20
#: Characters of a key that a message quotes.
_QUOTED = 60
_MERGE = "tag:yaml.org,2002:merge"


def require_unique_keys(document: bytes) -> None:
    """Refuse JSON in which an object has a key twice, however the key is escaped.

    Parameters
    ----------
    document : bytes
        Valid JSON in UTF-8.

    Raises
    ------
    InputError
        Naming the key, the object's place and the line.
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
    return f"[{step}]" if isinstance(step, int) else f".{step[:_QUOTED]}"


def _twice(key: object) -> str:
    return f"the key {json.dumps(str(key)[:_QUOTED], ensure_ascii=False)} appears twice"


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
