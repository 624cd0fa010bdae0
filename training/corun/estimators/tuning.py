"""The search for an impact model's parameters, inside the training rows of one part."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.corun.params import TuneImpact
from training.corun.estimators.fitting import Recipe
from training.corun.estimators.models import CATALOGUE
from training.corun.splits import inner
from training.estimators.spaces import suggested
from training.evaluation.search import Search, drawn
from training.evaluation.tuned import Found, TrialRow, Tuned

if TYPE_CHECKING:
    from optuna import Trial

Floats = NDArray[np.float64]
#: Trials at random before the search learns from them.
STARTUP = 4


@dataclass(frozen=True)
class ImpactTask:
    """One search: a model on the training rows of a part.

    Attributes
    ----------
    part, design : str
        Inner folds hold out what `design` holds out.
    recipe : Recipe
        Without parameters.
    rows : DataFrame
        The part's training rows.
    how : TuneImpact
    """

    part: str
    design: str
    recipe: Recipe
    rows: pd.DataFrame
    how: TuneImpact


def search(task: ImpactTask) -> Found[Tuned]:
    """Run the search of `task`; the same task gives the same outcome."""
    model = CATALOGUE[task.recipe.model]
    rows = _sampled(task)
    divided = inner(rows, task.design, task.how.folds, task.recipe.seed)
    place = zlib.crc32(f"{task.part}/{task.recipe.model}".encode())
    seed = int(np.random.SeedSequence([task.recipe.seed, place]).generate_state(1)[0])
    sampler = drawn(seed, STARTUP)
    tried: list[dict[str, Any]] = []

    def error(trial: Trial) -> float:
        params = suggested(model.space, trial)
        tried.append(params)
        errors = [
            _error(task, {**params, **model.in_search}, rows.iloc[train], rows.iloc[test])
            for train, test in divided
        ]
        return float(np.mean(np.concatenate(errors)))

    first = model.first(len(task.recipe.rates))
    study = Search("minimize", task.how.trials, [first], lambda _: sampler).run(error)
    part, name = task.part, task.recipe.model
    trials = [
        TrialRow(
            part,
            name,
            trial.number,
            trial.state.name.lower(),
            trial.value,
            json.dumps(params, sort_keys=True),
        )
        for trial, params in zip(study.trials, tried, strict=True)
    ]
    return Found(part, name, Tuned(tried[study.best_trial.number], float(study.best_value)), trials)


def _sampled(task: ImpactTask) -> pd.DataFrame:
    if len(task.rows) <= task.how.rows:
        return task.rows
    drawn = np.random.default_rng(task.recipe.seed).choice(len(task.rows), task.how.rows, replace=False)
    return task.rows.iloc[np.sort(drawn)]


def _error(task: ImpactTask, params: dict[str, Any], train: pd.DataFrame, test: pd.DataFrame) -> Floats:
    fitted = replace(task.recipe, params=params).fit(train)
    predicted = fitted.predict(test)
    if CATALOGUE[task.recipe.model].kind == "classification":
        return 1.0 - fitted.right(test, predicted, task.recipe.share).astype(np.float64)
    return np.abs(predicted / test["impact"].to_numpy(np.float64) - 1)
