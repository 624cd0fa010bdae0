"""Stage ``evaluate``: models and rules on the same folds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.parallel import Compute, side_by_side
from data.tables.files import write_json, write_tables
from training.comparisons.decision import (
    HeldRows,
    decision,
    examples_of,
    outcomes,
    read_held,
    sent,
    summaries,
)
from training.comparisons.family import Examples, Family, FeatureTable, Part, parts, stratified
from training.comparisons.label_review import known_of
from training.comparisons.train import Fit, tested
from training.comparisons.tune import Classified
from training.estimators.catalogue import CATALOGUE, STEADIEST, pipeline
from training.evaluation.figures import of_verdicts
from training.evaluation.metrics import entries
from training.evaluation.search import read_tuned, require_parts

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

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
    said: Mapping[str, FoldPredictions],
    groups: NDArray[np.str_],
    order: Sequence[str],
    seed: int,
) -> str:
    """Return the first model of `order` that is not significantly worse than the best.

    The score of a model is the mean of its balanced accuracy and its average precision, as in the search for
    parameters. A model is worse if the whole bootstrap interval of the difference in score, over groups drawn
    with replacement, is below 0. Models that one measurement cannot distinguish are ordered by how little
    they depend on it, as Breiman, Friedman, Olshen and Stone choose the simplest model within one standard
    error (Classification and Regression Trees, 1984, section 3.4.3).

    Parameters
    ----------
    failed : ndarray of bool, shape (n_rows,)
        The labels.
    said : mapping of str to FoldPredictions
        The predictions of each model.
    groups : ndarray of str, shape (n_rows,)
    order : sequence of str
        Names of models, preferred first.
    """
    names = sorted(said, key=lambda name: order.index(name) if name in order else len(order))
    once = np.ones(len(failed))
    worth = {name: _worth(failed, said[name], once) for name in names}
    best = max(names, key=lambda name: worth[name])
    weights = list(_drawn(failed, groups, seed))
    drawn = {name: np.array([_worth(failed, said[name], weight) for weight in weights]) for name in names}
    tail = (1 - CONFIDENCE) / 2
    return next(name for name in names if np.quantile(drawn[best] - drawn[name], tail) <= 0)


def _drawn(failed: Flags, groups: NDArray[np.str_], seed: int) -> list[Floats]:
    """Return how often each row is drawn; draws with only one label are left out."""
    _, group = np.unique(groups, return_inverse=True)
    size = int(group.max()) + 1
    counts = np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), size=DRAWS)
    weights = counts[:, group].astype(np.float64)
    return [weight for weight in weights if weight[failed].sum() and weight[~failed].sum()]


def _worth(failed: Flags, said: FoldPredictions, weight: Floats) -> float:
    from sklearn.metrics import average_precision_score

    recall = np.average(said.fails[failed], weights=weight[failed])
    spared = np.average(~said.fails[~failed], weights=weight[~failed])
    precision = average_precision_score(failed, said.probability, sample_weight=weight)
    return float(((recall + spared) / 2 + precision) / 2)


NEIGHBOURS = 30
#: A comparison fails above this share of the votes; a tie passes.
MAJORITY = 0.5
#: Largest number of training rows per fold; passes beyond it are left out, since the curves only show a
#: trend.
LARGEST = 3000

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Curves:
    """The input of all four curves of one fold."""

    train: Examples
    test: Examples
    number: int
    seed: int


def curves(examples: Examples, folds: list[Part], seed: int, compute: Compute) -> pd.DataFrame:
    """Return the accuracy curves on `folds`, with the configurations of seed 000, section 6.7.

    ``curve`` ("knn-uniform", "knn-distance", "random-forest", "extra-trees"), ``parameter`` (number of
    neighbours, or of trees), ``fold``, ``accuracy``.
    """
    tasks = [
        _Curves(examples.rows(part.train).sample(LARGEST, seed), examples.rows(part.test), number, seed)
        for number, part in enumerate(folds)
    ]
    return pd.concat(side_by_side(_of_fold, tasks, compute, "accuracy curves"), ignore_index=True)


def _of_fold(task: _Curves) -> pd.DataFrame:
    rows = []
    for curve in ("knn-uniform", "knn-distance", "random-forest", "extra-trees"):
        votes = _neighbour_votes(task, curve) if curve.startswith("knn") else _tree_votes(task, curve)
        for parameter, share in enumerate(votes, start=1):
            accuracy = float(((share > MAJORITY) == task.test.y).mean())
            rows.append((curve, parameter, task.number, accuracy))
    return pd.DataFrame(rows, columns=["curve", "parameter", "fold", "accuracy"])


def _fitted(task: _Curves, name: str) -> tuple[Any, Floats]:
    """Return the fitted classifier and the preprocessed test vectors."""
    model = CATALOGUE[name]
    whole = pipeline(model, model.start, task.train.y, task.seed).fit(task.train.x, task.train.y)
    return whole[-1], np.asarray(whole[:-1].transform(task.test.x))


def _neighbour_votes(task: _Curves, name: str) -> Iterator[Floats]:
    """Yield the share of votes for fail among the nearest 1, 2, ... neighbours."""
    classifier, x = _fitted(task, name)
    distance, nearest = classifier.kneighbors(x, n_neighbors=min(NEIGHBOURS, len(task.train.y)))
    weight = np.ones_like(distance) if name == "knn-uniform" else _nearness(distance)
    voted = np.cumsum(weight * task.train.y[nearest], axis=1) / np.cumsum(weight, axis=1)
    yield from voted.T


def _nearness(distance: Floats) -> Floats:
    """Return inverse distances as weights; neighbours at distance 0 outvote all others."""
    same = distance == 0
    inverse = 1 / np.where(same, 1.0, distance)
    return np.where(same.any(axis=1, keepdims=True), same.astype(np.float64), inverse)


def _tree_votes(task: _Curves, name: str) -> Iterator[Floats]:
    """Yield the share of votes for fail of the first 1, 2, ... trees of one forest."""
    classifier, x = _fitted(task, name)
    total = np.zeros(len(x))
    for number, tree in enumerate(classifier.estimators_, start=1):
        total += tree.predict_proba(x)[:, 1]
        yield total / number


def evaluate(family: Family) -> None:
    """Write metrics.json, oof.parquet, promises.parquet, curves.parquet, and the plots of DVC."""
    table = family.table()
    verdicts, counted = out_of_fold(family, table, read_tuned(family.places.tuned, Classified))
    folds = stratified(table.examples, family.section.evaluate, family.params.seed)
    drawn = curves(table.examples, folds, family.params.seed, family.params.compute)
    tables = {"oof": verdicts, "promises": counted, "curves": drawn}
    write_tables(family.places.evaluated, tables)
    content = {
        **metrics(family, table, verdicts),
        "promises": {split: summaries(verdicts, counted, split) for split in ("grouped", "stratified")},
    }
    write_json(family.places.metrics, content)
    shown = of_verdicts(content, "grouped", verdicts)
    replace(shown, plots={**shown.plots, "sent": sent(content["promises"]["grouped"])}).write(family.places)


def out_of_fold(
    family: Family, table: FeatureTable, tuned: dict[str, dict[str, Classified]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the verdicts of models and rules on the test rows of all folds, and the counted outcomes.

    Returns
    -------
    verdicts : DataFrame
        The content of oof.parquet.
    counted : DataFrame
        The content of promises.parquet.
    """
    examples, seed, how = examples_of(family, table), family.params.seed, family.section.decide
    below = ~examples.asked
    folds = [part for part in parts(examples, family.section.evaluate, seed) if part.split != "all"]
    require_parts(family.places.tuned, tuned, [part.name for part in folds])
    known = known_of(family.features, table, examples)
    cells = [(part, name, chosen) for part in folds for name, chosen in tuned[part.name].items()]
    fits = [
        Fit(name, chosen, known.of(examples.rows(part.train)), examples.x[part.test], seed, table.guide)
        for part, name, chosen in cells
    ]
    probabilities = side_by_side(tested, fits, family.params.compute, f"evaluate {family.name}")
    said = read_held(family.places.tuned, [(part.name, name) for part, name, _ in cells])
    rows, counted = [], []
    for (part, name, chosen), probability, inner in zip(cells, probabilities, said, strict=True):
        inside = HeldRows(examples.y[part.train], examples.groups[part.train], inner, below[part.train])
        found = decision(inside, chosen.threshold, how, seed)
        told = found.told(probability, below[part.test])
        counting = np.where(below[part.test], 0.0, told)
        rows.append(_verdicts(table, part, name, counting, found.threshold))
        became = outcomes(found, examples.y[part.test], told, below[part.test])
        counted.append(became.assign(split=part.split, repeat=part.repeat, fold=part.fold, entry=name))
    rules = family.rules().reindex(table.frame["comparison_id"])
    rows += [
        _verdicts(table, part, str(rule), rules[rule].to_numpy(bool)[part.test])
        for part in folds
        for rule in rules
    ]
    return pd.concat(rows, ignore_index=True), pd.concat(counted, ignore_index=True)


