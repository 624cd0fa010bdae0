"""From co-runs to vectors."""

from features.supply import FeaturesSupply


def _featurize() -> None:
    from features.corun.rates import featurize_stage

    featurize_stage()


SUPPLY = FeaturesSupply(_featurize)
