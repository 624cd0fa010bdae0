"""The report page of the family ``comparisons``, from the files of its stages."""

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
from data.paths import FamilyPaths
from serving.comparisons.charts import (
    ModelGuarantees,
    confusion_chart,
    models_chart,
    parameter_chart,
    precision_recall_chart,
    reliability_chart,
    review_rate_chart,
    vectors_chart,
)
from serving.comparisons.evaluated import EvaluatedComparisons
from serving.comparisons.explain.features import describe_feature
from serving.comparisons.labels.review import doubtful_labels
from serving.comparisons.mistakes import causes_of_mistakes, mistake_chart, worst_mistakes
from serving.reports.chart_marks import HoverArea
from serving.reports.charts import FAIL, MUTED, PAPER, PASS, Chart, Words, percent, plain_number, with_noun
from serving.reports.evaluation_files import Confusion, other_data_rows
from serving.reports.panels import Panel, draw_chart
from serving.reports.rendering import THESIS, render
from serving.reports.separation import CONFIDENCE, Leaders, compare_entries, difference_predicate, join_names
from training.comparisons.stored import Card, TrainedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Most levels of the tree that are drawn; deeper nodes are counted.
DEPTH = 3
#: The largest review rate that the advice recommends.
_MAX_REVIEW = 0.2
#: Components of the scheduler thesis, figure 6.5, that are signed square roots.
_ROOTED_FEATURE = re.compile(r"(medians|mins|maxes|q1s|q3s)_(min|med|median|max)")


@dataclass(frozen=True)
class Node:
    """A node of the drawn tree; as a chart mark, it draws itself and the nodes below."""

    question: str  # with the threshold in units of the feature; empty at the end of a branch
    samples: int  # training vectors that reach it
    fail_share: float  # share of ``fail`` among them, by weight
    below: int = 0  # number of nodes below it that are not drawn
    branches: tuple[Node, ...] = ()  # yes and no, or empty

    @property
    def leaf_count(self) -> int:
        """The number of drawn nodes that end a branch."""
        return sum(branch.leaf_count for branch in self.branches) or 1

    @property
    def depth(self) -> int:
        """The number of drawn levels below it."""
        return 1 + max(branch.depth for branch in self.branches) if self.branches else 0

    def draw(self, axes: Axes) -> None:
        """Draw the tree from left to right, and set the limits of the axes."""
        _draw_node(axes, self, 0, 0.0)
        axes.set(xlim=(-0.5, self.depth + 0.5), ylim=(self.leaf_count - 0.5, -0.5))

    def hover_areas(self) -> Iterator[HoverArea]:
        """Yield no hover areas, as the boxes contain all text."""
        return iter(())


def nodes_of(model: TrainedModel, rooted: frozenset[str]) -> Node:
    """Return the root of a model's decision tree, cut off after `DEPTH` (3) levels of splits.

    A `Node` has its ``question``, ``samples``, ``fail_share``, the number of nodes cut off ``below``, and
    ``branches`` (yes, no). Questions are in the unit of the feature before scaling. `rooted`: features that
    are signed square roots; their thresholds are also given squared, in percent. StopIteration if the
    pipeline has no tree.
    """
    from sklearn.preprocessing import StandardScaler

    steps = [getattr(step, "classifier_", step) for _, step in model.model.steps]
    place = next(place for place, step in enumerate(steps) if hasattr(step, "tree_"))
    scalers = [step for step in steps[:place] if isinstance(step, StandardScaler)]
    names = model.card.features
    tree = steps[place].tree_
    labels = [str(label) for label in steps[place].classes_]
    fail_column = labels.index("1") if len(labels) > 1 else 0
    children = list(zip(tree.children_left.tolist(), tree.children_right.tolist(), strict=True))

    def count_nodes(node: int) -> int:
        left, right = children[node]
        return 1 if left < 0 else 1 + count_nodes(left) + count_nodes(right)

    def node_question(node: int) -> str:
        feature = int(tree.feature[node])
        row = np.zeros((1, len(names)))
        row[0, feature] = tree.threshold[node]
        for scaler in reversed(scalers):
            row = np.asarray(scaler.inverse_transform(row))
        value = float(row[0, feature])
        text = f"{names[feature]} \u2264 {plain_number(value, 3)}"
        return f"{text} ({percent(value * abs(value))})" if names[feature] in rooted else text

    def build_node(node: int, depth: int) -> Node:
        weights, samples = tree.value[node][0], int(tree.n_node_samples[node])
        share = float(weights[fail_column] / weights.sum())
        if children[node][0] < 0 or depth == DEPTH:
            return Node("", samples, share, below=count_nodes(node) - 1)
        branches = tuple(build_node(child, depth + 1) for child in children[node])
        return Node(node_question(node), samples, share, 0, branches)

    return build_node(0, 0)


