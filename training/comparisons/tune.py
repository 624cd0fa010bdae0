"""Stage ``tune``: search every model's parameters and threshold, inside the training rows of each part."""

from __future__ import annotations

import inspect
import json
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from data.comparisons.params import Tune
from data.errors import InputError
from data.parallel import side_by_side
from data.tables.files import digest_of
from training.comparisons import label_review
from training.comparisons.decision import examples_of, write_out_of_fold
from training.comparisons.family import Examples, Family, FeatureTable, all_parts, group_folds
from training.comparisons.label_review import Learnable, digest_beside, read_training_data
from training.estimators import catalogue, monotone, preparation
from training.estimators.answering import MonotoneConstraints
from training.estimators.catalogue import (
    CATALOGUE,
    InfeasibleError,
    build_pipeline,
    fail_probability,
    space_of,
    strict_pipeline,
    suggest_params,
)
from training.evaluation import search as evaluation_search
from training.evaluation import thresholds
from training.evaluation.metrics import average_precision
from training.evaluation.search import (
    Search,
    SearchOutcome,
    TrialLog,
    TrialRow,
    Tuned,
    require_known,
    slowest_first,
    tpe_sampler,
    write_outcomes,
)
from training.evaluation.thresholds import best_cut

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.samplers import BaseSampler

#: Models whose searches take longest.
_SLOWEST = ("random-forest", "extra-trees", "xgboost", "decision-tree")
#: Number of random trials before the search learns from them.
STARTUP = 6
#: Number of first steps of a pipeline, which impute and scale.
_PREPARING = 2


@dataclass(frozen=True)
class SearchTask:
    """A search: a model on the training rows of a part."""

    #: part, model: their names.
    part: str
    model: str
    data: Learnable  # the part's training rows, and the extra training data
    how: Tune
    seed: int
    #: Store of finished trials, so that an interrupted search can continue; None: in memory.
    log: TrialLog | None = None
    constraints: MonotoneConstraints | None = None  # constraints on the columns


@dataclass(frozen=True)
class Classified(Tuned):
    """The parameters and the threshold that a search chose for a classifier."""

    threshold: float  # ``fail`` from this probability on


def run_search(task: SearchTask) -> SearchOutcome[Classified]:
    """Run or continue a search; return ``tuned`` (``params, score, threshold``), ``trials``, ``out_of_fold``.

    ``params`` are those of the best trial, but those in `Model.in_search` get their values of `Model.start`.
    If more than ``task.how.max_rows`` rows need a model, the trials leave out random passes. The score of a
    trial is the mean of best balanced accuracy and average precision on the rows of all inner folds together;
    the highest wins. A trial stops early unless its score is among the best quarter of the trials before.
    ``out_of_fold`` has the inner out-of-fold probabilities of all user-labelled training rows, not
    calibrated. ``threshold`` has the best balanced accuracy on these or, with extra training data or
    unlabelled rows, is from `label_review.choose_threshold`. Only for score and threshold, rows below the
    minimum effect size have the probability 0. The result depends on the task alone: each trial has its own
    sampler, seeded by the trial's number, so that an interrupted and continued search has the same result.
    InputError if the rows cannot be split into folds with both labels, or are too few for all parameters that
    the trials try.
    """
    from sklearn import config_context

    model, examples = CATALOGUE[task.model], task.data.user_labels
    some = examples.drop_passes(task.how.max_rows, task.seed)
    folds = folds_of(some, task)

    def sampler(number: int) -> BaseSampler:
        return tpe_sampler(_trial_seed(task, number), STARTUP)

    how = Search("maximize", task.how.n_trials, [model.start], sampler, task.log)
    # parameters come from the catalogue; checking them takes as long as some fits
    with config_context(skip_parameter_validation=True):
        study = how.run(lambda trial: _trial_score(trial, task, some, folds))
    try:
        best = study.best_params
    except ValueError as exc:
        problem = f"no tried parameters are possible with {len(some.y)} comparisons; expected more of them"
        raise InputError(problem, place=f"{task.part} {task.model}") from exc
    params = {**{name: model.start[name] for name in model.in_search}, **best}
    if some is not examples:
        folds = folds_of(examples, task)
    probability = np.zeros(len(examples.y))
    for fold in folds:
        unfitted = build_pipeline(model, params, fold.y, task.seed, task.constraints)
        probability[fold.rows] = fold.fit_and_predict(unfitted)
    if task.data.only_user_labels:
        chosen = best_cut(examples.y, np.where(examples.needs_model, probability, 0.0)).threshold
    else:

        def fit_rows_of(rows: Examples) -> Any:
            return build_pipeline(model, params, rows.y, task.seed, task.constraints).fit(rows.x, rows.y)

        fitted = fit_rows_of(task.data.all_rows)
        chosen = label_review.choose_threshold(task.data, fitted, fit_rows_of, task.seed)
    tuned = Classified(params, float(study.best_value), chosen)
    trials = [_trial_row(task, trial) for trial in study.trials]
    return SearchOutcome(task.part, task.model, tuned, trials, probability)


