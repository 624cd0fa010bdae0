"""Balanced accuracy and average precision by the number of labels: ``python -m benchmarks.few_labels``.

It reads SAP HANA's public series from ``../shared/data`` (or the directory PERFJUDGE_SHARED), of which it
uses the held-out half, and the shipped measurement. It writes ``docs/results/few-labels.md`` and its picture
in about 6 minutes on one core.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.table import SEED, Table, publish
from data.comparisons import formats
from data.comparisons.stages import validate_comparisons
from features.comparisons.featurize import training_tables
from features.comparisons.vectors import model_columns
from serving.reports.chart_marks import Line
from serving.reports.charts import styled_figure
from training.comparisons.family import Examples, group_folds
from training.comparisons.label_review import (
    ENOUGH,
    ENOUGH_LABELS,
    UNLABELLED,
    FewModel,
    Learnable,
    Pool,
    fit_few_labels,
    next_to_label,
)
from training.evaluation.metrics import score_verdicts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SIZES = (25, 50, 100, 200, 400)
#: Labels requested at once.
BATCH = 25
FOLDS = 5


class Way(NamedTuple):
    """Order of labelling ("random", "these first") and start of the model ("nothing", "champion")."""

    order: str
    start: str


WAYS = tuple(Way(*pair) for pair in product(("random", "these first"), ("nothing", "champion")))


def ways(*, champion: bool) -> tuple[Way, ...]:
    return tuple(way for way in WAYS if champion or way.start == "nothing")


@dataclass(frozen=True)
class Trial:
    """One fold of one seed."""

    train: Examples
    test: Examples
    suspicion: Floats
    shipped: Examples | None
    seed: int
    fold: int


def trials(
    examples: Examples, suspicion: Floats, shipped: Examples | None, seeds: Sequence[int]
) -> Iterator[Trial]:
    for seed in seeds:
        for fold, (train, test) in enumerate(group_folds(examples, FOLDS, seed, "few labels")):
            yield Trial(
                examples.select_rows(train), examples.select_rows(test), suspicion[train], shipped, seed, fold
            )


def label_curves(trial: Trial) -> pd.DataFrame:
    """Return a row per way and number of labels: errors on the test rows and the average precision."""
    champion, rows = None, []
    if trial.shipped is not None:
        champion = fit_few_labels(Learnable(trial.shipped), trial.seed)
        rows = [_score_model(trial, Way("none", "champion"), np.zeros(0, np.int64), champion)]
    for way in ways(champion=trial.shipped is not None):
        start = trial.shipped if way.start == "champion" else None
        labelled = _labelling_order(trial, way, champion)
        rows += [_learn_and_score(trial, way, labelled[:count], start) for count in SIZES]
        if way.order == "random":
            whole = _learn_and_score(trial, way, np.arange(len(trial.train.y)), start)
            rows += [whole, {**whole, "order": "these first"}]
    return pd.DataFrame(rows)


def _learn_and_score(trial: Trial, way: Way, chosen: Ints, start: Examples | None) -> dict[str, object]:
    learnable = Learnable(trial.train.select_rows(chosen), start, np.delete(trial.train.x, chosen, axis=0))
    return _score_model(trial, way, chosen, fit_few_labels(learnable, trial.seed))


def _labelling_order(trial: Trial, way: Way, champion: FewModel | None) -> Ints:
    max_labels, n = SIZES[-1], len(trial.train.y)
    if way.order == "random":
        return np.random.default_rng([trial.seed, trial.fold]).permutation(n)[:max_labels]
    start, suspicion = None, trial.suspicion
    if way.start == "champion" and champion is not None:
        start, suspicion = trial.shipped, champion.predict_probability(trial.train.x)
    unlabelled = np.full(n, UNLABELLED)
    pool = Pool(trial.train.x, unlabelled, trial.train.groups, suspicion, start)
    labelled = np.zeros(0, np.int64)
    while len(labelled) < max_labels:
        chosen = next_to_label(pool, BATCH, trial.seed)
        labelled = np.concatenate([labelled, chosen])
        y = pool.y.copy()
        y[chosen] = trial.train.y[chosen]
        pool = replace(pool, y=y)
    return labelled


def _score_model(trial: Trial, way: Way, chosen: Ints, model: FewModel | None) -> dict[str, object]:
    """Score a model on the test rows; without a model, all comparisons pass."""
    failed = trial.test.y == 1
    probability = np.zeros(len(failed)) if model is None else model.predict_probability(trial.test.x)
    judged = probability >= model.threshold if model is not None else np.zeros(len(failed), bool)
    test_scores = score_verdicts(failed, judged, probability)
    return {
        "seed": trial.seed,
        "fold": trial.fold,
        **way._asdict(),
        "labels": len(chosen),
        "all": len(chosen) == len(trial.train.y),
        "fails": int(trial.train.y[chosen].sum()),
        "missed": int((failed & ~judged).sum()),
        "alarms": int((~failed & judged).sum()),
        "test_fails": int(failed.sum()),
        "test_passes": int((~failed).sum()),
        "average_precision": test_scores.average_precision,
    }


SHARED = Path(os.environ.get("PERFJUDGE_SHARED", "../shared/data"))
SHIPPED = Path("data/raw/measured")
SEEDS = (SEED, SEED + 2, SEED + 4)
HALF_SEED = 32
PICTURE = Path("docs/images/few-labels.png")
ORDERS = ("random", "these first")
MEASURES = {"balanced_accuracy": "balanced accuracy", "average_precision": "average precision"}


@dataclass(frozen=True)
class DataSet:
    """The results on one data set; `shipped` is the number of comparisons of the champion, 0 without one."""

    name: str
    table: pd.DataFrame
    fold_rows: pd.DataFrame
    pooled: pd.DataFrame
    shipped: int

    @property
    def ways(self) -> tuple[Way, ...]:
        return ways(champion=self.shipped > 0)

    @property
    def champion(self) -> pd.DataFrame | None:
        """The rows of the champion without any label of this data set, by seed; None without a champion."""
        return _rows_at(self.pooled, Way("none", "champion"), "0") if self.shipped else None


def read_features(kind: str, path: Path) -> pd.DataFrame:
    tables = formats.read_tables(kind, [path], keep_going=True).tables
    return training_tables(tables, validate_comparisons(tables).comparisons)["features"]


def held_out_half(table: pd.DataFrame) -> pd.DataFrame:
    """Return the comparisons of the half of the operations on which no rule was chosen."""
    operations = np.array(sorted(table["fold_group"].unique()))
    drawn = np.random.default_rng(HALF_SEED).permutation(operations)
    return table[table["fold_group"].isin(drawn[len(drawn) // 2 :])]


def examples_of(table: pd.DataFrame) -> Examples:
    x = table[list(model_columns("extended"))].to_numpy(np.float64)
    failed = (table["status"] == "fail").to_numpy(np.int64)
    return Examples(x, failed, table["fold_group"].to_numpy(np.str_))


def by_seed(fold_rows: pd.DataFrame) -> pd.DataFrame:
    """Pool the folds of each seed; the result has a row per way, number of labels and seed."""
    sums = ["missed", "alarms", "test_fails", "test_passes"]
    folds = fold_rows.groupby(["order", "start", "size", "seed"], sort=False)
    pooled = folds[sums].sum().join(folds[["fails", "average_precision"]].mean())
    return pooled.assign(balanced_accuracy=_balanced(pooled)).sort_index()


def table_of(measure: str, data_set: DataSet, notes: list[str]) -> Table:
    """Return the table of one measure: mean and standard deviation over the seeds."""
    heads = {"labels": "", "fails at random": ".1f", "fails of these first": ".1f"}
    heads |= {way_title(way): "" for way in data_set.ways}
    rows = [
        [
            size,
            *(_rows_at(data_set.pooled, Way(order, "nothing"), size)["fails"].mean() for order in ORDERS),
            *(_mean_and_spread(_rows_at(data_set.pooled, way, size)[measure]) for way in data_set.ways),
        ]
        for size in (*map(str, SIZES), "all")
    ]
    if data_set.champion is not None:
        champion = _mean_and_spread(data_set.champion[measure])
        rows.insert(0, ["0", 0.0, 0.0, "", champion, "", champion])
    return Table(f"{MEASURES[measure].capitalize()} by labels: {data_set.name}", heads, rows, notes)


def way_title(way: Way) -> str:
    return f"{way.order}, from {'nothing' if way.start == 'nothing' else 'the champion'}"


def _rows_at(pooled: pd.DataFrame, way: Way, size: str) -> pd.DataFrame:
    return pooled.loc[(way.order, way.start, size)]


def _mean_and_spread(values: pd.Series) -> str:
    return f"{values.mean():.3f} ± {values.std(ddof=0):.3f}"


def draw_picture(sets: Sequence[DataSet]) -> None:
    """Draw the two measures side by side, a row for every data set."""
    with styled_figure(9.6, 3.9 * len(sets)) as figure:
        for data_set, row in zip(sets, figure.subplots(len(sets), 2), strict=True):
            for axes, (measure, title) in zip(row, MEASURES.items(), strict=True):
                _draw_measure(axes, data_set, measure)
                axes.set(xscale="log", xlabel="labels", title=f"{data_set.name}: {title}")
                axes.set(xticks=SIZES, xticklabels=SIZES)
                axes.minorticks_off()
            row[-1].legend(fontsize=8, loc="lower right")
        figure.savefig(PICTURE, dpi=110, facecolor="white")


def _draw_measure(axes: Any, data_set: DataSet, measure: str) -> None:
    for way in data_set.ways:
        rows_by_size = [_rows_at(data_set.pooled, way, str(size))[measure] for size in SIZES]
        mean, std = (
            np.array([getattr(values, what)() for values in rows_by_size]) for what in ("mean", "std")
        )
        Line(way_title(way), SIZES, mean, WAYS.index(way), band=std).draw(axes)
    if data_set.champion is not None:
        level = data_set.champion[measure].mean()
        axes.axhline(level, linewidth=0.9, linestyle=":", label="the champion as it is")


def order_sentence(data_set: DataSet) -> str:
    """Compare 200 labels in the better order with 400 at random, as a sentence."""
    first, random = (
        _rows_at(data_set.pooled, Way(order, "nothing"), size)
        for order, size in (("these first", "200"), ("random", "400"))
    )
    sentences = (
        f"{title} {_mean_and_spread(first[measure])} with 200 of these first, "
        f"{_mean_and_spread(random[measure])} with 400 at random"
        for measure, title in MEASURES.items()
    )
    return f"From nothing: {'; '.join(sentences)}."


def champion_changes(data_set: DataSet) -> list[str]:
    """Describe how the first labels changed the champion, on average and in the worst fold."""
    if data_set.champion is None:
        return []
    folds = data_set.fold_rows[data_set.fold_rows["start"] == "champion"].set_index(["seed", "fold"])
    before = folds[folds["order"] == "none"]
    changes = []
    for size in (25, 50):
        for order in ORDERS:
            labelled_folds = folds[(folds["order"] == order) & (folds["labels"] == size)]
            change = (labelled_folds["average_precision"] - before["average_precision"]).to_numpy()
            accuracy = (_balanced(labelled_folds) - _balanced(before)).to_numpy()
            changes.append(
                f"{size} labels, {order}: balanced accuracy {accuracy.mean():+.3f} (worst fold "
                f"{accuracy.min():+.3f}), average precision {change.mean():+.3f} ({change.min():+.3f})"
            )
    return [f"What the first labels change of the champion, over {len(before)} folds: {'; '.join(changes)}."]


def _balanced(folds: pd.DataFrame) -> pd.Series:
    wrong = folds["missed"] / folds["test_fails"] + folds["alarms"] / folds["test_passes"]
    return 1 - wrong / 2


def page_notes(data_set: DataSet) -> list[str]:
    """Return the notes below the tables: data, split, champion and model."""
    table = data_set.table
    several = "; ".join(
        (
            (
                f"Data set: {data_set.name}, {len(table)} comparisons of {table['fold_group'].nunique()} "
                "operations"
            ),
            f"{(table['status'] == 'fail').sum()} fails",
            f"5 folds of whole operations, seeds {', '.join(map(str, SEEDS))}",
            "labels are those of the training part, asked for 25 at a time.",
        )
    )
    champion = (
        (
            f"The champion has learnt from {data_set.shipped} shipped comparisons, and from none of "
            f"{data_set.name}."
        ),
        f"A champion stays as it is until {ENOUGH_LABELS} labels, with {ENOUGH} fails and passes.",
        (
            "While most comparisons are unlabelled, it keeps its share of fails; this rule and its limits "
            "were chosen on the other half of the operations."
        ),
    )
    return [
        several,
        *(champion if data_set.champion is not None else ()),
        "Balanced accuracy is pooled over the folds of a seed, average precision their mean; ± over seeds.",
        "Every model is the same (extra trees), and its threshold is chosen inside the training part.",
        "As long as no fail or no pass is labelled, a model from nothing passes everything.",
        "The order of labelling was chosen on both sets, some in these folds.",
        order_sentence(data_set),
        *champion_changes(data_set),
    ]


def evaluate_data_set(name: str, table: pd.DataFrame, shipped: Examples | None) -> DataSet:
    suspicion = -np.nan_to_num(table["rank_z_min"].to_numpy(np.float64))
    fold_rows = pd.concat(
        [label_curves(trial) for trial in trials(examples_of(table), suspicion, shipped, SEEDS)]
    )
    # the size is "all" in every fold, although folds differ in their number of labels
    fold_rows = fold_rows.assign(size=fold_rows["labels"].astype("str").where(~fold_rows["all"], "all"))
    return DataSet(name, table, fold_rows, by_seed(fold_rows), 0 if shipped is None else len(shipped.y))


def main() -> None:
    shipped = read_features("tables", SHIPPED)
    held_out = held_out_half(read_features("sap-hana", SHARED / "sap-hana"))
    sets = [
        evaluate_data_set("sap-hana", held_out, examples_of(shipped)),
        evaluate_data_set("the shipped measurement", shipped, None),
    ]
    draw_picture(sets)
    publish(
        "few-labels",
        [table_of(measure, data_set, page_notes(data_set)) for data_set in sets for measure in MEASURES],
    )


if __name__ == "__main__":
    main()
