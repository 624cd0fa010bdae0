"""The stages tune, train and evaluate of the model family ``corun``."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from data.corun.params import Corun, TuneImpact
from data.corun.tables import CorunTables
from data.corun.validity import CorunDecisions
from data.errors import InputError
from data.parallel import Compute, side_by_side
from data.params import Params, load
from data.paths import FamilyPaths
from data.tables.documents import written
from data.tables.files import write_json, write_tables
from data.tables.parquet import read_written_table
from features.corun.rates import CORUN, MOST, OTHERS, OWN, Floats
from training.corun.estimators import fitting as impact_scores
from training.corun.estimators.fitting import FittedImpact, ImpactRecipe, ImpactTable, accuracy_scores
from training.corun.estimators.models import CATALOGUE, PREPARATIONS
from training.corun.online import KEYS as ONLINE_KEYS
from training.corun.online import (
    SampledRuns,
    SampleFold,
    accuracy_by_seconds,
    event_ratios,
    fit_online_models,
    pair_runs,
    predict_held_out,
    second_stage_model,
)
from training.corun.splits import DESIGNS, DesignPart, design_parts, inner_folds, main_design
from training.corun.stored import ImpactCard, KnownTasks, OnlineCard, TrainedImpact, TrainedOnline
from training.estimators.catalogue import suggest_params
from training.evaluation.figures import dvc_prediction_figures
from training.evaluation.metrics import DIGITS
from training.evaluation.search import (
    Search,
    SearchOutcome,
    TrialRow,
    Tuned,
    read_tuned,
    require_known,
    require_parts,
    slowest_first,
    tpe_sampler,
    write_outcomes,
)

if TYPE_CHECKING:
    from optuna import Trial


PATHS = FamilyPaths("corun")
FEATURES = PATHS.processed / "features.parquet"
#: Number of random trials before a search learns from them.
STARTUP = 4
#: Models whose searches take longest.
_SLOWEST = ("contention", "xgboost-ranges", "xgboost", "random-forest")


@dataclass(frozen=True)
class ImpactTask:
    """A search: a model on a part's training rows; inner folds follow the part's design."""

    part: DesignPart
    recipe: ImpactRecipe
    rows: pd.DataFrame
    how: TuneImpact


def run_search(task: ImpactTask) -> SearchOutcome[Tuned]:
    """Return ``tuned.params`` with the least mean error over the inner folds, and all ``trials`` of a search.

    ``tuned.score`` is that error, over the rows of all folds together: a share of the measured impact, or for
    a classification 1 if the predicted range of impacts is wrong, else 0. Trials use the cheaper values in
    `Model.in_search`, and stop early unless the error after an inner fold is among the lowest quarter of the
    trials before. At most ``task.how.max_rows`` rows, drawn at random, are used. Equal tasks give equal
    outcomes. InputError as by `inner_folds`.
    """
    part, name = task.part.name, task.recipe.model
    model, rows, seed = CATALOGUE[name], task.rows, task.recipe.seed
    if len(rows) > task.how.max_rows:
        drawn_rows = np.random.default_rng(seed).choice(len(rows), task.how.max_rows, replace=False)
        rows = rows.iloc[np.sort(drawn_rows)]
    divided = inner_folds(rows, task.part.design, task.how.n_folds, seed)
    place = zlib.crc32(f"{part}/{name}".encode())
    sampler = tpe_sampler(int(np.random.SeedSequence([seed, place]).generate_state(1)[0]), STARTUP)
    tried: list[dict[str, Any]] = []

    def trial_error(trial: Trial) -> float | None:
        tried.append(suggest_params(model.space, trial))
        recipe = replace(task.recipe, params={**tried[-1], **model.in_search})
        errors = np.zeros(0)
        for step, (train, test) in enumerate(divided, start=1):
            errors = np.concatenate([errors, _fold_errors(recipe, rows.iloc[train], rows.iloc[test])])
            trial.report(float(errors.mean()), step)
            if step < len(divided) and trial.should_prune():
                return None
        return float(errors.mean())

    first = model.first_params(len(task.recipe.rates))
    how = Search("minimize", task.how.n_trials, [first], lambda _: sampler)
    study = how.run(trial_error)
    trials = []
    for ended, params in zip(study.trials, tried, strict=True):
        state, reported = ended.state.name.lower(), json.dumps(list(ended.intermediate_values.values()))
        value = ended.value if state == "complete" else None
        chosen = json.dumps(params, sort_keys=True)
        trials.append(TrialRow(part, name, ended.number, state, value, chosen, reported))
    return SearchOutcome(part, name, Tuned(tried[study.best_trial.number], float(study.best_value)), trials)


def _fold_errors(recipe: ImpactRecipe, train: pd.DataFrame, test: pd.DataFrame) -> Floats:
    learned = recipe.fit(train)
    if CATALOGUE[recipe.model].kind == "regression":
        return _relative_errors(learned, test)
    return 1.0 - learned.is_correct(test, learned.predict(test), recipe.share).astype(np.float64)


def list_searches(table: ImpactTable, section: Corun, seed: int) -> list[ImpactTask]:
    """Return one search per model and part (fold, or all rows), the slowest models first.

    Classifications are searched only in the random design, for table 1 of the co-run paper. InputError if
    params.yaml names an unknown model, or for the reasons of `design_parts`.
    """
    require_known(section.tune.models, CATALOGUE, "corun.tune")
    parts = design_parts(table.frame, section.evaluate.designs, section.evaluate.n_folds, seed)
    trained_on = [(part, table.frame.iloc[part.train].reset_index(drop=True)) for part in parts]
    return [
        ImpactTask(part, recipe_of(table, name, section, seed), rows, section.tune)
        for name in slowest_first(section.tune.models, _SLOWEST)
        for part, rows in trained_on
        if CATALOGUE[name].kind == "regression" or part.design == "random"
    ]


def recipe_of(
    table: ImpactTable, model: str, section: Corun, seed: int, chosen: dict[str, Any] | None = None
) -> ImpactRecipe:
    """Return the settings to fit `model`, a name in the catalogue, with parameters `chosen` by a search.

    They have the features of `table` that the model takes. KeyError if `model` is unknown.
    """
    share = section.evaluate.tolerance
    return ImpactRecipe(model, chosen or {}, table.model_features(model), share, seed, table.rate_features)


def tune_stage() -> None:
    """Write tuned.json, the best parameters of every model in every part, and all trials (trials.parquet).

    InputError if featurize has not run, or as by `list_searches` and `run_search`.
    """
    params, table = load(Corun), ImpactTable.read(FEATURES)
    tasks = list_searches(table, params.section, params.seed)
    outcomes = side_by_side(run_search, tasks, params.compute, "tune corun")
    write_outcomes(PATHS.tuned, outcomes)


def read_valid_tables() -> CorunTables:
    """Return the ingested tables without the rows and the columns of events that validate rejected.

    InputError if a file is missing, except those of ingested samples and hosts, which then are empty.
    """
    tables = CorunTables.read(PATHS.interim)
    return CorunDecisions.read(PATHS.valid).select_kept(tables)


def train_stage() -> None:
    """Fit every tuned regression, and the best online model of evaluate, if any, to all data; write them.

    Each is written to ``models/corun/NAME``, the online model to ``models/corun/online``. Raises InputError
    if the stages featurize, tune or evaluate have not run.
    """
    params, table = load(Corun), ImpactTable.read(FEATURES)
    tuned, path = read_tuned(PATHS.tuned, Tuned)["all"], PATHS.evaluated / "oof.parquet"
    if not path.is_file():
        raise InputError("no such file; run evaluate first", file=path)
    oof = read_written_table(path)
    valid_tables, confidence = read_valid_tables(), params.section.evaluate.confidence
    known_tasks = KnownTasks(valid_tables.tasks, valid_tables.hosts)
    machines, tasks = (tuple(sorted(table.frame[column].unique())) for column in ("machine", "task"))
    origin = machines, tasks, table.digest, params.seed, confidence
    for name, outcome in tuned.items():
        if CATALOGUE[name].kind != "regression":
            continue
        recipe = recipe_of(table, name, params.section, params.seed, outcome.params)
        trained = recipe.fit(table.frame)
        half_widths = _half_widths(oof[oof["model"] == name], "design", confidence)
        card = ImpactCard(name, trained.columns, outcome.params, half_widths, *origin)
        TrainedImpact(trained.model, card).write(PATHS.models / name)
        known_tasks.write(PATHS.models / name)
    _train_online(table, valid_tables.samples, params)


def _train_online(table: ImpactTable, samples: pd.DataFrame, params: Params[Corun]) -> None:
    online, section = written(PATHS.metrics, "evaluate")["online"], params.section.online
    if online is None:
        return
    sampled = SampledRuns.from_samples(samples, section.trained_at)
    pairs, second = pair_runs(sampled.runs, table.frame), second_stage_model(online["champion"], params.seed)
    (model,) = fit_online_models(sampled, pairs, [second])
    oof = read_written_table(PATHS.evaluated / "online.parquet")
    rows = oof[(oof["design"] == online["design"]) & (oof["model"] == online["champion"])]
    confidence = params.section.evaluate.confidence
    at = rows[rows["seconds"] == section.trained_at]
    nothing = at.assign(predicted=at["measured"].median())
    widths = _half_widths(rows, "seconds", confidence, "{:g}")
    blind_width = impact_scores.log_width(nothing, confidence)
    coefficients = tuple(map(tuple, model.coefficients.tolist()))
    origin = tuple(sorted(sampled.runs["machine"].unique())), table.digest, params.seed, confidence
    card = OnlineCard(
        online["champion"], model.events, coefficients, section.trained_at, widths, blind_width, *origin
    )
    TrainedOnline(model, card).write(PATHS.models / "online")


def _half_widths(oof: pd.DataFrame, by: str, confidence: float, shown: str = "{}") -> dict[str, float]:
    groups = oof.groupby(by, sort=True)
    return {shown.format(key): impact_scores.log_width(rows, confidence) for key, rows in groups}


#: Accuracy for new tasks in the co-run paper (d&n).
ONLINE = {"Regression": 0.5641, "SVM": 0.8718, "Random forest": 0.8718}
_TABLE_1 = {
    ("Regression", "regression"): (0.8765, 0.7099, 0.8642),
    ("SVM", "regression"): (0.9815, 0.9012, 0.9691),
    ("Random forest", "regression"): (0.9938, 0.9668, 0.9877),
    ("Regression", "classification"): (0.8704, 0.8148, 0.8359),
    ("Naive Bayes", "classification"): (0.7020, 0.6689, 0.6821),
    ("SVM", "classification"): (0.8606, 0.7815, 0.7616),
    ("Random forest", "classification"): (0.9205, 0.8477, 0.9404),
}
#: Accuracy in table 1 of the co-run paper, by predictor, kind and preparation.
TABLE_1 = {
    (*row, preparation): share
    for row, shares in _TABLE_1.items()
    for preparation, share in zip(PREPARATIONS, shares, strict=True)
}
#: The features that the co-run paper calls essential, in the order of their importance there.
ESSENTIAL = (
    *("instructions", "bus-cycles", "LLC-loads", "L1-dcache-loads", "dTLB-loads"),
    *("branch-instructions", "branch-loads", "context-switches"),
)
#: Number of times that a feature is shuffled, and of rows.
SHUFFLES, PERMUTED = 5, 500


@dataclass(frozen=True)
class ModelOfPart:
    """A model to fit to a part's training rows and to test on its test rows."""

    recipe: ImpactRecipe
    train: pd.DataFrame
    test: pd.DataFrame
    part: DesignPart
    preparation: str = ""

    def relative_errors(self) -> Floats:
        """Return |predicted / measured - 1| of the test rows' impacts, shape (n_test,), after fitting."""
        return _relative_errors(self.recipe.fit(self.train), self.test)


