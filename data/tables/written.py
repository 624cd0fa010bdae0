"""What an earlier stage wrote as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from data.errors import InputError


def written(path: Path, stage: str) -> dict[str, Any]:
    """Read what `stage` wrote to `path`.

    Raises
    ------
    InputError
        If the file is missing or is no JSON.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise InputError(f"cannot be read; run {stage} first", file=path) from exc
    except ValueError as exc:
        raise InputError(f"is not JSON ({exc})", file=path) from exc
    return content
