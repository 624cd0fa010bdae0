"""The family ``comparisons`` in the features package."""

from features.plugins import FeaturesPlugin

PLUGIN = FeaturesPlugin("features.comparisons.featurize:featurize_stage")
