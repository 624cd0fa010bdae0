"""What the page about comparisons holds, put together from what the stages left behind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
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
from serving.comparisons.labels.command import doubts
from serving.comparisons.mistakes import mistake_chart, worst_mistakes
from serving.reports.chart_marks import Spot
from serving.reports.charts import FAIL, MUTED, PAPER, PASS, Chart, Words, counted, percent, plain
from serving.reports.evaluation_files import Confusion
from serving.reports.panels import Panel, drawn
from serving.reports.rendering import THESIS, render
from serving.reports.separation import CONFIDENCE, Leaders, between, lead, listed
from training.comparisons.stored import TrainedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Questions in a row that are drawn; what lies deeper is counted.
DEPTH = 3


@dataclass(frozen=True)
class Node:
    """A node of the drawn tree, its threshold in the unit of its feature."""

    question: str  # what it asks; empty where it does not
    samples: int  # training vectors that reach it
    fail_share: float  # share of ``fail`` among them, by weight
    below: int = 0  # nodes under it that are not drawn
    branches: tuple[Node, ...] = ()  # yes and no, or nothing

    @property
    def leaves(self) -> int:
        """How many drawn nodes end a branch."""
        return sum(branch.leaves for branch in self.branches) or 1

    @property
    def depth(self) -> int:
        """How many questions follow one another."""
        return 1 + max(branch.depth for branch in self.branches) if self.branches else 0


def nodes_of(model: TrainedModel, rooted: frozenset[str]) -> Node:
    """Read the tree in `model`.

    `model`: its pipeline holds a decision tree, and before it perhaps a scaler.
    `rooted`: features that are signed square roots; their thresholds are also told in percent.
    """
    from sklearn.preprocessing import StandardScaler

    steps = [getattr(step, "classifier_", step) for _, step in model.model.steps]
    place = next(place for place, step in enumerate(steps) if hasattr(step, "tree_"))
    scalers = [step for step in steps[:place] if isinstance(step, StandardScaler)]
    names = model.card.features
    tree = steps[place].tree_
    labels = [str(label) for label in steps[place].classes_]
    fail_column = labels.index("1") if len(labels) > 1 else 0

    def question(node: int) -> str:
        feature = int(tree.feature[node])
        value = _in_feature_units(scalers, feature, float(tree.threshold[node]), len(names))
        text = f"{names[feature]} \u2264 {plain(value, 3)}"
        return f"{text} ({percent(value * abs(value))})" if names[feature] in rooted else text

    def build(node: int, depth: int) -> Node:
        """Turn a node of scikit-learn's arrays, and what is below it, into nodes to draw."""
        weights = tree.value[node][0]
        share = float(weights[fail_column] / weights.sum())
        samples = int(tree.n_node_samples[node])
        children = (int(tree.children_left[node]), int(tree.children_right[node]))
        if children[0] < 0 or depth == DEPTH:
            return Node("", samples, share, below=_size(tree, node) - 1)
        branches = tuple(build(child, depth + 1) for child in children)
        return Node(question(node), samples, share, 0, branches)

    return build(0, 0)


def _in_feature_units(scalers: list[Any], feature: int, threshold: float, width: int) -> float:
    row = np.zeros((1, width))
    row[0, feature] = threshold
    for scaler in reversed(scalers):
        row = np.asarray(scaler.inverse_transform(row))
    return float(row[0, feature])


def _size(tree: Any, node: int) -> int:
    left, right = int(tree.children_left[node]), int(tree.children_right[node])
    return 1 if left < 0 else 1 + _size(tree, left) + _size(tree, right)


def tree_chart(name: str, root: Node) -> Chart:
    """Draw `root` and what hangs below it."""
    note = (
        f"The upper branch is yes, the lower no. At most {DEPTH} questions in a row are drawn. "
        "Samples and shares are those of the vectors that the tree was fitted to, after resampling and "
        "weighting. Per cents in brackets undo the square root."
    )
    words = Words(name, _finding(root), "Decision tree drawn from left to right", note)
    size = 2.6 + 2.5 * root.depth, 0.6 + 0.72 * root.leaves
    return drawn(words, [Panel([TreeMark(root)])], size, narrows=False)


