"""The family ``corun`` in the training package: its stages tune and train."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.corun.params import Corun, TuneImpact
from data.corun.tables import CorunTables
from data.corun.validity import CorunDecisions
from data.errors import InputError
from data.parallel import side_by_side
from data.params import Params, load
from data.tables.documents import written
from features.corun.rates import PLACES
from training.corun.estimators import scores as impact_scores
from training.corun.estimators.fitting import ImpactRecipe, ImpactTable
from training.corun.estimators.models import CATALOGUE
from training.corun.online import SampledRuns, fitted, paired, second
from training.corun.splits import DesignPart, inner, parts
from training.corun.stored import ImpactCard, KnownTasks, OnlineCard, TrainedImpact, TrainedOnline
from training.estimators.catalogue import suggested
from training.evaluation.search import (
    Found,
    Search,
    TrialRow,
    Tuned,
    drawn,
    read_tuned,
    require_known,
    slowest_first,
    write_found,
)

if TYPE_CHECKING:
    from optuna import Trial

Floats = NDArray[np.float64]
FEATURES = PLACES.processed / "features.parquet"
#: Trials at random before a search learns from them.
STARTUP = 4
#: Searches that take longest.
_SLOWEST = ("contention", "xgboost-ranges", "xgboost", "random-forest")


@dataclass(frozen=True)
class ImpactTask:
    """One search: a model on the training rows of a part.

    Attributes
    ----------
    part : DesignPart
        Inner folds hold out what its design holds out.
    recipe : ImpactRecipe
        Without parameters.
    rows : DataFrame
        The part's training rows.
    how : TuneImpact
    """

    part: DesignPart
    recipe: ImpactRecipe
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
    generator = np.random.default_rng(task.recipe.seed)
    return task.rows.iloc[np.sort(generator.choice(len(task.rows), task.how.rows, replace=False))]


def _error(recipe: ImpactRecipe, train: pd.DataFrame, test: pd.DataFrame) -> Floats:
    learned = recipe.fit(train)
    predicted = learned.predict(test)
    if CATALOGUE[recipe.model].kind == "classification":
        return 1.0 - learned.right(test, predicted, recipe.share).astype(np.float64)
    return np.abs(predicted / test["impact"].to_numpy(np.float64) - 1)


def searches(table: ImpactTable, section: Corun, seed: int) -> list[ImpactTask]:
    """Return one search per part and model; classifications only where table 1 needs them.

    Raises
    ------
    InputError
        If params.yaml names an unknown model, or no design is possible.
    """
    require_known(section.tune.models, CATALOGUE, "corun.tune")
    trained_on = [
        (part, table.frame.iloc[part.train].reset_index(drop=True))
        for part in divisions(table, section, seed)
    ]
    return [
        ImpactTask(part, recipe_of(table, name, section, seed), rows, section.tune)
        for name in slowest_first(section.tune.models, _SLOWEST)
        for part, rows in trained_on
        if CATALOGUE[name].kind == "regression" or part.design == "random"
    ]


def divisions(table: ImpactTable, section: Corun, seed: int) -> list[DesignPart]:
    """Divide the table by all designs; the part of all rows has no fold."""
    return parts(table.frame, section.evaluate.designs, section.evaluate.folds, seed)


def recipe_of(
    table: ImpactTable, model: str, section: Corun, seed: int, chosen: dict[str, Any] | None = None
) -> ImpactRecipe:
    """Return how to fit a model with what was chosen for it."""
    share = section.evaluate.tolerance
    return ImpactRecipe(model, chosen or {}, table.columns(model), share, seed, table.rates)


def tune_stage() -> None:
    """Stage tune: search parameters for every model in every part."""
    knobs, table = load(Corun), ImpactTable.read(FEATURES)
    tasks = searches(table, knobs.section, knobs.seed)
    found = side_by_side(search, tasks, knobs.compute, "tune corun")
    write_found(PLACES.tuned, found)


def kept_tables() -> CorunTables:
    """Read what can be learned from."""
    tables = CorunTables.read(PLACES.interim)
    return CorunDecisions.read(PLACES.valid).kept(tables)


def train_stage() -> None:
    """Stage train: fit every model that answers with a number to all rows."""
    knobs, table = load(Corun), ImpactTable.read(FEATURES)
    tuned, oof = read_tuned(PLACES.tuned, Tuned)["all"], _oof()
    kept = kept_tables()
    known = KnownTasks(kept.tasks, kept.hosts)
    for name, found in tuned.items():
        if CATALOGUE[name].kind != "regression":
            continue
        recipe = recipe_of(table, name, knobs.section, knobs.seed, found.params)
        trained = recipe.fit(table.frame)
        card = ImpactCard(
            name,
            trained.columns,
            found.params,
            _half_widths(oof[oof["model"] == name], "design", knobs.section.evaluate.confidence),
            tuple(sorted(table.frame["machine"].unique())),
            tuple(sorted(table.frame["task"].unique())),
            table.digest,
            knobs.seed,
            knobs.section.evaluate.confidence,
        )
        TrainedImpact(trained.model, card).write(PLACES.models / name)
        known.write(PLACES.models / name)
    _train_online(table, kept.samples, knobs)


def _train_online(table: ImpactTable, samples: pd.DataFrame, knobs: Params[Corun]) -> None:
    online, section = written(PLACES.metrics, "evaluate")["online"], knobs.section.online
    if online is None:
        return
    sampled = SampledRuns.of(samples, section.trained_at)
    (model,) = fitted(sampled, paired(sampled.runs, table.frame), [second(online["champion"], knobs.seed)])
    oof = pd.read_parquet(PLACES.evaluated / "online.parquet")
    rows = oof[(oof["design"] == online["design"]) & (oof["model"] == online["champion"])]
    confidence = knobs.section.evaluate.confidence
    at = rows[rows["seconds"] == section.trained_at]
    nothing = at.assign(predicted=at["measured"].median())
    card = OnlineCard(
        online["champion"],
        model.events,
        tuple(map(tuple, model.coefficients.tolist())),
        section.trained_at,
        _half_widths(rows, "seconds", confidence, "{:g}"),
        impact_scores.log_width(nothing, confidence),
        tuple(sorted(sampled.runs["machine"].unique())),
        table.digest,
        knobs.seed,
        confidence,
    )
    TrainedOnline(model, card).write(PLACES.models / "online")


def _half_widths(oof: pd.DataFrame, by: str, confidence: float, shown: str = "{}") -> dict[str, float]:
    groups = oof.groupby(by, sort=True)
    return {shown.format(key): impact_scores.log_width(rows, confidence) for key, rows in groups}


def _oof() -> pd.DataFrame:
    path = PLACES.evaluated / "oof.parquet"
    if not path.is_file():
        raise InputError("no such file; run evaluate first", file=path)
    return pd.read_parquet(path)
