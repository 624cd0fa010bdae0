"""Writing that leaves either the old file, the new file, or nothing: never a half."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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
