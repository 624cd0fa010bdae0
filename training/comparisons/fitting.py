"""Fits with the parameters that the searches chose."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from training.comparisons.examples import Examples
from training.comparisons.tuning import Tuned
from training.estimators.catalogue import CATALOGUE
from training.estimators.pipelines import fail_probability, pipeline


@dataclass(frozen=True)
class Fit:
    """A model to fit to the rows of `train`, and to ask about the vectors of `test`."""

    model: str
    tuned: Tuned
    train: Examples
    test: NDArray[np.float64]
    seed: int


def read_tuned(path: Path) -> dict[str, dict[str, Tuned]]:
    """Read tuned.json: what was chosen, by part and model.

    Raises
    ------
    InputError
        If the file is missing or is no such JSON.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {
            part: {name: Tuned(**tuned) for name, tuned in models.items()} for part, models in content.items()
        }
    except OSError as exc:
        raise InputError("cannot be read; run tune first", file=path) from exc
    except (ValueError, TypeError, AttributeError) as exc:
        raise InputError(f"is not what tune writes ({exc})", file=path) from exc


def fitted(fit: Fit) -> Any:
    """Return the fitted pipeline of `fit`."""
    unfitted = pipeline(CATALOGUE[fit.model], fit.tuned.params, fit.train.y, fit.seed)
    return unfitted.fit(fit.train.x, fit.train.y)


def tested(fit: Fit) -> NDArray[np.float64]:
    """Fit, and return the probability of fail of every test row."""
    return fail_probability(fitted(fit), fit.test)
