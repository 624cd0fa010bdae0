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
from training.corun.splits import Part, inner
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
    part : Part
        Inner folds hold out what its design holds out.
    recipe : Recipe
        Without parameters.
    rows : DataFrame
        The part's training rows.
    how : TuneImpact
    """

    part: Part
    recipe: Recipe
    rows: pd.DataFrame
    how: TuneImpact


def search(task: ImpactTask) -> Found[Tuned]:
    """Run the search of `task`; the same task gives the same outcome."""
    part, name = task.part.name, task.recipe.model
    model, rows = CATALOGUE[name], _sampled(task)
    divided = inner(rows, task.part.design, task.how.folds, task.recipe.seed)
    place = zlib.crc32(f"{part}/{name}".encode())
    seed = int(np.random.SeedSequence([task.recipe.seed, place]).generate_state(1)[0])
    sampler = drawn(seed, STARTUP)
    tried: list[dict[str, Any]] = []

    def error(trial: Trial) -> float:
        tried.append(suggested(model.space, trial))
        recipe = replace(task.recipe, params={**tried[-1], **model.in_search})
        errors = [_error(recipe, rows.iloc[train], rows.iloc[test]) for train, test in divided]
        return float(np.mean(np.concatenate(errors)))

    first = model.first(len(task.recipe.rates))
    study = Search("minimize", task.how.trials, [first], lambda _: sampler).run(error)
    trials = [
        TrialRow(
            part, name, one.number, one.state.name.lower(), one.value, json.dumps(params, sort_keys=True)
        )
        for one, params in zip(study.trials, tried, strict=True)
    ]
    return Found(part, name, Tuned(tried[study.best_trial.number], float(study.best_value)), trials)


def _sampled(task: ImpactTask) -> pd.DataFrame:
    if len(task.rows) <= task.how.rows:
        return task.rows
    drawn = np.random.default_rng(task.recipe.seed).choice(len(task.rows), task.how.rows, replace=False)
    return task.rows.iloc[np.sort(drawn)]


def _error(recipe: Recipe, train: pd.DataFrame, test: pd.DataFrame) -> Floats:
    fitted = recipe.fit(train)
    predicted = fitted.predict(test)
    if CATALOGUE[recipe.model].kind == "classification":
        return 1.0 - fitted.right(test, predicted, recipe.share).astype(np.float64)
    return np.abs(predicted / test["impact"].to_numpy(np.float64) - 1)
