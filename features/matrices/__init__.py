"""The family ``matrices`` in the features package."""

from features.plugins import FeaturesPlugin

PLUGIN = FeaturesPlugin()
