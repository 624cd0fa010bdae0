"""The family ``comparisons`` in the features package."""

from features.supply import FeaturesSupply

SUPPLY = FeaturesSupply("features.comparisons.featurize:featurize_stage")
