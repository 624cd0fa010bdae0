"""The family ``fingerprints`` in the features package."""

from features.supply import FeaturesSupply

SUPPLY = FeaturesSupply("features.fingerprints.matrix:featurize_stage")
