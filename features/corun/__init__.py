"""The family ``corun`` in the features package."""

from features.supply import FeaturesSupply

SUPPLY = FeaturesSupply("features.corun.rates:featurize_stage")
