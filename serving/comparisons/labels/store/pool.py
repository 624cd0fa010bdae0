"""Which comparisons may be labelled."""

from __future__ import annotations

from typing import Protocol


class Labellable(Protocol):
    """Comparisons that may be labelled."""

    def identifier(self, name: str) -> str | None:
        """Return the comparison_id that `name`, itself one or the key of a page, stands for; None if none."""
