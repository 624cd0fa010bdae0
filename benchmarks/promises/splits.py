"""One random split: a quick model learns, promises and decides on one side, and is counted on the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.params import Decide
from data.paths import Places
from features.comparisons.vectors import columns
from training.comparisons.decision import HeldRows, below_floor, decision, outcomes, read_changes
from training.comparisons.family import Examples, FeatureTable, group_folds
from training.estimators.answering import Guide
from training.estimators.catalogue import CATALOGUE, fail_probability, pipeline
from training.evaluation.calibration import calibration_error
from training.evaluation.thresholds import best_cut

Floats = NDArray[np.float64]

#: No search: of boosted trees, parameters between those that searches choose where passes are many.
PARAMS: Mapping[str, Mapping[str, float]] = {
    "xgboost": {
        "trees": 120,
        "rate_of_learning": 0.08,
        "child_weight": 10.0,
        "columns": 0.5,
        "subsample": 0.8,
    }
}
INNER_FOLDS = 3
#: What is asked for beside the promises: at most that share of false alarms, that share sent to a person.
ASKED = Decide(false_alarms=0.01, looks=0.05)


@dataclass(frozen=True)
class Labelled:
    """Labelled vectors, and which lie below the floor."""

    examples: Examples
    below: NDArray[np.bool_]
    guide: Guide | None
    digest: str

    @classmethod
    def read(cls, root: Path, floor: float) -> Labelled:
        """Read what featurize wrote under `root`."""
        place = Places("comparisons", root).processed
        table = FeatureTable.read(place / "features.parquet", columns("extended"))
        below = below_floor(read_changes(place / "changes.parquet", table), floor)
        return cls(replace(table.examples, below=below), below, table.guide, table.digest)


@dataclass(frozen=True)
class Became:
    """What became of a split: the counts, and the error of the calibrated probabilities."""

    counted: pd.DataFrame
    calibration_error: float
    raw_error: float


def split(labelled: Labelled, share: float, model: str, seed: int) -> Became:
    """Hold that share of the operations out, at random, and fit `model` to the others."""
    examples = labelled.examples
    names = np.unique(examples.groups)
    drawn = np.random.default_rng(seed).permutation(len(names))[: int(share * len(names))]
    out = np.isin(examples.groups, names[drawn])
    train, test = np.flatnonzero(~out), np.flatnonzero(out)
    inside = examples.rows(train)
    inner = np.zeros(len(train))
    for fitted_on, asked in group_folds(inside, INNER_FOLDS, seed, "inner folds"):
        inner[asked] = _said(labelled, model, inside.rows(fitted_on), inside.x[asked], seed)
    held = HeldRows(inside.y, inside.groups, inner, labelled.below[train])
    found = decision(held, best_cut(inside.y, np.where(inside.asked, inner, 0.0)).threshold, ASKED, seed)
    raw = _said(labelled, model, inside, examples.x[test], seed)
    below, y = labelled.below[test], examples.y[test]
    told = found.told(raw, below)
    errors = (calibration_error(y, np.where(below, 0.0, one)) for one in (told, raw))
    return Became(outcomes(found, y, told, below).assign(split=seed), *errors)


def _said(labelled: Labelled, name: str, examples: Examples, asked: Floats, seed: int) -> Floats:
    model, lessons = CATALOGUE[name], examples.lessons
    unfitted = pipeline(model, {**model.start, **PARAMS.get(name, {})}, lessons.y, seed, labelled.guide)
    return fail_probability(unfitted.fit(lessons.x, lessons.y), asked)
