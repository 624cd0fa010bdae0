"""Stage ``evaluate``: models and rules on the same folds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.params import Decide
from data.comparisons.sides import Floats
from data.parallel import Compute, side_by_side
from data.tables.files import write_json, write_tables
from training.comparisons.decision import (
    count_outcomes,
    examples_of,
    learn_decision,
    read_out_of_fold,
    review_curve,
    summarise_split,
)
from training.comparisons.family import (
    Examples,
    Family,
    FeatureTable,
    Flags,
    Part,
    all_parts,
    stratified_parts,
)
from training.comparisons.label_review import read_training_data
from training.comparisons.train import Fit, fit_and_predict
from training.comparisons.tune import Classified
from training.estimators.catalogue import CATALOGUE, TIE_BREAK_ORDER, build_pipeline
from training.evaluation.figures import dvc_verdict_figures
from training.evaluation.metrics import average_precision, summarise_entries
from training.evaluation.search import read_tuned, require_parts

#: Number of bootstrap draws.
DRAWS = 400
#: Confidence level of the percentile interval.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class FoldPredictions:
    """Out-of-fold predictions of one model."""

    probability: Floats  # shape (n_rows,): Of ``fail``
    fails: Flags  # shape (n_rows,): Its verdicts


def tie_break(
    failed: Flags,
    predicted: Mapping[str, FoldPredictions],
    groups: NDArray[np.str_],
    order: Sequence[str],
    seed: int,
) -> str:
    """Return the first model of `order` that is not significantly worse than the best.

    `predicted` has by model the ``probability`` of fail and the verdicts (``fails``). Models that are not in
    `order` come last, as in `predicted`. The score of a model is the mean of its balanced accuracy and its
    average precision. A model is worse if the whole bootstrap interval (95 %, 400 draws) of its score minus
    the best one is below 0, over groups drawn with replacement; draws with only one label are left out. So
    `order` decides between models that the data cannot distinguish, as Breiman, Friedman, Olshen and Stone
    choose the simplest model within one standard error (Classification and Regression Trees, 1984, section
    3.4.3). `failed` are the labels (True is fail; both must occur), `groups` the groups of the rows, both of
    shape (n_rows,).
    """
    names = sorted(predicted, key=lambda name: order.index(name) if name in order else len(order))
    once = np.ones(len(failed))
    best = max(names, key=lambda name: _model_score(failed, predicted[name], once))
    _, group = np.unique(groups, return_inverse=True)
    size = int(group.max()) + 1
    counts = np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), size=DRAWS)
    weights = counts[:, group].astype(np.float64)
    # draws with only one label are left out
    usable = [weight for weight in weights if weight[failed].sum() and weight[~failed].sum()]

    def drawn_scores(name: str) -> Floats:
        return np.array([_model_score(failed, predicted[name], weight) for weight in usable])

    highest, tail = drawn_scores(best), (1 - CONFIDENCE) / 2
    return next(name for name in names if np.quantile(highest - drawn_scores(name), tail) <= 0)


def _model_score(failed: Flags, predicted: FoldPredictions, weight: Floats) -> float:
    recall = np.average(predicted.fails[failed], weights=weight[failed])
    spared = np.average(~predicted.fails[~failed], weights=weight[~failed])
    precision = average_precision(failed, predicted.probability, weight)
    return float(((recall + spared) / 2 + precision) / 2)


NEIGHBOURS = 30
#: A comparison fails above this share of the votes; a tie passes.
MAJORITY = 0.5
#: Largest number of training rows per fold; passes beyond it are left out, since the curves only show a
#: trend.
LARGEST = 3000


def accuracy_curves(examples: Examples, folds: list[Part], seed: int, compute: Compute) -> pd.DataFrame:
    """Return the test accuracy of majority votes by number of neighbours or trees (thesis, section 6.7).

    One row per ``fold`` (index in `folds`), ``curve`` ("knn-uniform", "knn-distance", "random-forest",
    "extra-trees") and ``parameter`` (1 to at most 30 neighbours, or 1 to the number of trees), with
    ``accuracy``, a share. Models have the catalogue's parameters, not tuned ones. A tie of votes passes. Of
    more than 3,000 training rows, passes are dropped at random down to 3,000; fails stay.
    """
    tasks = [
        (examples.select_rows(part.train).drop_passes(LARGEST, seed), examples.select_rows(part.test))
        for part in folds
    ]
    curves_of_fold = partial(_curves_of_fold, seed=seed)
    tables = side_by_side(curves_of_fold, tasks, compute, "accuracy curves")
    rows = [table.assign(fold=number) for number, table in enumerate(tables)]
    return pd.concat(rows, ignore_index=True)[["curve", "parameter", "fold", "accuracy"]]


def _curves_of_fold(task: tuple[Examples, Examples], seed: int) -> pd.DataFrame:
    (train, test), rows = task, []
    for curve in ("knn-uniform", "knn-distance", "random-forest", "extra-trees"):
        model = CATALOGUE[curve]
        whole = build_pipeline(model, model.start, train.y, seed).fit(train.x, train.y)
        x, knn = np.asarray(whole[:-1].transform(test.x)), curve.startswith("knn")
        votes = _neighbour_votes(whole[-1], x, train.y) if knn else _tree_votes(whole[-1], x)
        for parameter, share in enumerate(votes, start=1):
            rows.append((curve, parameter, float(((share > MAJORITY) == test.y).mean())))
    return pd.DataFrame(rows, columns=["curve", "parameter", "accuracy"])


def _neighbour_votes(classifier: Any, x: Floats, y: NDArray[np.int64]) -> Iterator[Floats]:
    """Yield the share of votes for fail among the nearest 1, 2, ... training rows, with labels `y`."""
    distance, nearest = classifier.kneighbors(x, n_neighbors=min(NEIGHBOURS, len(y)))
    weight = np.ones_like(distance)
    if classifier.weights == "distance":
        # neighbours at distance 0 outvote all others
        same = distance == 0
        inverse = 1 / np.where(same, 1.0, distance)
        weight = np.where(same.any(axis=1, keepdims=True), same.astype(np.float64), inverse)
    yield from (np.cumsum(weight * y[nearest], axis=1) / np.cumsum(weight, axis=1)).T


def _tree_votes(classifier: Any, x: Floats) -> Iterator[Floats]:
    total = np.zeros(len(x))
    for number, tree in enumerate(classifier.estimators_, start=1):
        total += tree.predict_proba(x)[:, 1]
        yield total / number


def evaluate(family: Family) -> None:
    """Run stage evaluate: write metrics.json; oof, risk_guarantees and curves (Parquet); DVC's figures.

    DVC's figures are summary.json and plots (CSV). InputError if a file of an earlier stage is missing or
    invalid, or a label is too rare for the folds.
    """
    table, seed = family.read_features(), family.params.seed
    verdicts, counted = out_of_fold(family, table, read_tuned(family.paths.tuned, Classified))
    folds = stratified_parts(table.examples, family.section.evaluate, seed)
    accuracies = accuracy_curves(table.examples, folds, seed, family.params.compute)
    write_tables(family.paths.evaluated, {"oof": verdicts, "risk_guarantees": counted, "curves": accuracies})
    content = metrics_content(family, table, verdicts)
    guarantees = {split: summarise_split(verdicts, counted, split) for split in content["splits"]}
    write_json(family.paths.metrics, content | {"risk_guarantees": guarantees})
    shown = dvc_verdict_figures(content, "grouped", verdicts)
    shown.plots["sent"] = review_curve(guarantees["grouped"])
    shown.write(family.paths)


def out_of_fold(
    family: Family, table: FeatureTable, tuned: dict[str, dict[str, Classified]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the contents of oof.parquet and risk_guarantees.parquet.

    `tuned` has the search results by name of the part (``grouped/f1``), then model; the part "all" is
    ignored. The first table has a row per test row of each fold for each model, then for each fixed rule:
    ``comparison_id, split, repeat, fold, entry, kind`` ("model" or "rule"), ``verdict`` ("pass" or "fail"),
    ``status`` (the label), ``probability`` (calibrated; 0 below the minimum effect size) and ``threshold``,
    both NaN for a rule. The second has the rows of `count_outcomes` for each ``split, repeat, fold, entry``.
    InputError if `tuned` lacks the part of a fold, a label is too rare for the folds, or a file of an earlier
    stage is missing.
    """
    examples, seed, how = examples_of(family, table), family.params.seed, family.section.decide
    below = ~examples.needs_model
    folds = [part for part in all_parts(examples, family.section.evaluate, seed) if part.split != "all"]
    require_parts(family.paths.tuned, tuned, [part.name for part in folds])
    training_data = read_training_data(family.features_file, table, examples)
    cells = [(part, name, chosen) for part in folds for name, chosen in tuned[part.name].items()]
    inner_predictions = read_out_of_fold(family.paths.tuned, [(part.name, name) for part, name, _ in cells])
    tests = []
    for (part, name, chosen), inner in zip(cells, inner_predictions, strict=True):
        train = examples.select_rows(part.train)
        rows_to_fit = training_data.rows_to_fit(train)
        fit = Fit(name, chosen, rows_to_fit, examples.x[part.test], seed, table.constraints)
        tests.append(_FoldTest(fit, train, inner, how, examples.y[part.test], below[part.test]))
    outcomes = side_by_side(_test_model, tests, family.params.compute, f"evaluate {family.name}")
    rows, counted = [], []
    for (part, name, _), outcome in zip(cells, outcomes, strict=True):
        rows.append(_verdict_rows(table, part, name, outcome.probability, outcome.threshold))
        counts = outcome.counts.assign(split=part.split, repeat=part.repeat, fold=part.fold, entry=name)
        counted.append(counts)
    rules = family.rules().reindex(table.frame["comparison_id"])
    rows += [
        _verdict_rows(table, part, str(rule), rules[rule].to_numpy(bool)[part.test])
        for part in folds
        for rule in rules
    ]
    return pd.concat(rows, ignore_index=True), pd.concat(counted, ignore_index=True)


