"""Stage ``train``: fit every model to all labelled comparisons."""

from __future__ import annotations

from training.comparisons.bound import bound
from training.comparisons.examples import FeatureTable
from training.comparisons.family import Family
from training.comparisons.fitting import Fit, fitted
from training.comparisons.stored import Card, TrainedModel
from training.comparisons.tuning import Classified
from training.estimators.pipelines import answering
from training.evaluation.sidebyside import side_by_side
from training.evaluation.tuned import read_tuned


def train(family: Family) -> None:
    """Write every model to a directory of its own name."""
    table = FeatureTable.read(family.features, family.columns())
    examples, seed = table.examples, family.params.seed
    tuned = read_tuned(family.places.tuned, Classified)["all"]
    fits = [Fit(name, chosen, examples, examples.x[:0], seed) for name, chosen in tuned.items()]
    pipelines = side_by_side(fitted, fits, 1, f"train {family.name}")
    reference, floor = table.reference(), family.section.decide.floor or 0.0
    for fit, pipeline in zip(fits, pipelines, strict=True):
        chosen = fit.tuned
        card = Card(
            fit.model, table.columns, chosen.threshold, chosen.params, reference, table.digest, seed, floor
        )
        TrainedModel(answering(pipeline), card).write(family.places.models / fit.model)


def train_stage() -> None:
    """Stage train, in the working directory."""
    train(bound())
