"""Measurements of fingerprints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.supply import DataSupply

if TYPE_CHECKING:
    from data.measure.screen import Screen
    from data.stages import Stages


def _stages() -> Stages[Any, Any]:
    from data.fingerprints.stages import STAGES

    return STAGES


def _collect(suite: Path, directory: Path, screen: Screen) -> bool:
    from data.fingerprints.collect import collect

    return collect(suite, directory, screen)


SUPPLY = DataSupply(_stages, suite="fingerprint", collect=_collect)
