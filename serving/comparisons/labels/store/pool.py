"""Which comparisons may be labelled."""

from __future__ import annotations

from typing import Protocol


class Labellable(Protocol):
    """Comparisons that may be labelled."""

    def known(self, comparison_id: str) -> bool:
        """Whether there is a comparison of this name."""
