"""Files in one piece: written so that no half is left, and read so that one line says what is wrong."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from data.errors import InputError
from data.tables.json_document import content_of

T = TypeVar("T")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it over `path` if the block succeeds.

    Parameters
    ----------
    path : Path
        The file to write. Missing parent directories are made.

    Yields
    ------
    Path
        The temporary path to write to. It is removed if the block raises.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        target = temporary / path.name
        yield target
        target.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in one piece."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON with sorted keys, so that equal content is equal bytes."""
    write_text(path, json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: Path, model: type[T]) -> T:
    """Read a JSON file of our own and validate it.

    Parameters
    ----------
    path : Path
    model : type
        What pydantic can validate: one of its models, or a dataclass.

    Raises
    ------
    InputError
        If it is missing, no JSON, or not what `model` says; names the first key that is wrong.
    """
    from pydantic import TypeAdapter, ValidationError

    from data.tables.given import said

    try:
        return TypeAdapter(model).validate_python(content_of(path))
    except ValidationError as exc:
        raise InputError(said(exc), file=path) from exc
