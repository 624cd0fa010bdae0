"""The entry of a model family in the features package."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from data.stage import Stage


@dataclass(frozen=True)
class FeaturesSupply:
    """A family's entry in the features package."""

    #: The stage or its import string; None where vectors depend on the fold and are computed in training.
    featurize: Stage | str | None = None


def supply(family: str) -> FeaturesSupply:
    """Return the entry of `family`."""
    supplied: FeaturesSupply = import_module(f"features.{family}").SUPPLY
    return supplied