@dataclass(frozen=True)
class TreeMark:
    """A tree as a mark of a chart."""

    root: Node

    def draw(self, axes: Axes) -> None:
        """Draw it."""
        _draw(axes, self.root, 0, 0.0)
        axes.set(xlim=(-0.5, self.root.depth + 0.5), ylim=(self.root.leaves - 0.5, -0.5))

    def spots(self) -> Iterator[Spot]:
        """Yield nothing: what there is to say stands in the boxes."""
        return iter(())


def _draw(axes: Axes, node: Node, depth: int, top: float) -> float:
    """Draw `node` on the rows from `top` on; return the row of its own box."""
    rows = []
    for branch in node.branches:
        rows.append(_draw(axes, branch, depth + 1, top))
        top += branch.leaves
    row = float(np.mean(rows)) if rows else top
    for word, below in zip(("yes", "no"), rows, strict=False):
        across, down = [depth, depth + 0.5, depth + 0.5, depth + 1], [row, row, below, below]
        axes.plot(across, down, color=MUTED, linewidth=1.1, zorder=1)
        axes.text(depth + 0.52, (row + below) / 2, word, fontsize=8, color=MUTED, va="center")
    fails = node.fail_share >= 0.5  # noqa: PLR2004 - the majority
    verdict, edge, width = ("FAIL", FAIL, 2.2) if fails else ("PASS", PASS, 1.2)
    said = node.question or (f"\u2026 {counted(node.below, 'node')} deeper" if node.below else verdict)
    text = f"{said}\n{counted(node.samples, 'sample')}, {percent(node.fail_share, 0)} fail"
    box: dict[str, Any] = {"facecolor": PAPER, "edgecolor": edge, "linewidth": width}
    box |= {"boxstyle": "round,pad=0.45", "linestyle": "--" if node.below else "-"}
    middle: Any = {"ha": "center", "va": "center", "fontsize": 8.5, "linespacing": 1.45}
    axes.text(depth, row, text, bbox=box, zorder=2, **middle)
    return row


def _finding(root: Node) -> str:
    if not root.branches:
        return "The tree asks nothing: every comparison gets the same verdict"
    yes, no = root.branches
    return (
        f"The first question is whether {root.question}: "
        f"{percent(yes.fail_share, 0)} of those that say yes fail, {percent(no.fail_share, 0)} of the others"
    )


#: A person looks at up to this share of the comparisons, if that is what a promise costs.
_BEARABLE = 0.2


def advice(
    evaluated: EvaluatedComparisons, champion: pd.DataFrame, doubtful: Mapping[str, Any]
) -> Iterator[str]:
    """Yield sentences for the person who must act.

    `champion`: its verdicts on the grouped folds.
    """
    metrics = evaluated.metrics
    promises = metrics.promises.get("grouped", {}).get(metrics.champion)
    if promises:
        yield _asked(promises)
    if doubtful["suspects"]:
        first = listed([one.comparison_id for one in doubtful["suspects"][:3]])
        yield (
            f"Look at {counted(doubtful['many'], 'label')} again before the next training, first at {first}: "
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
    worst = worst_mistakes(champion, evaluated.tables)
    promises = metrics.promises.get("grouped", {}).get(metrics.champion)
    kept = promises and {
        "promises": promises,
        "charts": (
            reliability_chart(champion, metrics.champion, promises.calibration_error),
            looks_chart(promises.sent),
        ),
    }
    doubtful = doubts(evaluated)
    return render(
        "comparisons.html",
        kept=kept,
        metrics=metrics,
        summary=summary(metrics.champion, confusion),
        rivals=rivals(evaluated, champion),
        points=list(advice(evaluated, champion, doubtful)),
        papers=[THESIS],
        confusion=confusion_chart("confusion", metrics.champion, confusion),
        curves=precision_recall_chart("precision-recall", models, evaluated.of("grouped", "rule")),
        figures=figures(evaluated),
        mistakes=[{"mistake": one, "chart": mistake_chart(one)} for one in worst],
        doubts=doubtful,
        wrong=confusion.missed + confusion.false_alarms,
    )


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
