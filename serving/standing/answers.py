"""Answers that were given, in any form, and which model gave them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data.errors import InputError

#: How answers that are not JSON name the model: by its address, or in the line that sums up.
_NAMED = (
    re.compile(r"models:/(?P<name>[^/@\"\s]+)/(?P<version>\d+)"),
    re.compile(r"\(model (?P<name>\S+) (?P<version>\d+)[,)]"),
)


@dataclass(frozen=True)
class GivenAnswer:
    """An answer, and who gave it.

    Attributes
    ----------
    name, version : str
    shown : {"json", "xml", "junit", "markdown", "table"}
    content : bytes
    model : mapping
        All that an answer in JSON says of the model.
    """

    name: str
    version: str
    shown: str
    content: bytes
    model: Mapping[str, Any] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """The address of the model."""
        return f"models:/{self.name}/{self.version}"

    @classmethod
    def read(cls, path: Path) -> GivenAnswer:
        """Read an answer.

        Raises
        ------
        InputError
            If the file cannot be read, or names no registered version.
        """
        try:
            content = path.read_bytes()
        except OSError as exc:
            raise InputError(exc.strerror or "cannot be read", file=path) from exc
        text = content.decode(errors="replace").lstrip("\ufeff \t\r\n")
        if text.startswith("{"):
            return cls._of_json(text, content, path)
        found = next((match for one in _NAMED if (match := one.search(text))), None)
        if found is None:
            raise InputError("names no model; expected an answer with models:/NAME/VERSION", file=path)
        return cls(found["name"], found["version"], _form(text), content)

    @classmethod
    def _of_json(cls, text: str, content: bytes, path: Path) -> GivenAnswer:
        try:
            model = json.loads(text)["model"]
            named = _NAMED[0].fullmatch(model["uri"])
        except (ValueError, LookupError, TypeError) as exc:
            told = 'is no answer; expected {"model": {"name", "version", "uri"}, ...}'
            raise InputError(told, file=path) from exc
        if named is None:
            told = f"model.uri={model['uri']!r} is no registered version; expected models:/NAME/VERSION"
            raise InputError(told, file=path)
        return cls(named["name"], named["version"], "json", content, model)


def _form(text: str) -> str:
    if text.startswith("<"):
        return "junit" if "<testsuites" in text else "xml"
    return "markdown" if "| verdict |" in text else "table"
