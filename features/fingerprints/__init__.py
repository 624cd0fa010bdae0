"""The family ``fingerprints`` in the features package."""

from features.plugins import FeaturesPlugin

PLUGIN = FeaturesPlugin("features.fingerprints.matrix:featurize_stage")
