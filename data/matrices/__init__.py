"""Measurements of matrices of raw metrics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.supply import DataSupply

if TYPE_CHECKING:
    from data.measure.screen import Screen
    from data.stages import Stages


def _stages() -> Stages[Any, Any]:
    from data.matrices.stages import STAGES

    return STAGES


def _collect(suite: Path, directory: Path, screen: Screen) -> bool:
    from data.matrices.collect import collect

    return collect(suite, directory, screen)


SUPPLY = DataSupply(_stages, suite="matrix", collect=_collect)