def tree_chart(name: str, root: Node) -> Chart:
    """Return a chart of the tree `root`, from left to right; the title states its first split, if any.

    A leaf is FAIL if half of its weight or more fails. `name`: the chart's anchor in the page.
    """
    title = "The tree has no split: every comparison gets the same verdict"
    note = (
        f"The upper branch is yes, the lower no. At most {DEPTH} levels are drawn. "
        "Numbers and shares are those of the feature vectors that the tree was fitted to, after resampling "
        "and weighting. Thresholds of relative differences are signed square roots, with the difference "
        "itself in brackets."
    )
    if root.branches:
        yes, no = (percent(branch.fail_share, 0) for branch in root.branches)
        shares = f"{yes} of the vectors that satisfy it are labelled fail, {no} of the others"
        title = f"The first split is {root.question}: {shares}"
        feature = root.question.partition(" ")[0]
        note += f" {feature}: {describe_feature(feature, 2)}."
    words = Words(name, title, "Decision tree drawn from left to right", note)
    size = 2.6 + 2.5 * root.depth, 0.6 + 0.72 * root.leaf_count
    return draw_chart(words, [Panel([root])], size, narrows=False)


def _draw_node(axes: Axes, node: Node, depth: int, top: float) -> float:
    """Draw a node and its branches on the rows from `top` on; return the row of the node's box."""
    rows = []
    for branch in node.branches:
        rows.append(_draw_node(axes, branch, depth + 1, top))
        top += branch.leaf_count
    row = float(np.mean(rows)) if rows else top
    for word, below in zip(("yes", "no"), rows, strict=False):
        across, down = [depth, depth + 0.5, depth + 0.5, depth + 1], [row, row, below, below]
        axes.plot(across, down, color=MUTED, linewidth=1.1, zorder=1)
        axes.text(depth + 0.52, (row + below) / 2, word, fontsize=8, color=MUTED, va="center")
    fails = node.fail_share >= 0.5  # noqa: PLR2004 - the majority
    verdict, edge, width = ("FAIL", FAIL, 2.2) if fails else ("PASS", PASS, 1.2)
    heading = node.question or (f"\u2026 {with_noun(node.below, 'node')} below" if node.below else verdict)
    text = f"{heading}\n{with_noun(node.samples, 'vector')}, {percent(node.fail_share, 0)} fail"
    box: dict[str, Any] = {"facecolor": PAPER, "edgecolor": edge, "linewidth": width}
    box |= {"boxstyle": "round,pad=0.45", "linestyle": "--" if node.below else "-"}
    middle: Any = {"ha": "center", "va": "center", "fontsize": 8.5, "linespacing": 1.45}
    axes.text(depth, row, text, bbox=box, zorder=2, **middle)
    return row


