"""What a person saw who looked at the pictures, by operation and first version of the target."""

from __future__ import annotations

from collections.abc import Mapping

LOOKED_AT: Mapping[str, tuple[str, str]] = {}