def permutation_importance(fold: ModelOfPart, seed: int) -> pd.DataFrame:
    """Return the increase of the mean relative error of test rows when a feature is shuffled.

    The model is fitted once, to the training rows of `fold`. Columns: ``feature, rise, spread`` (mean and
    standard deviation, by n, over 5 shuffles), largest rise first. `seed` draws the shuffles, and 500 test
    rows if there are more.
    """
    generator = np.random.default_rng(seed)
    model, rows = fold.recipe.fit(fold.train), fold.test
    if len(rows) > PERMUTED:
        rows = rows.iloc[np.sort(generator.choice(len(rows), PERMUTED, replace=False))]
    before = _relative_errors(model, rows).mean()
    repeated = pd.concat([rows] * SHUFFLES, ignore_index=True)
    rows_of_features = []
    for name in model.columns:
        values = rows[name].to_numpy()
        permuted = np.concatenate([generator.permutation(values) for _ in range(SHUFFLES)])
        shuffled = repeated.assign(**{name: permuted})
        rises = _relative_errors(model, shuffled).reshape(SHUFFLES, -1).mean(axis=1) - before
        rows_of_features.append({"feature": name, "rise": float(rises.mean()), "spread": float(rises.std())})
    table = pd.DataFrame(rows_of_features)
    return table.sort_values(["rise", "feature"], ascending=[False, True], ignore_index=True)


