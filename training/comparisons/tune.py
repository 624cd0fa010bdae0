"""Stage ``tune``: search parameters and thresholds for every model in every part."""

from __future__ import annotations

from dataclasses import asdict, replace

import pandas as pd

from data.errors import InputError
from data.tables.files import replacing, write_json
from training.comparisons.bound import bound
from training.comparisons.examples import FeatureTable
from training.comparisons.family import Family
from training.comparisons.splits import parts
from training.comparisons.tuning import Found, Task, log_of, search
from training.estimators.catalogue import CATALOGUE
from training.evaluation.sidebyside import side_by_side

#: Searches that take longest begin first, so that no process is left with one at the end.
_SLOWEST = ("random-forest", "extra-trees", "xgboost", "decision-tree")


def tasks_of(family: Family, table: FeatureTable) -> list[Task]:
    """Return one search per part and model.

    Raises
    ------
    InputError
        If params.yaml names an unknown model, or there are too few fails or operations for the folds.
    """
    how, seed, examples = family.section.tune, family.params.seed, table.examples
    unknown = [name for name in how.models if name not in CATALOGUE]
    if unknown:
        raise InputError(
            f"models={unknown[0]!r} is none of {', '.join(CATALOGUE)}",
            file="params.yaml",
            place=f"{family.name}.tune",
        )
    tasks = [
        Task(part.name, model, examples.rows(part.train), how, seed)
        for model in sorted(how.models, key=_order)
        for part in parts(examples, family.section.evaluate, seed)
    ]
    return [
        replace(task, log=log_of(family.places.studies, table.digest, table.columns, task)) for task in tasks
    ]


def _order(model: str) -> int:
    return _SLOWEST.index(model) if model in _SLOWEST else len(_SLOWEST)


def tune(family: Family) -> None:
    """Write tuned.json and trials.parquet."""
    table = FeatureTable.read(family.features, family.columns())
    tasks = tasks_of(family, table)
    found = side_by_side(search, tasks, family.params.jobs, f"tune {family.name}")
    write_json(family.places.tuned / "tuned.json", _tuned(tasks, found))
    with replacing(family.places.tuned / "trials.parquet") as path:
        _trials(found).to_parquet(path, index=False)


def _tuned(tasks: list[Task], found: list[Found]) -> dict[str, dict[str, object]]:
    tuned: dict[str, dict[str, object]] = {}
    for task, one in zip(tasks, found, strict=True):
        tuned.setdefault(task.part, {})[task.model] = asdict(one.tuned)
    return tuned


def _trials(found: list[Found]) -> pd.DataFrame:
    rows = [asdict(row) for one in found for row in one.trials]
    return pd.DataFrame(rows).sort_values(["part", "model", "trial"], ignore_index=True)


def tune_stage() -> None:
    """Stage tune, in the working directory."""
    tune(bound())