def iterate_advice(
    evaluated: EvaluatedComparisons, champion: pd.DataFrame, doubtful: Mapping[str, Any]
) -> Iterator[str]:
    """Yield recommendations for the report, one or two sentences each; the last one is always given.

    They concern guarantees, doubtful labels, operations with wrong verdicts, and similar models. `champion`:
    its verdicts on the grouped folds: ``comparison_id, verdict, status``; ``unsure`` is wrong. `doubtful`:
    the result of `doubtful_labels`.
    """
    metrics = evaluated.metrics
    if evaluated.champion_guarantees:
        yield _advised_guarantee(evaluated.champion_guarantees)
    if doubtful["suspects"]:
        first = join_names([suspect.comparison_id for suspect in doubtful["suspects"][:3]])
        yield (
            f"Review {with_noun(doubtful['many'], 'doubtful label')} before the next training, first "
            f"{first}: `perfjudge labels suspects` lists them with the reasons."
        )
    names = evaluated.tables.comparisons.set_index("comparison_id")["operation"]
    wrong = champion[champion["verdict"] != champion["status"]]["comparison_id"].map(names)
    if len(wrong):
        yield _least_trusted(wrong)
    models = evaluated.grouped_verdicts("model")
    right = models.assign(right=models["verdict"] == models["status"])
    leaders = Leaders.from_scores(right.pivot_table(index="fold", columns="entry", values="right"))
    if metrics.champion in leaders.all_names and leaders.alike:
        others = [name for name in leaders.all_names if name != metrics.champion]
        yield (
            f"Do not choose another model for a few thousandths of accuracy: on grouped folds, the "
            f"difference between {metrics.champion} and {join_names(others)} is not significant. More "
            "labelled operations help more than other models."
        )
    yield (
        "Do not rely on verdicts for machines, units of measurement or kinds of benchmarks that do not occur "
        f"in these {metrics.data.operations:,} operations. The overview page of `perfjudge serve` shows how "
        "far requests are from the training data."
    )


def _advised_guarantee(risk_guarantees: ModelGuarantees) -> str:
    """Recommend the strictest share of misses with a low review rate, and name the next stricter one."""
    offered = risk_guarantees.max_false_negative_rate
    reliable = [rates for rates in offered if rates.made == rates.folds == rates.n_kept]
    affordable = [rates for rates in reliable if rates.unsure <= _MAX_REVIEW]
    if not affordable:
        return (
            "Request no guarantee on missed regressions with so few labels: none held on all folds without "
            f"sending more than {percent(_MAX_REVIEW, 0)} of the comparisons to a person."
        )
    best = min(affordable, key=lambda rates: rates.share)
    text = (
        f"Request at most {percent(best.share, 0)} missed regressions "
        f"(`--max-false-negative-rate {100 * best.share:g}`): this guarantee held on "
        f"all {best.folds} folds, with {percent(best.false_positive_rate)} false alarms and "
        f"{percent(best.unsure)} of the comparisons sent to a person"
    )
    stricter = [rates for rates in reliable if rates.share < best.share]
    if not stricter:
        return f"{text}."
    rates = max(stricter, key=lambda rates: rates.share)
    return f"{text}; a limit of {percent(rates.share, 1)} sends {percent(rates.unsure)} to a person."


def _least_trusted(wrong: pd.Series) -> str:
    counts = wrong.value_counts()
    most = counts.max()
    worst = sorted(counts.index[counts == most].astype(str))
    return (
        f"Trust verdicts on {join_names(worst)} least: {'it' if len(worst) == 1 else 'each'} has {most} of "
        f"the {with_noun(len(wrong), 'wrong verdict')}. Measure longer, or check the samples yourself."
    )


