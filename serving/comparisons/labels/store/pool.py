"""Which comparisons may be labelled."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Protocol

from data.errors import InputError


class Labellable(Protocol):
    """Comparisons that may be labelled."""

    def known(self, comparison_id: str) -> bool:
        """Whether there is a comparison of this name."""


class NamedComparisons:
    """The comparisons of a source, by their names; it is read when it is first asked.

    Parameters
    ----------
    source : Path
        Comparisons in any supported format.
    """

    def __init__(self, source: Path) -> None:
        self._source = source

    def known(self, comparison_id: str) -> bool:
        """Whether there is a comparison of this name; InputError if the source cannot be read."""
        return comparison_id in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        from data.comparisons import formats

        if not self._source.exists():
            raise InputError("no such file or directory", file=self._source)
        return frozenset(
            formats.read(formats.sniff(self._source), [self._source]).tables.comparisons["comparison_id"]
        )
