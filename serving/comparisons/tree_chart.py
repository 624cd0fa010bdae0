"""A fitted decision tree, drawn from left to right: what figure 6.7 of seed 000 shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from serving.reports.chart_marks import Spot
from serving.reports.charts import FAIL, MUTED, PAPER, PASS, Chart, Words, counted, percent, plain
from serving.reports.panels import Panel, drawn
from training.comparisons.stored import TrainedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Questions in a row that are drawn; what lies deeper is counted.
DEPTH = 3


@dataclass(frozen=True)
class Node:
    """A node of the drawn tree, its threshold in the unit of its feature.

    Attributes
    ----------
    question : str
        What it asks; empty where it does not.
    samples : int
        Training vectors that reach it.
    fail_share : float
        Share of ``fail`` among them, by weight.
    below : int
        Nodes under it that are not drawn.
    branches : tuple of Node
        Yes and no, or nothing.
    """

    question: str
    samples: int
    fail_share: float
    below: int = 0
    branches: tuple[Node, ...] = ()

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

    Parameters
    ----------
    model : TrainedModel
        Its pipeline holds a decision tree, and before it perhaps a scaler.
    rooted : frozenset of str
        Features that are signed square roots; their thresholds are also told in percent.
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
