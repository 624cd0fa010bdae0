"""What the page about comparisons holds, put together from what the stages left behind."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from data.places import Places
from data.tables.specs import read_table
from serving.comparisons.accuracy_charts import by_model, by_neighbours, by_trees
from serving.comparisons.tree_chart import nodes_of, tree_chart
from serving.comparisons.vector_chart import vectors_chart
from serving.comparisons.verdict_charts import confusion_chart, precision_recall_chart
from serving.pages.charts import Chart, counted
from serving.pages.evaluated import Confusion, Evaluated, Split
from serving.pages.mistakes import Mistake, mistake_chart, worst_mistakes
from serving.report import render
from training.comparisons.stored import TrainedModel

#: Components of seed 000, figure 6.5: the ones that are signed square roots.
_SEED_FEATURE = re.compile(r"(medians|mins|maxes|q1s|q3s)_(min|med|median|max)")


@dataclass(frozen=True)
class Inputs:
    """All that the page is drawn from."""

    evaluated: Evaluated
    features: pd.DataFrame
    tables: ComparisonTables
    tree: TrainedModel | None

    @classmethod
    def read(cls, root: Path) -> Inputs:
        """Read the stages' files under `root`.

        Raises
        ------
        InputError
            If one that the page cannot do without is missing or broken.
        """
        places = Places("comparisons", root)
        tree = places.models / "decision-tree"
        return cls(
            Evaluated.read(places),
            read_table(
                places.processed / "features.parquet",
                {"comparison_id": "str", "status": "str"},
            ),
            ComparisonTables.read(places.interim),
            TrainedModel.read(tree) if (tree / "model.skops").is_file() else None,
        )


@dataclass(frozen=True)
class Drawn:
    """A mistake and its chart."""

    mistake: Mistake
    chart: Chart


def page(root: Path) -> str:
    """Return the page for the files under `root`, as one self-contained HTML text."""
    inputs = Inputs.read(root)
    evaluated = inputs.evaluated
    champion = evaluated.champion("grouped")
    if champion.empty:
        raise InputError(
            f"has no verdicts of the champion {evaluated.metrics.champion!r} on the grouped folds",
            file=Places("comparisons", root).evaluated / "oof.parquet",
        )
    confusion = Confusion.of(champion)
    mistakes = [Drawn(one, mistake_chart(one)) for one in worst_mistakes(champion, inputs.tables)]
    return render(
        "comparisons.html",
        metrics=evaluated.metrics,
        summary=summary(evaluated.metrics.champion, confusion),
        rivals=rivals(evaluated.metrics.splits["grouped"]),
        confusion=confusion_chart("confusion", evaluated.metrics.champion, confusion),
        curves=precision_recall_chart(
            "precision-recall", evaluated.of("grouped", "model"), evaluated.of("grouped", "rule")
        ),
        figures=figures(inputs),
        mistakes=mistakes,
        wrong=confusion.missed + confusion.false_alarms,
    )


def figures(inputs: Inputs) -> list[tuple[str, Chart | None, str]]:
    """Draw what the figures of seed 000, chapter 6, show.

    Returns
    -------
    list of (str, Chart or None, str)
        The figure's number, the chart, and what to say where it cannot be drawn.
    """
    rooted = [name for name in inputs.features.columns if _SEED_FEATURE.fullmatch(name)]
    data, evaluated = inputs.evaluated.metrics.data, inputs.evaluated
    always_pass = 1 - data.fails / data.comparisons
    tree = tree_chart("figure-6-7", nodes_of(inputs.tree, frozenset(rooted))) if inputs.tree else None
    no_curve = "reports/comparisons/evaluated/curves.parquet does not hold this curve."
    return [
        (
            "6.4",
            vectors_chart("figure-6-4", inputs.features, rooted),
            "There are not two classes in three dimensions.",
        ),
        ("6.6", by_neighbours(evaluated.curves, always_pass), no_curve),
        ("6.7", tree, "models/comparisons/decision-tree does not exist: the params leave this model out."),
        ("6.8", by_trees(evaluated.curves, always_pass), no_curve),
        (
            "6.9",
            by_model(evaluated.verdicts[evaluated.verdicts["kind"] == "model"], always_pass),
            "No model was evaluated.",
        ),
    ]


def summary(champion: str, confusion: Confusion) -> str:
    """Say in one sentence how often `champion` errs on operations that it never saw."""
    return (
        f"On operations that it never saw in training, {champion} misses {confusion.missed:,} of "
        f"{counted(confusion.fails, 'regression')} ({confusion.missed_told}) and raises "
        f"{counted(confusion.false_alarms, 'false alarm')} in "
        f"{counted(confusion.passes, 'comparison')} without one ({confusion.alarms_told})."
    )


def rivals(split: Split) -> str:
    """Say how the best rule does beside the best model, by pooled balanced accuracy."""
    best = {
        kind: next(((name, entry) for name, entry in split.ranked() if entry.kind == kind), None)
        for kind in ("model", "rule")
    }
    if best["model"] is None or best["rule"] is None:
        return ""
    (model, ours), (rule, theirs) = best["model"], best["rule"]
    gap = (ours.balanced_accuracy.pooled or 0.0) - (theirs.balanced_accuracy.pooled or 0.0)
    word = "above" if gap > 0 else "below" if gap < 0 else "level with"
    return (
        f"The best model, {model}, has a balanced accuracy of {ours.balanced_accuracy.pooled:.3f}; that is "
        f"{word} the best rule, {rule}, with {theirs.balanced_accuracy.pooled:.3f}."
    )
