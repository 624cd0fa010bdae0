"""The search for a model's parameters and threshold, inside the training rows of one part."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from data.comparisons.params import Tune
from data.tables.digest import digest_of
from training.comparisons.examples import Examples
from training.comparisons.splits import group_folds
from training.estimators import catalogue, pipelines, spaces
from training.estimators.catalogue import CATALOGUE, Model
from training.estimators.pipelines import (
    InfeasibleError,
    fail_probability,
    pipeline,
    space_of,
    strict_pipeline,
)
from training.estimators.spaces import suggested
from training.evaluation import search as evaluation_search
from training.evaluation import threshold
from training.evaluation.search import Search, drawn
from training.evaluation.threshold import best_cut
from training.evaluation.tuned import Found, TrialRow, Tuned

if TYPE_CHECKING:
    from optuna import Study, Trial

#: Trials at random before the search learns from them, and before it prunes.
STARTUP = 6


@dataclass(frozen=True)
class Task:
    """One search: a model on the training rows of a part.

    Attributes
    ----------
    part, model : str
        Their names.
    examples : Examples
        The part's training rows.
    how : Tune
    seed : int
    log : Path or None
        Where finished trials are kept, so that an interrupted search goes on; in memory if None.
    """

    part: str
    model: str
    examples: Examples
    how: Tune
    seed: int
    log: Path | None = None


@dataclass(frozen=True)
class Classified(Tuned):
    """What a search chose of a classifier.

    Attributes
    ----------
    threshold : float
        ``fail`` from this probability on.
    """

    threshold: float


def search(task: Task) -> Found[Classified]:
    """Run or finish the search of `task`.

    The parameters come from the trials, on a sample of the rows if there are many; the threshold then
    comes from inner out-of-fold probabilities on all training rows. The result depends on the task alone:
    each trial has its own sampler, seeded by the trial's number, so that an interrupted search goes on as
    if it had not been.

    Raises
    ------
    InputError
        If fails or passes come from too few groups for the inner folds.
    """
    from optuna.pruners import MedianPruner

    model = CATALOGUE[task.model]
    objective = _Objective(model, task.examples.sample(task.how.rows, task.seed), task)
    how = Search(
        "maximize",
        task.how.trials,
        [model.start],
        lambda number: drawn(_seed(task, number), STARTUP),
        MedianPruner(n_startup_trials=STARTUP),
        task.log,
    )
    study = how.run(objective)
    trials = [_row(task, trial) for trial in study.trials]
    return Found(task.part, task.model, _tuned(study, model, task), trials)


class _Objective:
    """How well the suggested parameters separate fails from passes on rows that the fit has not seen.

    The value is the mean of two measures of the pooled inner out-of-fold probabilities: the balanced
    accuracy at the best threshold, which is what a verdict is worth, and the average precision, which
    looks at the whole ranking. The first alone moves in steps of half a fail's share and is easily lucky;
    the second steadies it and rewards models whose surest fails are fails.
    """

    def __init__(self, model: Model, examples: Examples, task: Task) -> None:
        self.model = model
        self.examples = examples
        self.seed = task.seed
        self.folds = group_folds(examples, task.how.folds, task.seed, f"{task.part} {task.model}")

    def __call__(self, trial: Trial) -> float | None:
        """Return the value of `trial`, or None if it is pruned."""
        params = {**suggested(space_of(self.model), trial), **self.model.in_search}
        tested: list[NDArray[np.int64]] = []
        probability = np.zeros(len(self.examples.y))
        value = 0.0
        for step, (train, test) in enumerate(self.folds):
            inside = self.examples.rows(train)
            try:
                fitted = strict_pipeline(self.model, params, inside.y, self.seed)
            except InfeasibleError:
                return None
            probability[test] = fail_probability(fitted.fit(inside.x, inside.y), self.examples.x[test])
            tested.append(test)
            seen = np.concatenate(tested)
            value = _worth(self.examples.y[seen], probability[seen])
            trial.report(value, step)
            if step + 1 < len(self.folds) and trial.should_prune():
                return None
        return value


def _worth(y: NDArray[np.int64], probability: NDArray[np.float64]) -> float:
    from sklearn.metrics import average_precision_score

    precision = float(average_precision_score(y, probability))
    return (best_cut(y, probability).balanced_accuracy + precision) / 2


def _tuned(study: Study, model: Model, task: Task) -> Classified:
    best = study.best_trial
    params = {**_fixed(model), **best.params}
    probability = _out_of_fold(model, params, task)
    cut = best_cut(task.examples.y, probability)
    return Classified(params, float(study.best_value), cut.threshold)


def _fixed(model: Model) -> dict[str, Any]:
    """Return what is not searched but is the same in every configuration."""
    return {name: model.start[name] for name in model.in_search}


def _out_of_fold(model: Model, params: dict[str, Any], task: Task) -> NDArray[np.float64]:
    examples = task.examples
    probability = np.zeros(len(examples.y))
    for train, test in group_folds(examples, task.how.folds, task.seed, f"{task.part} {task.model}"):
        inside = examples.rows(train)
        fitted = pipeline(model, params, inside.y, task.seed).fit(inside.x, inside.y)
        probability[test] = fail_probability(fitted, examples.x[test])
    return probability


def log_of(directory: Path, features_digest: str, columns: tuple[str, ...], task: Task) -> Path:
    """Return where the trials of `task` are kept: another file if anything differs that they depend on."""
    modules = (catalogue, spaces, pipelines, threshold, evaluation_search)
    code = digest_of(Path(__file__), *(Path(module.__file__ or "") for module in modules))
    content = [features_digest, columns, task.how.model_dump(exclude={"models"}), task.seed, code]
    digest = zlib.crc32(json.dumps(content, default=str).encode())
    return directory / f"{features_digest[:12]}-{digest:08x}" / task.part / f"{task.model}.log"


def _seed(task: Task, number: int) -> int:
    place = zlib.crc32(f"{task.part}/{task.model}".encode())
    return int(np.random.SeedSequence([task.seed, place, number]).generate_state(1)[0])


def _row(task: Task, trial: Any) -> TrialRow:
    complete = trial.state.name == "COMPLETE"
    return TrialRow(
        task.part,
        task.model,
        trial.number,
        trial.state.name.lower(),
        float(trial.value) if complete else None,
        json.dumps(trial.params, sort_keys=True),
    )
