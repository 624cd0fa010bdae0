"""The family ``corun`` in the features package."""

from features.plugins import FeaturesPlugin

PLUGIN = FeaturesPlugin("features.corun.featurize:featurize_stage")
