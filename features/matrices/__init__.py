"""The family ``matrices`` in the features package: from matrices of raw metrics to vectors."""

from features.supply import FeaturesSupply

SUPPLY = FeaturesSupply()
