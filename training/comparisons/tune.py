"""Stage ``tune``: search parameters and thresholds for every model in every part."""

from __future__ import annotations

from dataclasses import replace

from training.comparisons.bound import bound
from training.comparisons.examples import FeatureTable
from training.comparisons.family import Family
from training.comparisons.splits import parts
from training.comparisons.tuning import Task, log_of, search
from training.estimators.catalogue import CATALOGUE
from training.evaluation.sidebyside import side_by_side
from training.evaluation.tuned import require_known, slowest_first, write_found

#: Searches that take longest.
_SLOWEST = ("random-forest", "extra-trees", "xgboost", "decision-tree")


def tasks_of(family: Family, table: FeatureTable) -> list[Task]:
    """Return one search per part and model.

    Raises
    ------
    InputError
        If params.yaml names an unknown model, or there are too few fails or operations for the folds.
    """
    how, seed, examples = family.section.tune, family.params.seed, table.examples
    require_known(how.models, CATALOGUE, f"{family.name}.tune")
    tasks = [
        Task(part.name, model, examples.rows(part.train), how, seed)
        for model in slowest_first(how.models, _SLOWEST)
        for part in parts(examples, family.section.evaluate, seed)
    ]
    return [
        replace(task, log=log_of(family.places.studies, table.digest, table.columns, task)) for task in tasks
    ]


def tune(family: Family) -> None:
    """Write tuned.json and trials.parquet."""
    table = FeatureTable.read(family.features, family.columns())
    tasks = tasks_of(family, table)
    found = side_by_side(search, tasks, family.params.jobs, f"tune {family.name}")
    write_found(family.places.tuned, found)


def tune_stage() -> None:
    """Stage tune, in the working directory."""
    tune(bound())
