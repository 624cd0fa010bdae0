"""What the page about comparisons holds, put together from what the stages left behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.comparisons.tables import OPERATION
from data.errors import InputError
from data.paths import Places
from serving.comparisons.charts import (
    ModelPromises,
    Rates,
    by_model,
    by_neighbours,
    by_trees,
    confusion_chart,
    looks_chart,
    precision_recall_chart,
    reliability_chart,
    vectors_chart,
)
from serving.comparisons.evaluated import EvaluatedComparisons
from serving.comparisons.labels.command import Doubts
from serving.comparisons.mistakes import Mistake, mistake_chart, worst_mistakes
from serving.comparisons.tree_chart import nodes_of, tree_chart
from serving.reports.charts import Chart, counted, percent
from serving.reports.evaluation_files import Confusion
from serving.reports.rendering import THESIS, render
from serving.reports.separation import CONFIDENCE, Leaders, between, lead, listed

#: A person looks at up to this share of the comparisons, if that is what a promise costs.
_BEARABLE = 0.2


def advice(evaluated: EvaluatedComparisons, champion: pd.DataFrame, doubts: Doubts) -> Iterator[str]:
    """Yield sentences for the person who must act.

    Parameters
    ----------
    evaluated : EvaluatedComparisons
    champion : DataFrame
        Its verdicts on the grouped folds.
    doubts : Doubts
    """
    metrics = evaluated.metrics
    promises = metrics.promises.get("grouped", {}).get(metrics.champion)
    if promises:
        yield _asked(promises)
    if doubts.suspects:
        first = listed([one.comparison_id for one in doubts.suspects[:3]])
        yield (
            f"Look at {counted(doubts.many, 'label')} again before the next training, first at {first}: "
            "`perfjudge labels suspects` lists them with the reasons."
        )
    wrong = _where_wrong(evaluated, champion)
    if wrong:
        yield wrong
    models = evaluated.of("grouped", "model")
    right = models.assign(right=models["verdict"] == models["status"])
    leaders = Leaders.of(right.pivot_table(index="fold", columns="entry", values="right"))
    if metrics.champion in leaders.all and leaders.alike:
        others = [name for name in leaders.all if name != metrics.champion]
        yield (
            f"Do not choose another model for a few thousandths: on these folds {listed(others)} cannot be "
            f"told from {metrics.champion}. More labels of other operations say more than more models."
        )
    yield (
        "Do not rely on a verdict about a machine, a unit or a kind of benchmark that is not among "
        f"these {metrics.data.operations:,} operations; a server's overview shows how far what is asked "
        f"drifts."
    )


def _asked(promises: ModelPromises) -> str:
    """Name the strictest promise of misses that costs few looks, and what the next stricter one costs."""
    kept = [one for one in promises.missed if one.made == one.folds == one.held]
    bearable = [one for one in kept if one.unsure <= _BEARABLE]
    if not bearable:
        return (
            "Promise nothing about misses with so few labels: no share was kept on all folds without sending "
            f"more than {percent(_BEARABLE, 0)} of the comparisons to a person."
        )
    best = min(bearable, key=lambda one: one.share)
    told = (
        f"Ask for at most {percent(best.share, 0)} missed (`--missed {100 * best.share:g}`): it was kept on "
        f"all {best.folds} folds, at {percent(best.false_alarms)} false alarms, and a person looks at "
        f"{percent(best.unsure)} of the comparisons"
    )
    return f"{told}{_stricter(kept, best)}."


def _stricter(kept: list[Rates], best: Rates) -> str:
    stricter = [one for one in kept if one.share < best.share]
    if not stricter:
        return ""
    dear = max(stricter, key=lambda one: one.share)
    return f"; at most {percent(dear.share, 1)} would send {percent(dear.unsure)} to a person"


def _where_wrong(evaluated: EvaluatedComparisons, champion: pd.DataFrame) -> str:
    """Name the operations with the most wrong verdicts."""
    names = evaluated.tables.comparisons.set_index("comparison_id")["operation"]
    wrong = champion[champion["verdict"] != champion["status"]]["comparison_id"].map(names)
    if wrong.empty:
        return ""
    worst = wrong.value_counts()
    worst = worst[worst == worst.max()].sort_index()
    where = listed([str(name) for name in worst.index])
    each = "" if len(worst) == 1 else " each"
    return (
        f"Trust verdicts on {where} least: {worst.iloc[0]} of the {counted(len(wrong), 'wrong verdict')} "
        f"{'is' if worst.iloc[0] == 1 else 'are'} there{each}. Measure them longer, or look yourself."
    )


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
