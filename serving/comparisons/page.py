"""What the page about comparisons holds, put together from what the stages left behind."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.comparisons.tables import OPERATION
from data.errors import InputError
from data.places import Places
from serving.comparisons.accuracy_charts import by_model, by_neighbours, by_trees
from serving.comparisons.advice import advice
from serving.comparisons.evaluated import EvaluatedComparisons
from serving.comparisons.labels.doubted import Doubts
from serving.comparisons.mistakes import Mistake, mistake_chart, worst_mistakes
from serving.comparisons.promises.charts import ModelPromises, looks_chart, reliability_chart
from serving.comparisons.tree_chart import nodes_of, tree_chart
from serving.comparisons.vector_chart import vectors_chart
from serving.comparisons.verdict_charts import confusion_chart, precision_recall_chart
from serving.pages.apart import CONFIDENCE, between, lead
from serving.pages.charts import Chart, counted, percent
from serving.pages.evaluated import Confusion
from serving.pages.papers import THESIS
from serving.pages.render import render

#: Components of seed 000, figure 6.5: the ones that are signed square roots.
_SEED_FEATURE = re.compile(r"(medians|mins|maxes|q1s|q3s)_(min|med|median|max)")


@dataclass(frozen=True)
class Drawn:
    """A mistake and its chart."""

    mistake: Mistake
    chart: Chart


@dataclass(frozen=True)
class PromisesDrawn:
    """What became of the champion's promises, and its charts."""

    promises: ModelPromises
    charts: tuple[Chart, Chart]


def page(root: Path) -> str:
    """Return the page for the files under `root`, as one self-contained HTML text."""
    evaluated = EvaluatedComparisons.read(root)
    metrics, models = evaluated.metrics, evaluated.of("grouped", "model")
    champion = models[models["entry"] == metrics.champion]
    if champion.empty:
        raise InputError(
            f"has no verdicts of the champion {metrics.champion!r} on the grouped folds",
            file=Places("comparisons", root).evaluated / "oof.parquet",
        )
    confusion = Confusion.of(champion)
    mistakes = [Drawn(one, mistake_chart(one)) for one in worst_mistakes(champion, evaluated.tables)]
    promises = metrics.promises.get("grouped", {}).get(metrics.champion)
    kept = promises and PromisesDrawn(promises, promise_charts(champion, promises))
    doubts = Doubts.of(evaluated)
    return render(
        "comparisons.html",
        kept=kept,
        metrics=metrics,
        summary=summary(metrics.champion, confusion),
        rivals=rivals(evaluated, champion),
        points=list(advice(evaluated, champion, doubts)),
        papers=[THESIS],
        confusion=confusion_chart("confusion", metrics.champion, confusion),
        curves=precision_recall_chart("precision-recall", models, evaluated.of("grouped", "rule")),
        figures=figures(evaluated),
        mistakes=mistakes,
        doubts=doubts,
        wrong=confusion.missed + confusion.false_alarms,
    )


def promise_charts(champion: pd.DataFrame, promises: ModelPromises) -> tuple[Chart, Chart]:
    """Draw what the champion's probabilities are worth, and what looks save; from its held-out verdicts."""
    name = str(champion["entry"].iloc[0])
    return reliability_chart(champion, name, promises.calibration_error), looks_chart(promises.sent)


def figures(evaluated: EvaluatedComparisons) -> list[tuple[str, Chart | None, str]]:
    """Draw what the figures of seed 000, chapter 6, show: number, chart, what to say where there is none."""
    rooted = [name for name in evaluated.features.columns if _SEED_FEATURE.fullmatch(name)]
    data, verdicts = evaluated.metrics.data, evaluated.verdicts
    always_pass = 1 - data.fails / data.comparisons
    tree = tree_chart("figure-6-7", nodes_of(evaluated.tree, frozenset(rooted))) if evaluated.tree else None
    no_tree = "models/comparisons/decision-tree does not exist: the params leave this model out."
    no_curve = "reports/comparisons/evaluated/curves.parquet does not hold this curve."
    vectors = vectors_chart("figure-6-4", evaluated.features, rooted)
    by_models = by_model(verdicts[verdicts["kind"] == "model"], always_pass)
    return [
        ("Figure 6.4 of the scheduler thesis", vectors, "There are not two classes in three dimensions."),
        ("Figure 6.6 of the scheduler thesis", by_neighbours(evaluated.curves, always_pass), no_curve),
        ("Figure 6.7 of the scheduler thesis", tree, no_tree),
        ("Figure 6.8 of the scheduler thesis", by_trees(evaluated.curves, always_pass), no_curve),
        ("Figure 6.9 of the scheduler thesis", by_models, "No model was evaluated."),
    ]


def summary(champion: str, confusion: Confusion) -> str:
    """Say in one sentence how often `champion` errs on operations that it never saw."""
    passes = f"{counted(confusion.passes, 'comparison')} without one"
    return f"On operations that it never saw in training, {confusion.told(champion, 'regression', passes)}"


def rivals(evaluated: EvaluatedComparisons, champion: pd.DataFrame) -> str:
    """Say how the champion does beside the best rule, by balanced accuracy on the same comparisons."""
    metrics, split = evaluated.metrics, evaluated.metrics.splits["grouped"]
    best = split.best("rule")
    if best is None:
        return ""
    ours, (name, theirs) = split.entries[metrics.champion], best
    rules = evaluated.of("grouped", "rule")
    found = between(
        champion, rules[rules["entry"] == name], "comparison_id", operations(evaluated), metrics.seed
    )
    return (
        f"Its balanced accuracy, {ours.accuracy:.3f}, {lead(found)} that of the best rule, {name}, "
        f"{theirs.accuracy:.3f} (interval: {percent(CONFIDENCE, 0)} of draws of whole operations)."
    )


def operations(evaluated: EvaluatedComparisons) -> pd.Series:
    """Return by comparison which operation it is of."""
    rows = evaluated.tables.comparisons
    return pd.Series(
        rows[OPERATION].astype(str).agg(" ".join, axis="columns").to_numpy(), rows["comparison_id"]
    )
