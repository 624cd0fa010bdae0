"""What a family supplies to the room where measurements come in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from data.stage import Stage

if TYPE_CHECKING:
    from data.measure.screen import Screen


@dataclass(frozen=True)
class DataSupply:
    """A family's part of this room; what it calls is imported when it is called.

    Attributes
    ----------
    ingest, validate : callable
        The stages.
    suite : str
        The ``kind`` of the suites that `collect` measures.
    collect : callable
        Measures a suite into a directory, and tells whether everything was measured.
    """

    ingest: Stage
    validate: Stage
    suite: str
    collect: Callable[[Path, Path, Screen], bool]


def supply(family: str) -> DataSupply:
    """Return what `family` supplies to this room."""
    supplied: DataSupply = import_module(f"data.{family}").SUPPLY
    return supplied
