"""What a family supplies to the room where vectors become models."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from data.stage import Stage


@dataclass(frozen=True)
class TrainingSupply:
    """A family's part of this room: the stages that it has.

    Attributes
    ----------
    evaluate : callable
    tune, train, profile, promote : callable or None
        None where a family has no such stage; dvc.yaml has no such stage then either.
    trusted : tuple of str
        The types of its own that a stored model may hold; see `training.registry.trusted`.
    """

    evaluate: Stage
    tune: Stage | None = None
    train: Stage | None = None
    profile: Stage | None = None
    promote: Stage | None = None
    trusted: tuple[str, ...] = ()


def supply(family: str) -> TrainingSupply:
    """Return what `family` supplies to this room."""
    supplied: TrainingSupply = import_module(f"training.{family}").SUPPLY
    return supplied
