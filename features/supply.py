"""The entry of a model family in the features package."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from data.stage import Stage


@dataclass(frozen=True)
class FeaturesSupply:
    """A family's entry in the features package."""

    #: The stage; None where vectors depend on the fold, and so are computed in training.
    featurize: Stage | None = None


def supply(family: str) -> FeaturesSupply:
    """Return the entry of `family`."""
    supplied: FeaturesSupply = import_module(f"features.{family}").SUPPLY
    return supplied
