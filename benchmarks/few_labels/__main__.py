"""Balanced accuracy and average precision by the number of labels: ``python -m benchmarks.few_labels``.

It takes SAP HANA's public series from ``../shared/data``, or where PERFJUDGE_SHARED says, and the shipped
measurement, and writes ``docs/results/few-labels.md`` with its picture in some 10 minutes on one core.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.few_labels.curves import SIZES, WAYS, Way, curves, trials
from benchmarks.table import SEED, Table, publish
from data.comparisons import formats
from data.comparisons.stages import validate
from features.comparisons.vectors import columns, featurize
from serving.pages.charts import sketch
from serving.pages.marks import Line
from training.comparisons.examples import Examples
from training.comparisons.labels.few import ENOUGH

SHARED = Path(os.environ.get("PERFJUDGE_SHARED", "../shared/data"))
SHIPPED = Path("data/raw/measured")
SEEDS = (SEED, SEED + 2)
COMMAND = "python -m benchmarks.few_labels"
PICTURE = Path("docs/images/few-labels.png")
ORDERS = ("random", "these first")
MEASURES = {"balanced_accuracy": "balanced accuracy", "average_precision": "average precision"}


def read(kind: str, path: Path) -> pd.DataFrame:
    """Return the vectors of the labelled comparisons of a source."""
    tables = formats.read(kind, [path], keep_going=True).tables
    return featurize(tables, validate(tables).comparisons)["features"]


def examples_of(table: pd.DataFrame) -> Examples:
    """Return what can be learned from a table of vectors."""
    x = table[list(columns("extended"))].to_numpy(np.float64)
    failed = (table["status"] == "fail").to_numpy(np.int64)
    return Examples(x, failed, table["fold_group"].to_numpy(np.str_))


def by_seed(found: pd.DataFrame) -> pd.DataFrame:
    """Pool the folds of every seed: a row per way, number of labels and seed."""
    sums = ["missed", "alarms", "test_fails", "test_passes"]
    folds = found.groupby(["order", "start", "size", "seed"], sort=False)
    pooled = folds[sums].sum().join(folds[["fails", "average_precision"]].mean())
    wrong = pooled["missed"] / pooled["test_fails"] + pooled["alarms"] / pooled["test_passes"]
    return pooled.assign(balanced_accuracy=1 - wrong / 2).sort_index()


def sized(found: pd.DataFrame) -> pd.DataFrame:
    """Name all labels alike, however many a fold has."""
    size = found["labels"].astype("str").where(~found["all"], "all")
    return found.assign(size=size)


def table_of(measure: str, pooled: pd.DataFrame, notes: list[str]) -> Table:
    """Return the table of one measure: mean over the seeds, and their standard deviation."""
    heads = {"labels": "", "fails at random": ".1f", "fails of these first": ".1f"}
    heads |= {named(way): "" for way in WAYS}
    rows = [
        [
            size,
            *(_of(pooled, Way(order, "nothing"), size)["fails"].mean() for order in ORDERS),
            *(_told(_of(pooled, way, size)[measure]) for way in WAYS),
        ]
        for size in (*map(str, SIZES), "all")
    ]
    champion = _told(_of(pooled, Way("none", "champion"), "0")[measure])
    none = ["0", 0.0, 0.0, "", champion, "", champion]
    return Table(f"{MEASURES[measure].capitalize()} by labels", COMMAND, heads, [none, *rows], notes)


def named(way: Way) -> str:
    """Call a way by its order and start."""
    return f"{way.order}, from {'nothing' if way.start == 'nothing' else 'the champion'}"


def _of(pooled: pd.DataFrame, way: Way, size: str) -> pd.DataFrame:
    return pooled.loc[(way.order, way.start, size)]


def _told(values: pd.Series) -> str:
    return f"{values.mean():.3f} ± {values.std(ddof=0):.3f}"


def drawn(pooled: pd.DataFrame) -> None:
    """Draw both measures beside each other."""
    champion = _of(pooled, Way("none", "champion"), "0")
    with sketch(9.6, 4.2) as figure:
        for axes, (measure, title) in zip(figure.subplots(1, 2), MEASURES.items(), strict=True):
            for look, way in enumerate(WAYS):
                own = [_of(pooled, way, str(size))[measure] for size in SIZES]
                mean, std = (np.array([getattr(one, what)() for one in own]) for what in ("mean", "std"))
                Line(named(way), SIZES, mean, look, band=std).draw(axes)
            axes.axhline(
                champion[measure].mean(), linewidth=0.9, linestyle=":", label="the champion as it is"
            )
            axes.set(xscale="log", xlabel="labels", title=title, xticks=SIZES, xticklabels=SIZES)
            axes.minorticks_off()
        axes.legend(fontsize=8, loc="lower right")
        figure.savefig(PICTURE, dpi=130, facecolor="white")


def reached(pooled: pd.DataFrame) -> str:
    """Say where 200 labels in the better order stand beside 400 at random."""
    told = []
    for measure, title in MEASURES.items():
        first, random = (
            _of(pooled, Way(order, "nothing"), size)[measure]
            for order, size in (("these first", "200"), ("random", "400"))
        )
        told.append(
            f"{title} {first.mean():.3f} with 200 of these first, {random.mean():.3f} with 400 at random"
        )
    return f"From nothing: {'; '.join(told)}."


def notes(table: pd.DataFrame, shipped: int, pooled: pd.DataFrame) -> list[str]:
    """Say what a reader must know to believe the figures."""
    several = "; ".join(
        (
            f"Data set: sap-hana, {len(table)} comparisons of {table['fold_group'].nunique()} operations",
            f"{(table['status'] == 'fail').sum()} fails",
            f"5 folds of whole operations, seeds {', '.join(map(str, SEEDS))}",
            "labels are those of the training part, asked for 25 at a time.",
        )
    )
    return [
        several,
        f"The champion has learnt from {shipped} shipped comparisons, and from none of sap-hana.",
        "Balanced accuracy is pooled over the folds of a seed, average precision their mean; ± over seeds.",
        "Every model is the same (extra trees), and its threshold is chosen inside the training part.",
        "As long as no fail or no pass is labelled, a model from nothing passes everything.",
        f"A champion stays as it is until {ENOUGH} fails and passes are labelled.",
        "How rows are ordered and thresholds chosen was settled on these series, too, in other folds.",
        "The least number of fails and passes was chosen in the folds of the first seed: no untouched data.",
        reached(pooled),
    ]


def main() -> None:
    """Measure, draw and publish."""
    table = read("sap-hana", SHARED / "sap-hana")
    shipped = examples_of(read("tables", SHIPPED))
    suspicion = -np.nan_to_num(table["rank_z_min"].to_numpy(np.float64))
    found = [curves(one) for one in trials(examples_of(table), suspicion, shipped, SEEDS)]
    pooled = by_seed(sized(pd.concat(found, ignore_index=True)))
    drawn(pooled)
    told = notes(table, len(shipped.y), pooled)
    publish("few-labels", [table_of(measure, pooled, told) for measure in MEASURES])


if __name__ == "__main__":
    main()
