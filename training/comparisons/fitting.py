"""Fits with the parameters that the searches chose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.comparisons.examples import Examples
from training.comparisons.tuning import Classified
from training.estimators.catalogue import CATALOGUE
from training.estimators.pipelines import fail_probability, pipeline


@dataclass(frozen=True)
class Fit:
    """A model to fit to the rows of `train`, and to ask about the vectors of `test`."""

    model: str
    tuned: Classified
    train: Examples
    test: NDArray[np.float64]
    seed: int


def fitted(fit: Fit) -> Any:
    """Return the fitted pipeline of `fit`."""
    unfitted = pipeline(CATALOGUE[fit.model], fit.tuned.params, fit.train.y, fit.seed)
    return unfitted.fit(fit.train.x, fit.train.y)


def tested(fit: Fit) -> NDArray[np.float64]:
    """Fit, and return the probability of fail of every test row."""
    return fail_probability(fitted(fit), fit.test)
