"""Measurements of co-runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.supply import DataSupply

if TYPE_CHECKING:
    from data.measure.screen import Screen
    from data.stages import Stages


def _stages() -> Stages[Any, Any]:
    from data.corun.stages import STAGES

    return STAGES


def _collect(suite: Path, directory: Path, screen: Screen) -> bool:
    from data.corun.collect import collect

    return collect(suite, directory, screen)


SUPPLY = DataSupply(_stages, suite="corun", collect=_collect)
