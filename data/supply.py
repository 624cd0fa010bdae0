"""What a family supplies to the room where measurements come in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from data.stage import Stage

if TYPE_CHECKING:
    from data.measure.session import Screen


@dataclass(frozen=True)
class DataSupply:
    """A family's part of this room; what it calls is imported when it is called.

    Attributes
    ----------
    ingest : callable
    validate : callable or None
        The stages; None where a family has no such stage.
    suite : str
        The ``kind`` of the suites that `collect` measures.
    collect : callable or None
        Measures a suite into a directory, and tells whether everything was measured; None where nothing does.
    """

    ingest: Stage
    validate: Stage | None = None
    suite: str = ""
    collect: Callable[[Path, Path, Screen], bool] | None = None


def supply(family: str) -> DataSupply:
    """Return what `family` supplies to this room."""
    supplied: DataSupply = import_module(f"data.{family}").SUPPLY
    return supplied
