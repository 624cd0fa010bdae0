"""The family ``fingerprints`` in the features package: from fingerprints to vectors."""

from features.supply import FeaturesSupply


def _featurize() -> None:
    from features.fingerprints.matrix import featurize_stage

    featurize_stage()


SUPPLY = FeaturesSupply(_featurize)
