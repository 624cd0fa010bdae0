"""The family ``matrices`` in the features package."""

from features.supply import FeaturesSupply

SUPPLY = FeaturesSupply()
