"""The fingerprint of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from data.errors import InputError

_AT_ONCE = 2**20


def digest_of(*paths: Path) -> str:
    """Return the SHA-256 of these files, one after another.

    Raises
    ------
    InputError
        If one of them is missing.
    """
    digest = hashlib.sha256()
    for path in paths:
        try:
            with path.open("rb") as file:
                while piece := file.read(_AT_ONCE):
                    digest.update(piece)
        except OSError as exc:
            raise InputError(exc.strerror or "cannot be read", file=path) from exc
    return digest.hexdigest()