def explain_champion(
    folds: Sequence[ModelOfPart], predictions: pd.DataFrame, seed: int, compute: Compute
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return `permutation_importance` in the first fold, and the accuracy of all folds without one event.

    The events are those that the co-run paper calls essential; for each, the model of each fold is refitted
    without the event's features. `predictions` has ``measured, predicted`` with all features. Columns of the
    second table: ``without`` (an event of `ESSENTIAL`; empty, in the first row: none), ``measured`` (whether
    the models take features of that event), ``within_tolerance, mape`` (NaN if not measured).
    """
    share, columns = folds[0].recipe.share, folds[0].recipe.columns
    gone = {event: {f"{prefix}{event}" for prefix in (OWN, OTHERS, MOST)} for event in ESSENTIAL}
    left = {event: tuple(name for name in columns if name not in names) for event, names in gone.items()}
    measured = [event for event, names in left.items() if len(names) < len(columns)]
    without = [
        replace(fold, recipe=replace(fold.recipe, columns=left[event]))
        for event in measured
        for fold in folds
    ]
    tasks: list[Callable[[], Any]] = [partial(permutation_importance, folds[0], seed)]
    tasks += [fold.relative_errors for fold in without]
    importance, *errors = side_by_side(_run_task, tasks, compute, "explain corun")
    with_all = np.abs(predictions["predicted"] / predictions["measured"] - 1).to_numpy(np.float64)
    of_events = np.concatenate([with_all, *errors]).reshape(1 + len(measured), -1)
    scores = {
        event: accuracy_scores(row, share) for event, row in zip(("", *measured), of_events, strict=True)
    }
    rows = [
        {"without": event, "measured": event in scores} | scores.get(event, {}) for event in ("", *ESSENTIAL)
    ]
    removed = pd.DataFrame(rows, columns=["without", "measured", "within_tolerance", "mape"])
    return importance, removed


def _run_task(task: Callable[[], Any]) -> Any:
    return task()


def residual_plot_data(predictions: pd.DataFrame, features: Floats) -> pd.DataFrame:
    """Return the data of the four residual plots of the co-run paper, figures 4 and 5.

    `predictions` has one model's rows of oof.parquet in one design, `features` their vectors, shape (n_rows,
    n_features), NaN where unknown (the median is used). Columns: ``task, corunners, machine``; ``fitted``,
    the predicted impact; ``residual``, measured - fitted; ``standardised`` residuals, their normal quantile
    by rank, ``theoretical``, and the square root of their size, ``scale``; ``leverage`` (of standardised
    features); ``cook`` (Cook's distance). Rows are in the order of `predictions`.
    """
    from scipy.special import ndtri

    fitted = predictions["predicted"].to_numpy(np.float64)
    left = predictions["measured"].to_numpy(np.float64) - fitted
    # leverage: the diagonal of the hat matrix with an intercept
    filled = np.where(np.isnan(features), np.nanmedian(features, axis=0), features)
    centred = filled - filled.mean(axis=0)
    scales = centred.std(axis=0)
    standard = np.column_stack([np.ones(len(centred)), centred[:, scales > 0] / scales[scales > 0]])
    vectors, values, _ = np.linalg.svd(standard, full_matrices=False)
    used = values > values[0] * 1e-10
    leverage, rank = (vectors[:, used] ** 2).sum(axis=1), int(used.sum())
    spread = float(np.std(left)) or 1.0
    standardised = left / (spread * np.sqrt(np.maximum(1 - leverage, 1e-9)))
    order = np.argsort(np.argsort(standardised, kind="stable"), kind="stable")
    keys = predictions[CORUN].reset_index(drop=True)
    return keys.assign(
        fitted=fitted,
        residual=left,
        standardised=standardised,
        theoretical=ndtri((order + 0.5) / len(left)),
        scale=np.sqrt(np.abs(standardised)),
        leverage=leverage,
        cook=standardised**2 * leverage / (rank * np.maximum(1 - leverage, 1e-9)),
    )


def _relative_errors(model: FittedImpact, rows: pd.DataFrame) -> Floats:
    return np.asarray(np.abs(model.predict(rows) / rows["impact"].to_numpy(np.float64) - 1))


TABLE_1_COLUMNS = ("predictor", "kind", "preparation", "accuracy", "spread", "seeds")
ONLINE_COLUMNS = (*ONLINE_KEYS, "model", "measured", "predicted", "design", "fold", "seconds")
RESIDUAL_COLUMNS = (*CORUN, "fitted", "residual", "standardised", "theoretical", "scale", "leverage", "cook")


def predict_cell(cell: ModelOfPart) -> pd.DataFrame:
    """Return the impacts predicted for the test rows of `cell` by its model, fitted to its training rows.

    Columns: ``task, corunners, machine, design, fold, model, kind, preparation, measured, predicted``, and
    ``right``: relative error below the tolerance, or for a classification the right range. Rows and index are
    those of ``cell.test``.
    """
    fitted = cell.recipe.fit(cell.train)
    impacts = fitted.predict(cell.test)
    return cell.test[CORUN].assign(
        design=cell.part.design,
        fold=cell.part.fold,
        model=cell.recipe.model,
        kind=CATALOGUE[cell.recipe.model].kind,
        preparation=cell.preparation,
        measured=cell.test["impact"],
        predicted=impacts,
        right=fitted.is_correct(cell.test, impacts, cell.recipe.share),
    )


def evaluate_stage() -> None:
    """Evaluate all models, reproduce table 1 of the co-run paper, explain the champion; write all results.

    The champion is the regression with the smallest pooled ``mape`` in the main design. Written are
    metrics.json, the tables in ``evaluated``, and figures for DVC. InputError if an earlier stage has not
    run.
    """
    params, table = load(Corun), ImpactTable.read(FEATURES)
    cells = _make_cells(table, params)
    of_cells = side_by_side(predict_cell, cells, params.compute, "evaluate corun")
    predictions = pd.concat(of_cells, ignore_index=True)
    confidence, groups = params.section.evaluate.confidence, predictions.groupby(["design", "model"])
    intervals = [impact_scores.with_intervals(rows, confidence) for _, rows in groups]
    oof = pd.concat(intervals, ignore_index=True)
    table_1 = seed_table(cells, table.rate_features, params.compute)
    write_tables(PATHS.evaluated, {"oof": oof, "table1": table_1})
    entries = {
        str(design): {
            str(name): impact_scores.summarise_predictions(selected)
            for name, selected in rows.groupby("model", sort=True)
        }
        for design, rows in oof.groupby("design", sort=True)
    }
    main = main_design(tuple(dict.fromkeys(cell.part.design for cell in cells)))
    champion = impact_scores.rank_models(entries[main])[0]
    rows = oof[(oof["design"] == main) & (oof["model"] == champion)]
    selected = [cell for cell in cells if (cell.part.design, cell.recipe.model) == (main, champion)]
    rates = table.frame[[*CORUN, *table.rate_features]]
    vectors = rows[CORUN].merge(rates, on=CORUN, how="left", validate="many_to_one")
    importance, removed = explain_champion(selected, rows, params.seed, params.compute)
    explained = {
        "importance": importance,
        "removed": removed,
        "residuals": residual_plot_data(rows, vectors[list(table.rate_features)].to_numpy(np.float64)),
    }
    write_tables(PATHS.evaluated, explained)
    valid_tables = read_valid_tables()
    metrics = _static_metrics(table, valid_tables, params, entries)
    printed = table_1.round(6).astype({"seeds": object}).where(table_1.notna(), None).to_dict("records")
    online = _evaluate_online(table, valid_tables.samples, params)
    content = {**metrics, "table_1": printed, "champion": champion, "online": online}
    write_json(PATHS.metrics, content)
    main_predictions = oof[oof["design"] == main].rename(columns={"model": "entry"}).assign(unit="impact")
    dvc_prediction_figures(content, main, "mape", main_predictions).write(PATHS)


def _make_cells(table: ImpactTable, params: Params[Corun]) -> list[ModelOfPart]:
    tuned, rows = read_tuned(PATHS.tuned, Tuned), table.frame
    how = params.section.evaluate
    parts = design_parts(rows, how.designs, how.n_folds, params.seed)[1:]
    require_parts(PATHS.tuned, tuned, [part.name for part in parts])
    cells = []
    for part in parts:
        train, test = rows.iloc[part.train], rows.iloc[part.test]
        for name, outcome in tuned[part.name].items():
            recipe = recipe_of(table, name, params.section, params.seed, outcome.params)
            cells.append(ModelOfPart(recipe, train, test, part))
    return cells


def seed_table(cells: list[ModelOfPart], rates: tuple[str, ...], compute: Compute) -> pd.DataFrame:
    """Return table 1 of the co-run paper with our accuracies in the `cells` of the design "random".

    It is empty without such cells. Columns: ``predictor, kind, preparation, accuracy, spread`` (mean and
    standard deviation, by n, over folds), ``seeds`` (accuracy in the paper or NaN). Each model is fitted anew
    with each of the three preparations, to the features `rates` alone, as in equation 1; models without
    preparation are ignored.
    """
    prepared = []
    for cell in cells:
        if cell.part.design == "random" and CATALOGUE[cell.recipe.model].is_prepared:
            for how in PREPARATIONS:
                params = {**cell.recipe.params, "preparation": how}
                recipe = replace(cell.recipe, params=params, columns=rates)
                prepared.append(replace(cell, recipe=recipe, preparation=how))
    predictions = side_by_side(predict_cell, prepared, compute, "table 1 of corun")
    if not predictions:  # the random design was not requested
        return pd.DataFrame(columns=list(TABLE_1_COLUMNS))
    folds = pd.concat(predictions).groupby(["model", "kind", "preparation", "fold"])["right"].mean()
    ours = folds.groupby(level=[0, 1, 2]).agg(accuracy="mean", spread=lambda values: values.std(ddof=0))
    table = ours.reset_index()
    # linear and logistic regression share a row
    titles = [CATALOGUE[name].title for name in table["model"]]
    merged = {"Linear regression": "Regression", "Logistic regression": "Regression"}
    table.insert(0, "predictor", [merged.get(title, title) for title in titles])
    keys = zip(table["predictor"], table["kind"], table["preparation"], strict=True)
    table["seeds"] = [TABLE_1.get(key, np.nan) for key in keys]
    return table.drop(columns="model").sort_values(["kind", "predictor", "preparation"], ignore_index=True)


def _static_metrics(
    table: ImpactTable, valid_tables: CorunTables, params: Params[Corun], entries: dict[str, Any]
) -> dict[str, Any]:
    section, rows, how = params.section, table.frame, params.section.evaluate
    solo = valid_tables.tasks.set_index(["machine", "task"])["solo_seconds"]
    return {
        "family": "corun",
        "data": {
            "format": section.ingest.format,
            "path": section.ingest.path.as_posix(),
            "digest": table.digest,
            "instances": len(rows),
            "measurements": int(rows["repetitions"].sum()),
            **{f"{name}s": int(rows[name].nunique()) for name in ("task", "machine", "device")},
            "events": len(table.rate_events),
        },
        "seed": params.seed,
        "tolerance": how.tolerance,
        "confidence": how.confidence,
        "repeatability": impact_scores.repeatability_scores(valid_tables.pairs, solo, how.tolerance),
        "splits": {
            design: {"scheme": DESIGNS[design].scheme, "folds": how.n_folds, "entries": summaries}
            for design, summaries in entries.items()
        },
    }


def _evaluate_online(
    table: ImpactTable, samples: pd.DataFrame, params: Params[Corun]
) -> dict[str, Any] | None:
    """Write and summarise the online models' predictions of unseen co-runs; None without samples."""
    how, trained_at = params.section.evaluate, params.section.online.trained_at
    lengths = sorted({*params.section.online.seconds, trained_at}) if len(samples) else []
    folds = [
        fold
        for seconds in lengths
        for fold in SampleFold.iterate_folds(samples, table.frame, seconds, how.n_folds, params.seed)
    ]
    fold_predictions = side_by_side(predict_held_out, folds, params.compute, "online models of corun")
    if not fold_predictions:
        columns = {"online": ONLINE_COLUMNS, "online_residuals": RESIDUAL_COLUMNS}
        empty = {name: pd.DataFrame(columns=list(selected)) for name, selected in columns.items()}
        write_tables(PATHS.evaluated, empty)
        return None
    predictions = pd.concat(fold_predictions, ignore_index=True)
    summary = accuracy_by_seconds(predictions, how.tolerance).round(DIGITS)
    main = "tasks" if "tasks" in set(summary["design"]) else "random"
    at = summary[(summary["seconds"] == trained_at) & (summary["design"] == main)]
    champion = at.sort_values(["mape", "model"])["model"].iloc[0]
    # for figure 4 of the co-run paper
    selected = predictions[["seconds", "design", "model"]].eq([trained_at, main, champion]).all(axis=1)
    changes = event_ratios(samples, table.frame, trained_at)
    rows = predictions[selected].merge(changes, on=ONLINE_KEYS, how="left", validate="many_to_one")
    left = residual_plot_data(rows, rows[changes.columns.drop(ONLINE_KEYS)].to_numpy(np.float64))
    write_tables(PATHS.evaluated, {"online": predictions, "online_residuals": left})
    return {
        "design": main,
        "champion": str(champion),
        "trained_at": trained_at,
        "entries": summary.to_dict("records"),
        "seeds": ONLINE,
    }