@dataclass(frozen=True)
class InnerFold:
    """An inner fold; its rows are imputed and scaled, which does not depend on searched parameters."""

    #: x, y: the training rows.
    x: NDArray[np.float64]
    y: NDArray[np.int64]
    test: NDArray[np.float64]  # shape (n_test, n_features): The test rows
    rows: NDArray[np.int64]  # shape (n_test,): The numbers of these rows

    def fit_and_predict(self, unfitted: Any) -> NDArray[np.float64]:
        """Fit the steps after scaling, and return the test rows' probability of fail, shape (n_test,)."""
        return fail_probability(unfitted[_PREPARING:].fit(self.x, self.y), self.test)


def folds_of(examples: Examples, task: SearchTask) -> list[InnerFold]:
    """Return ``task.how.n_folds`` inner folds of whole groups of `examples`, stratified by label.

    Training rows are those of `Learnable.rows_to_fit`, with the extra training data; test rows may be below
    the minimum effect size. Vectors are imputed and scaled as the model of `task` needs, as learned from the
    fold's training rows. InputError if a label has fewer groups than folds, or the test rows of a fold have a
    single label.
    """
    model, inner_folds = CATALOGUE[task.model], []
    for train, test in group_folds(examples, task.how.n_folds, task.seed, f"{task.part} {task.model}"):
        inside = task.data.rows_to_fit(examples.select_rows(train))
        prepare = build_pipeline(model, model.start, inside.y, task.seed, task.constraints)[:_PREPARING]
        x = prepare.fit_transform(inside.x)
        inner_folds.append(InnerFold(x, inside.y, prepare.transform(examples.x[test]), test))
    return inner_folds


def _trial_score(trial: Trial, task: SearchTask, examples: Examples, folds: list[InnerFold]) -> float | None:
    """Return the score of the suggested parameters on pooled inner folds; None if the trial is pruned."""
    model = CATALOGUE[task.model]
    params = {**suggest_params(space_of(model), trial), **model.in_search}
    probability, value = np.full(len(examples.y), np.nan), 0.0
    for step, fold in enumerate(folds):
        try:
            unfitted = strict_pipeline(model, params, fold.y, task.seed, task.constraints)
        except InfeasibleError:
            return None
        needed = examples.needs_model[fold.rows]
        probability[fold.rows] = np.where(needed, fold.fit_and_predict(unfitted), 0.0)
        seen = np.flatnonzero(~np.isnan(probability))
        value = _worth(examples.y[seen], probability[seen])
        trial.report(value, step)
        if step + 1 < len(folds) and trial.should_prune():
            return None
    return value


