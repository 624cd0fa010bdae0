"""Balanced accuracy and average precision by the number of labels, on half of SAP HANA's operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.sap_hana import SAP_HANA, feature_frames
from benchmarks.table import SEED, Table, publish
from data.comparisons import formats
from data.comparisons.sides import Floats, Ints
from features.comparisons.vectors import model_columns
from serving.reports.chart_marks import Line
from serving.reports.charts import styled_figure
from training.comparisons.family import Examples, FeatureTable, group_folds
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

SIZES = (25, 50, 100, 200, 400)
#: Labels requested at once.
BATCH = 25
FOLDS = 5
SHIPPED = Path("data/raw/measured")
SEEDS = (SEED, SEED + 2, SEED + 4)
HALF_SEED = 32
PICTURE = Path("docs/images/few-labels.png")
ORDERS = ("random", "these first")
MEASURES = {"balanced_accuracy": "balanced accuracy", "average_precision": "average precision"}


class Way(NamedTuple):
    """Order of labelling ("random", "these first") and start of the model ("nothing", "champion")."""

    order: str
    start: str

    @property
    def title(self) -> str:
        return f"{self.order}, from {'nothing' if self.start == 'nothing' else 'the champion'}"


WAYS = tuple(Way(*pair) for pair in product(ORDERS, ("nothing", "champion")))
#: The champion without any label of the data set.
CHAMPION = Way("none", "champion")


def possible_ways(shipped: object) -> tuple[Way, ...]:
    return tuple(way for way in WAYS if shipped or way.start == "nothing")


@dataclass(frozen=True)
class Trial:
    train: Examples
    test: Examples
    suspicion: Floats
    shipped: Examples | None
    seed: int
    fold: int

    def label_curves(self) -> Iterator[dict[str, object]]:
        """Yield a row per way and number of labels: errors on the test rows and the average precision."""
        champion = None
        if self.shipped is not None:
            champion = fit_few_labels(Learnable(self.shipped), self.seed)
            yield self._score(CHAMPION, np.zeros(0, np.int64), champion)
        for way in possible_ways(self.shipped):
            start = self.shipped if way.start == "champion" else None
            labelled = self._labelling_order(way, start, champion)
            for count in SIZES:
                yield self._learn_and_score(way, labelled[:count], start)
            if way.order == "random":
                whole = self._learn_and_score(way, np.arange(len(self.train.y)), start)
                yield from (whole, {**whole, "order": "these first"})

    def _labelling_order(self, way: Way, start: Examples | None, champion: FewModel | None) -> Ints:
        max_labels, n = SIZES[-1], len(self.train.y)
        if way.order == "random":
            return np.random.default_rng([self.seed, self.fold]).permutation(n)[:max_labels]
        suspicion = self.suspicion
        if start is not None and champion is not None:
            suspicion = champion.predict_probability(self.train.x)
        pool = Pool(self.train.x, np.full(n, UNLABELLED), self.train.groups, suspicion, start)
        labelled = np.zeros(0, np.int64)
        while len(labelled) < max_labels:
            chosen = next_to_label(pool, BATCH, self.seed)
            labelled = np.concatenate([labelled, chosen])
            y = pool.y.copy()
            y[chosen] = self.train.y[chosen]
            pool = replace(pool, y=y)
        return labelled

    def _learn_and_score(self, way: Way, chosen: Ints, start: Examples | None) -> dict[str, object]:
        learnable = Learnable(self.train.select_rows(chosen), start, np.delete(self.train.x, chosen, axis=0))
        return self._score(way, chosen, fit_few_labels(learnable, self.seed))

    def _score(self, way: Way, chosen: Ints, model: FewModel | None) -> dict[str, object]:
        """Score a model on the test rows; without a model, all comparisons pass."""
        failed = self.test.y == 1
        probability = np.zeros(len(failed)) if model is None else model.predict_probability(self.test.x)
        judged = probability >= model.threshold if model is not None else np.zeros(len(failed), bool)
        return {
            "seed": self.seed,
            "fold": self.fold,
            **way._asdict(),
            "labels": len(chosen),
            # the size is "all" in every fold, although folds differ in their number of labels
            "size": "all" if len(chosen) == len(self.train.y) else str(len(chosen)),
            "fails": int(self.train.y[chosen].sum()),
            "missed": int((failed & ~judged).sum()),
            "alarms": int((~failed & judged).sum()),
            "test_fails": int(failed.sum()),
            "test_passes": int((~failed).sum()),
            "average_precision": score_verdicts(failed, judged, probability).average_precision,
        }


def balanced_accuracy(folds: pd.DataFrame) -> pd.Series:
    wrong = folds["missed"] / folds["test_fails"] + folds["alarms"] / folds["test_passes"]
    return 1 - wrong / 2


def _mean_and_spread(values: pd.Series) -> str:
    return f"{values.mean():.3f} ± {values.std(ddof=0):.3f}"


@dataclass(frozen=True)
class DataSet:
    """The results on one data set; `shipped` is the number of comparisons of the champion, 0 without one.

    `fold_rows` has a row per way, number of labels, seed and fold, and `pooled` one for the folds of a seed.
    """

    name: str
    table: pd.DataFrame
    fold_rows: pd.DataFrame
    pooled: pd.DataFrame
    shipped: int

    @classmethod
    def evaluate(cls, name: str, table: pd.DataFrame, shipped: Examples | None) -> DataSet:
        """Learn from more and more labels of `table`, with and without the shipped examples."""
        suspicion, examples = -np.nan_to_num(table["rank_z_min"].to_numpy(np.float64)), examples_of(table)
        rows = []
        for seed in SEEDS:
            for fold, (train, test) in enumerate(group_folds(examples, FOLDS, seed, "few labels")):
                parts = map(examples.select_rows, (train, test))
                rows += Trial(*parts, suspicion[train], shipped, seed, fold).label_curves()
        fold_rows = pd.DataFrame(rows)
        folds = fold_rows.groupby(["order", "start", "size", "seed"], sort=False)
        sums = ["missed", "alarms", "test_fails", "test_passes"]
        pooled = folds[sums].sum().join(folds[["fails", "average_precision"]].mean())
        pooled = pooled.assign(balanced_accuracy=balanced_accuracy(pooled)).sort_index()
        return cls(name, table, fold_rows, pooled, 0 if shipped is None else len(shipped.y))

    def rows_at(self, way: Way, size: object) -> pd.DataFrame:
        return self.pooled.loc[(*way, str(size))]

    def tables(self) -> Iterator[Table]:
        heads = {"labels": "", "fails at random": ".1f", "fails of these first": ".1f"}
        heads |= {way.title: "" for way in possible_ways(self.shipped)}
        for measure, title in MEASURES.items():
            rows = []
            if self.shipped:
                champion = _mean_and_spread(self.rows_at(CHAMPION, 0)[measure])
                rows.append(["0", 0.0, 0.0, "", champion, "", champion])
            for size in (*SIZES, "all"):
                fails = [self.rows_at(Way(order, "nothing"), size)["fails"].mean() for order in ORDERS]
                scores = (self.rows_at(way, size)[measure] for way in possible_ways(self.shipped))
                rows.append([str(size), *fails, *map(_mean_and_spread, scores)])
            yield Table(f"{title.capitalize()} by labels: {self.name}", heads, rows, self.notes())

    def champion_changes(self) -> str:
        """Describe how the first labels changed the champion, on average and in the worst fold."""
        folds = self.fold_rows[self.fold_rows["start"] == "champion"].set_index(["seed", "fold"])
        before, changes = folds[folds["order"] == "none"], []
        for size, order in product((25, 50), ORDERS):
            labelled_folds = folds[(folds["order"] == order) & (folds["labels"] == size)]
            change = (labelled_folds["average_precision"] - before["average_precision"]).to_numpy()
            accuracy = (balanced_accuracy(labelled_folds) - balanced_accuracy(before)).to_numpy()
            changes.append(
                f"{size} labels, {order}: balanced accuracy {accuracy.mean():+.3f} (worst fold "
                f"{accuracy.min():+.3f}), average precision {change.mean():+.3f} ({change.min():+.3f})"
            )
        changed = "; ".join(changes)
        return f"What the first labels change of the champion, over {len(before)} folds: {changed}."

    def notes(self) -> str:
        table = self.table
        first, random = self.rows_at(WAYS[2], 200), self.rows_at(WAYS[0], 400)
        orders = "; ".join(
            f"{title} {_mean_and_spread(first[measure])} with 200 of these first, "
            f"{_mean_and_spread(random[measure])} with 400 at random"
            for measure, title in MEASURES.items()
        )
        champion = f"""
        - The champion has learnt from {self.shipped} shipped comparisons, and from none of {self.name}.
        - A champion stays as it is until {ENOUGH_LABELS} labels, with {ENOUGH} fails and passes.
        - While most comparisons are unlabelled, it keeps its share of fails; this rule and its limits were
          chosen on the other half of the operations.
        """
        return f"""
        - Data set: {self.name}, {len(table)} comparisons of {table["fold_group"].nunique()} operations;
          {(table["status"] == "fail").sum()} fails; 5 folds of whole operations, seeds
          {", ".join(map(str, SEEDS))}; labels are those of the training part, asked for 25 at a time.
        {champion if self.shipped else ""}
        - Balanced accuracy is pooled over the folds of a seed, average precision their mean; ± over seeds.
        - Every model is the same (extra trees), and its threshold is chosen inside the training part.
        - As long as no fail or no pass is labelled, a model from nothing passes everything.
        - The order of labelling was chosen on both sets, some in these folds.
        - From nothing: {orders}.
        {f"- {self.champion_changes()}" if self.shipped else ""}
        """


def read_features(kind: str, path: Path) -> pd.DataFrame:
    return feature_frames(formats.read_tables(kind, [path], keep_going=True).tables)["features"]


def examples_of(table: pd.DataFrame) -> Examples:
    return FeatureTable(table, model_columns("extended"), "").examples


def draw_picture(sets: Sequence[DataSet]) -> None:
    with styled_figure(9.6, 3.9 * len(sets)) as figure:
        for data_set, row in zip(sets, figure.subplots(len(sets), 2), strict=True):
            for axes, (measure, title) in zip(row, MEASURES.items(), strict=True):
                for way in possible_ways(data_set.shipped):
                    values = [data_set.rows_at(way, size)[measure] for size in SIZES]
                    mean, std = (np.array([getattr(v, what)() for v in values]) for what in ("mean", "std"))
                    Line(way.title, SIZES, mean, WAYS.index(way), band=std).draw(axes)
                if data_set.shipped:
                    level = data_set.rows_at(CHAMPION, 0)[measure].mean()
                    axes.axhline(level, linewidth=0.9, linestyle=":", label="the champion as it is")
                axes.set(xscale="log", xlabel="labels", title=f"{data_set.name}: {title}")
                axes.set(xticks=SIZES, xticklabels=SIZES)
                axes.minorticks_off()
            row[-1].legend(fontsize=8, loc="lower right")
        figure.savefig(PICTURE, dpi=110, facecolor="white")


def main() -> None:
    shipped = read_features("tables", SHIPPED)
    table = read_features("sap-hana", SAP_HANA)
    drawn = np.random.default_rng(HALF_SEED).permutation(sorted(table["fold_group"].unique()))
    # the half of the operations on which no rule was chosen
    held_out = table[table["fold_group"].isin(drawn[len(drawn) // 2 :])]
    sets = [
        DataSet.evaluate("sap-hana", held_out, examples_of(shipped)),
        DataSet.evaluate("the shipped measurement", shipped, None),
    ]
    draw_picture(sets)
    publish("few-labels", [table for data_set in sets for table in data_set.tables()])


if __name__ == "__main__":
    main()