def _verdicts(
    table: FeatureTable, part: Part, entry: str, said: Any, threshold: float | None = None
) -> pd.DataFrame:
    """Return verdicts by flags of fails (`said` of a rule), or by probability and threshold (a model)."""
    rows, ruled = table.frame.iloc[part.test], threshold is None
    return pd.DataFrame(
        {
            "comparison_id": rows["comparison_id"].to_numpy(),
            "split": part.split,
            "repeat": part.repeat,
            "fold": part.fold,
            "entry": entry,
            "kind": "rule" if ruled else "model",
            "verdict": np.where(said if ruled else said >= threshold, "fail", "pass"),
            "status": rows["status"].to_numpy(),
            "probability": np.nan if ruled else said,
            "threshold": np.nan if ruled else threshold,
        }
    )


def metrics(family: Family, table: FeatureTable, verdicts: pd.DataFrame) -> dict[str, Any]:
    """Return the content of metrics.json."""
    section, how = family.section, family.section.evaluate
    by_operation = entries(verdicts, "grouped")
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
        "features": section.featurize.set,
        "splits": {
            "grouped": {
                "scheme": f"{how.grouped_folds} folds of whole operations",
                "folds": how.grouped_folds,
                "entries": by_operation,
            },
            "stratified": {
                "scheme": f"{how.folds} stratified folds at random, {how.repeats} times (seed 000)",
                "folds": how.folds * how.repeats,
                "entries": entries(verdicts, "stratified"),
            },
        },
        "champion": _champion(family, table, verdicts),
    }


def _champion(family: Family, table: FeatureTable, verdicts: pd.DataFrame) -> str:
    """Return the model to promote, by its verdicts on unseen operations."""
    own = verdicts[(verdicts["kind"] == "model") & (verdicts["split"] == "grouped")]
    ordered = {
        str(name): rows.set_index("comparison_id").reindex(table.frame["comparison_id"])
        for name, rows in own.groupby("entry")
    }
    said = {
        name: FoldPredictions(rows["probability"].to_numpy(), (rows["verdict"] == "fail").to_numpy())
        for name, rows in ordered.items()
    }
    return tie_break(table.examples.y == 1, said, table.examples.groups, STEADIEST, family.params.seed)