def _worth(y: NDArray[np.int64], probability: NDArray[np.float64]) -> float:
    """Return the mean of balanced accuracy at the best threshold and average precision, which varies less."""
    return (best_cut(y, probability).balanced_accuracy + average_precision(y, probability)) / 2


def log_of(directory: Path, features_digest: str, columns: tuple[str, ...], task: SearchTask) -> Path:
    """Return the path of the stored trials of `task`; searches with different inputs have different paths.

    It is ``DIGESTS/PART/MODEL.log`` in `directory`. ``DIGESTS``, a text, depends on `features_digest`,
    `columns`, the settings, the seed, the code, and which rows are below the minimum effect size. Nothing is
    created.
    """
    modules = (catalogue, preparation, monotone, thresholds, evaluation_search)
    files = (Path(module.__file__ or "") for module in modules)
    code = digest_of(Path(__file__), Path(inspect.getfile(Examples)), *files)
    examples, settings = task.data.user_labels, task.how.model_dump(exclude={"models"})
    # the features do not show which rows are below the minimum effect size
    used = [zlib.crc32(rows.needs_model.tobytes()) for rows in (examples, examples.bare) if rows is not None]
    content = [features_digest, columns, settings, task.seed, code, used]
    digest = zlib.crc32(json.dumps(content, default=str).encode())
    return directory / f"{features_digest[:12]}-{digest:08x}" / task.part / f"{task.model}.log"


def _trial_seed(task: SearchTask, number: int) -> int:
    place = zlib.crc32(f"{task.part}/{task.model}".encode())
    return int(np.random.SeedSequence([task.seed, place, number]).generate_state(1)[0])


def _trial_row(task: SearchTask, trial: Any) -> TrialRow:
    state, steps = trial.state.name.lower(), sorted(trial.intermediate_values.items())
    value = float(trial.value) if state == "complete" else None
    params, reported = json.dumps(trial.params, sort_keys=True), json.dumps([score for _, score in steps])
    return TrialRow(task.part, task.model, trial.number, state, value, params, reported)


def tasks_of(family: Family, table: FeatureTable) -> list[SearchTask]:
    """Return a search for each model and each part of the rows: model by model, the slowest models first.

    The parts are those of `all_parts`, in this order: all rows, the folds of the random split, and the folds
    of whole groups. InputError if params.yaml names an unknown model, the rows cannot be split, or a file of
    featurize is missing.
    """
    how, seed, examples = family.section.tune, family.params.seed, examples_of(family, table)
    require_known(how.models, CATALOGUE, f"{family.name}.tune")
    sources = read_training_data(family.features_file, table, examples, unlabelled=how.unlabelled == "pass")
    digest, storage = digest_beside(family.features_file, table), family.params.compute.storage
    tasks = []
    for model in slowest_first(how.models, _SLOWEST):
        for part in all_parts(examples, family.section.evaluate, seed):
            data = replace(sources, user_labels=examples.select_rows(part.train))
            task = SearchTask(part.name, model, data, how, seed, constraints=table.constraints)
            log = log_of(family.paths.studies, digest, table.columns, task)
            tasks.append(replace(task, log=TrialLog(log, storage)))
    return tasks


def tune(family: Family) -> None:
    """Run stage tune: search all models in all parts; write tuned.json, trials.parquet and held.npz.

    Models are those of params.yaml; a part is all rows, or the training rows of a fold. held.npz has their
    out-of-fold probabilities, from the search's inner folds. Stored trials with equal inputs are reused.
    InputError as by `tasks_of` and `run_search`, or if the database of ``compute.storage`` has an invalid
    address or does not answer.
    """
    evaluation_search.prepare_storage(family.params.compute.storage)
    table = family.read_features()
    tasks = tasks_of(family, table)
    results = side_by_side(run_search, tasks, family.params.compute, f"tune {family.name}")
    write_outcomes(family.paths.tuned, results)
    write_out_of_fold(family.paths.tuned, results)
