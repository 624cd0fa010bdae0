"""The family ``corun`` in the features package."""

from features.plugins import FeaturesPlugin

PLUGIN = FeaturesPlugin("features.corun.rates:featurize_stage")