@dataclass(frozen=True)
class _FoldTest:
    """A model to test on the rows of ``fit.test``, with labels `y`, after its decision is learned."""

    fit: Fit
    train: Examples  # the rows that the decision is learned from
    inner: Floats  # shape (n_train,): Their out-of-fold probabilities
    how: Decide
    y: NDArray[np.int64]  # shape (n_test,)
    below: Flags  # shape (n_test,): Test rows below the minimum effect size


@dataclass(frozen=True)
class _FoldOutcome:
    probability: Floats  # shape (n_test,): Calibrated; 0 below the minimum effect size
    threshold: float
    counts: pd.DataFrame


def _test_model(test: _FoldTest) -> _FoldOutcome:
    fit, below = test.fit, test.below
    learned = learn_decision(test.train, test.inner, fit.tuned.threshold, test.how, fit.seed)
    adjusted = learned.calibrate_and_discount(fit_and_predict(fit), below)
    counts = count_outcomes(learned, test.y, adjusted, below)
    return _FoldOutcome(np.where(below, 0.0, adjusted), learned.threshold, counts)


def _verdict_rows(
    table: FeatureTable, part: Part, entry: str, values: Any, threshold: float | None = None
) -> pd.DataFrame:
    """Return verdicts by flags of fails (`values` of a rule), or by probability and threshold (a model)."""
    rows, ruled = table.frame.iloc[part.test], threshold is None
    return pd.DataFrame(
        {
            "comparison_id": rows["comparison_id"].to_numpy(),
            "split": part.split,
            "repeat": part.repeat,
            "fold": part.fold,
            "entry": entry,
            "kind": "rule" if ruled else "model",
            "verdict": np.where(values if ruled else values >= threshold, "fail", "pass"),
            "status": rows["status"].to_numpy(),
            "probability": np.nan if ruled else values,
            "threshold": np.nan if ruled else threshold,
        }
    )


