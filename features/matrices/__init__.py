"""From matrices of raw metrics to vectors."""

from features.supply import FeaturesSupply

SUPPLY = FeaturesSupply()
