"""Models of the catalogue fitted to random vectors with gaps."""

from functools import cache

import numpy as np

from training.comparisons.stored import Card, TrainedModel
from training.estimators.catalogue import CATALOGUE, build_pipeline, without_sampler

NAMES = tuple("abcdef")


def vectors(rows, seed):
    """Six features with gaps; one is never known, one has few values, so that some equal a threshold."""
    generator = np.random.default_rng(seed)
    columns = generator.normal(size=(rows, len(NAMES)))
    columns[:, 1] = np.round(columns[:, 1] * 2) / 2
    columns[generator.random(columns.shape) < 0.2] = np.nan
    columns[:, 5] = np.nan
    return columns


@cache
def trained(name, weights="balanced", seed=0):
    """Fit the first configuration of a model of the catalogue to noisy labels, which make deep trees."""
    columns, generator = vectors(300, seed), np.random.default_rng(seed + 1)
    fails = (np.nan_to_num(columns[:, 0]) + generator.normal(0, 1, 300) < -0.7).astype(np.int64)
    model = CATALOGUE[name]
    params = {**model.start, "weights": weights, "cost_ratio": 3.0}
    fitted = without_sampler(build_pipeline(model, params, fails, seed).fit(columns, fails))
    return TrainedModel(fitted, Card(name, NAMES, 0.5, {}, dict.fromkeys(NAMES, 0.0), "d", seed))