def page(root: Path) -> str:
    """Return the report of the project under `root` as one self-contained HTML text; nothing is written.

    Raises InputError if a file of the stages is missing or broken, or has no verdicts of the champion;
    ``curves.parquet`` and the decision tree may be absent.
    """
    evaluated = EvaluatedComparisons.read(root)
    models, rules = evaluated.grouped_verdicts("model"), evaluated.grouped_verdicts("rule")
    metrics = evaluated.metrics
    champion = models[models["entry"] == metrics.champion]
    if champion.empty:
        raise InputError(
            f"has no verdicts of the champion {metrics.champion!r} on the grouped folds",
            file=FamilyPaths("comparisons", root).evaluated / "oof.parquet",
        )
    confusion = Confusion.from_verdicts(champion)
    passes = f"{with_noun(confusion.n_passes, 'comparison')} without a regression"
    errors = confusion.error_sentence(metrics.champion, "regression", passes)
    guarantees = None
    if (offered := evaluated.champion_guarantees) is not None:
        reliability = reliability_chart(champion, metrics.champion, offered.calibration_error)
        guarantees = {"risk_guarantees": offered, "charts": (reliability, review_rate_chart(offered.sent))}
    doubtful = doubtful_labels(evaluated)
    card = Card.read(FamilyPaths("comparisons", root).models / metrics.champion)
    mistakes = worst_mistakes(champion, evaluated.tables, card.min_effect_size)
    return render(
        "comparisons.html",
        kept=guarantees,
        metrics=metrics,
        summary=f"On operations held out of training, {errors}",
        rivals=compare_with_rules(evaluated, champion),
        points=list(iterate_advice(evaluated, champion, doubtful)),
        transfer=other_data_rows(root, "comparisons"),
        papers=[THESIS],
        confusion=confusion_chart("confusion", metrics.champion, confusion),
        curves=precision_recall_chart("precision-recall", models, rules),
        figures=thesis_figures(evaluated),
        mistakes=[{"mistake": mistake, "chart": mistake_chart(mistake)} for mistake in mistakes],
        causes=causes_of_mistakes(mistakes, champion, evaluated.tables),
        undecidable=sum(mistake.is_undecidable for mistake in mistakes),
        min_effect_size=card.min_effect_size,
        doubts=doubtful,
        wrong=confusion.false_negatives + confusion.false_positives,
    )


def thesis_figures(evaluated: EvaluatedComparisons) -> list[tuple[str, Chart | None, str]]:
    """Return (name, chart, reason) of figures 6.4 and 6.6 to 6.9 of the scheduler thesis.

    A chart is None without its data; the reason for that is always given.
    """
    rooted = [name for name in evaluated.features.columns if _ROOTED_FEATURE.fullmatch(name)]
    data, verdicts, curves = evaluated.metrics.data, evaluated.verdicts, evaluated.curves
    always_pass = 1 - data.fails / data.comparisons
    tree = tree_chart("figure-6-7", nodes_of(evaluated.tree, frozenset(rooted))) if evaluated.tree else None
    vectors = vectors_chart("figure-6-4", evaluated.features, rooted)
    models = models_chart(verdicts[verdicts["kind"] == "model"], always_pass)
    no_curve = "reports/comparisons/evaluated/curves.parquet does not hold this curve."
    charts = (
        ("6.4", vectors, "There are not two classes in three dimensions."),
        ("6.6", parameter_chart("figure-6-6", curves, always_pass), no_curve),
        ("6.7", tree, "models/comparisons/decision-tree does not exist: the params leave this model out."),
        ("6.8", parameter_chart("figure-6-8", curves, always_pass), no_curve),
        ("6.9", models, "No model was evaluated."),
    )
    return [(f"Figure {number} of the scheduler thesis", chart, reason) for number, chart, reason in charts]


def compare_with_rules(evaluated: EvaluatedComparisons, champion: pd.DataFrame) -> str:
    """Return sentences that compare the balanced accuracies of the champion and the best rule.

    "" without rules. The accuracies are pooled over the grouped folds, with the 95 % interval of the
    difference, champion - rule, by a bootstrap of operations. `champion`: its verdicts on the grouped folds:
    ``comparison_id, verdict, status``.
    """
    metrics, split = evaluated.metrics, evaluated.metrics.splits["grouped"]
    best = split.best_entry("rule")
    if best is None:
        return ""
    ours, (name, theirs) = split.entries[metrics.champion], best
    rules, rows = evaluated.grouped_verdicts("rule"), evaluated.tables.comparisons
    operations = rows.set_index("comparison_id")[OPERATION].astype(str).agg(" ".join, axis="columns")
    rule = rules[rules["entry"] == name]
    difference = compare_entries(champion, rule, "comparison_id", operations, metrics.seed)
    return (
        f"Its balanced accuracy, {ours.pooled_accuracy:.3f}, {difference_predicate(difference)} that "
        f"of the best rule, {name} ({theirs.pooled_accuracy:.3f}). The range is the {percent(CONFIDENCE, 0)} "
        "interval of the difference, by a bootstrap of operations."
    )