def metrics_content(family: Family, table: FeatureTable, verdicts: pd.DataFrame) -> dict[str, Any]:
    """Return the content of metrics.json, apart from risk guarantees, from rows of oof.parquet.

    Keys: ``family``; ``data`` (``format, path, digest``; numbers of ``comparisons, fails, operations``);
    ``seed``; ``features`` (name of the feature set); ``splits`` (for "grouped" and "stratified" the
    ``scheme`` in words, the number of ``folds``, and in ``entries`` the scores by model or rule, from
    `summarise_entries`); ``champion``, the name of the model that `tie_break` chooses on the split "grouped".
    """
    section, how = family.section, family.section.evaluate
    repeated = f"{how.n_repeats} repetitions of " if how.n_repeats > 1 else ""
    return {
        "family": family.name,
        "data": {
            "format": section.ingest.format,
            "path": section.ingest.path.as_posix(),
            "digest": table.digest,
            "comparisons": len(table.frame),
            "fails": int((table.frame["status"] == "fail").sum()),
            "operations": int(table.frame["fold_group"].nunique()),
        },
        "seed": family.params.seed,
        "features": section.featurize.feature_set,
        "splits": {
            "grouped": {
                "scheme": f"{how.n_grouped_folds} folds of whole operations",
                "folds": how.n_grouped_folds,
                "entries": summarise_entries(verdicts, "grouped"),
            },
            "stratified": {
                "scheme": f"{repeated}{how.n_folds} random stratified folds, as in seed 000",
                "folds": how.n_folds * how.n_repeats,
                "entries": summarise_entries(verdicts, "stratified"),
            },
        },
        "champion": _choose_champion(family, table, verdicts),
    }


def _choose_champion(family: Family, table: FeatureTable, verdicts: pd.DataFrame) -> str:
    grouped = verdicts[(verdicts["kind"] == "model") & (verdicts["split"] == "grouped")]
    predicted = {}
    for name, rows in grouped.groupby("entry"):
        ordered = rows.set_index("comparison_id").reindex(table.frame["comparison_id"])
        fails = (ordered["verdict"] == "fail").to_numpy()
        predicted[str(name)] = FoldPredictions(ordered["probability"].to_numpy(), fails)
    examples = table.examples
    return tie_break(examples.y == 1, predicted, examples.groups, TIE_BREAK_ORDER, family.params.seed)
