"""Fits with the parameters that the searches chose; stage ``train`` fits to all labelled comparisons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.sidebyside import side_by_side
from training.comparisons.decision import examples_of
from training.comparisons.examples import Examples, FeatureTable
from training.comparisons.family import Family
from training.comparisons.held import HeldRows, decision, read_held
from training.comparisons.labels.beside import known_of
from training.comparisons.remembering import remember
from training.comparisons.runs import read_run_spread
from training.comparisons.stored import Card, TrainedModel
from training.comparisons.tune import Classified
from training.estimators.catalogue import CATALOGUE
from training.estimators.guide import Guide
from training.estimators.novelty import warned
from training.estimators.pipelines import answering, fail_probability, pipeline
from training.evaluation.tuned import read_tuned
from training.registry.deciles import of_features


@dataclass(frozen=True)
class Fit:
    """A model to fit to the rows of `train`, and to ask about the vectors of `test`."""

    model: str
    tuned: Classified
    train: Examples
    test: NDArray[np.float64]
    seed: int
    guide: Guide | None = None


def fitted(fit: Fit) -> Any:
    """Return the fitted pipeline of `fit`."""
    unfitted = pipeline(CATALOGUE[fit.model], fit.tuned.params, fit.train.y, fit.seed, fit.guide)
    return unfitted.fit(fit.train.x, fit.train.y)


def tested(fit: Fit) -> NDArray[np.float64]:
    """Fit, and return the probability of fail of every test row."""
    return fail_probability(fitted(fit), fit.test)


def train(family: Family) -> None:
    """Write every model to a directory of its own name."""
    table = FeatureTable.read(family.features, family.columns())
    examples, seed = examples_of(family, table), family.params.seed
    tuned = read_tuned(family.places.tuned, Classified)["all"]
    learnt = known_of(family.features, table, examples).learnt
    fits = [Fit(name, chosen, learnt, examples.x[:0], seed, table.guide) for name, chosen in tuned.items()]
    pipelines = side_by_side(fitted, fits, replace(family.params.compute, jobs=1), f"train {family.name}")
    how = family.section.decide
    reference, floor = table.reference(), how.floor or 0.0
    usual = of_features(table.columns, examples.x[examples.asked])
    seen = examples.seen
    strangeness = warned(seen.x, seen.groups)
    said = read_held(family.places.tuned, [("all", name) for name in tuned])
    for fit, whole, probability in zip(fits, pipelines, said, strict=True):
        chosen = fit.tuned
        held = HeldRows(examples.y, examples.groups, probability, ~examples.asked)
        found = decision(held, chosen.threshold, how, seed)
        card = Card(
            fit.model,
            table.columns,
            found.threshold,
            chosen.params,
            reference,
            table.digest,
            seed,
            floor,
            usual,
            found.calibration,
            found.beneath,
            found.promise,
            found.cuts,
            found.wish,
            read_run_spread(family.runs),
            strangeness,
        )
        model, directory = TrainedModel(answering(whole), card), family.places.models / fit.model
        model.write(directory)
        remember(model, table, seen, family.places.interim / "labels.parquet", directory)
