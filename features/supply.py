"""What a family supplies to the room where measurements become vectors."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from data.stage import Stage


@dataclass(frozen=True)
class FeaturesSupply:
    """A family's part of this room."""

    #: The stage; None where vectors depend on the fold, and so are made in training.
    featurize: Stage | None = None


def supply(family: str) -> FeaturesSupply:
    """Return what `family` supplies to this room."""
    supplied: FeaturesSupply = import_module(f"features.{family}").SUPPLY
    return supplied
