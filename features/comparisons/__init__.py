"""The family ``comparisons`` in the features package: from comparisons of two results to vectors."""

from features.supply import FeaturesSupply


def _featurize() -> None:
    from features.comparisons.featurize import featurize_stage

    featurize_stage()


SUPPLY = FeaturesSupply(_featurize)
