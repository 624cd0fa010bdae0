"""Models fitted to the measured comparisons that are shipped."""

from functools import cache
from pathlib import Path

from data.comparisons.formats import read_tables
from data.comparisons.params import LabelRules, Measure
from data.comparisons.stages import validate_comparisons
from features.comparisons.featurize import training_tables
from features.comparisons.vectors import model_columns
from training.comparisons.family import FeatureTable
from training.comparisons.stored import Card, TrainedModel
from training.estimators.catalogue import CATALOGUE, build_pipeline, fail_probability, without_sampler
from training.evaluation.thresholds import best_cut

MEASURED = Path(__file__).parents[3] / "data" / "raw" / "measured"


def measured_tables():
    rules = {"label_rules": LabelRules(), "measure": Measure()}
    return read_tables("tables", [MEASURED], **rules, keep_going=True).tables


@cache
def measured():
    """Return the vectors of the shipped comparisons, and what runs of one build differ by."""
    tables = measured_tables()
    found = training_tables(tables, validate_comparisons(tables).comparisons)
    spread = float(found["runs"]["spread"].iloc[0])
    return FeatureTable(found["features"], model_columns("extended"), ""), spread


def trained(name, params=None, *, guided=True):
    table, spread = measured()
    model, examples = CATALOGUE[name], table.examples
    guide = table.constraints if guided else None
    fitted = build_pipeline(model, {**model.start, **(params or {})}, examples.y, 1, guide)
    fitted.fit(examples.x, examples.y)
    cut = best_cut(examples.y, fail_probability(fitted, examples.x)).threshold
    reference = table.reference_medians()
    card = Card(name, table.columns, cut, {}, reference, "d", 1, run_spread=spread)
    return TrainedModel(without_sampler(fitted), card)
