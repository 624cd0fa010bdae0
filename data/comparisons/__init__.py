"""Measurements of comparisons of two results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from data.supply import DataSupply

if TYPE_CHECKING:
    from data.measure.session import Screen


def _ingest() -> None:
    from data.comparisons.stages import ingest_stage

    ingest_stage()


def _validate() -> None:
    from data.comparisons.stages import validate_stage

    validate_stage()


def _collect(suite: Path, directory: Path, screen: Screen) -> bool:
    from data.comparisons.collect import collect

    return collect(suite, directory, screen)


SUPPLY = DataSupply(_ingest, _validate, suite="comparisons", collect=_collect)
