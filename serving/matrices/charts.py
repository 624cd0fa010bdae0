"""Charts of the report on matrices: figures 4 to 7 of the matrix paper, ablation, validity and causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import isnan
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pandas as pd

from data.matrices.suite import EQUAL_TIME
from serving.matrices.evaluated import RemedyGain, TableRow
from serving.reports.chart_marks import Bars, Cells, Dots, HeatCell, Line, ValueLine
from serving.reports.charts import PAPER, SERIES, Chart, Words, percent, plain_number, with_noun
from serving.reports.panels import Axis, Panel, draw_chart
from serving.reports.separation import CONFIDENCE, is_significant, join_names

#: Detectors of invalid runs in the order of the bars, with display names.
JUDGES = {"rules": "the rules alone", "tree": "the tree alone", "both": "rules and tree"}
#: Maximal number of rows and columns of the table of groups.
_GROUPS = 40


def validity_sentence(validity: pd.DataFrame) -> str:
    """Return text with the shares of invalid and valid runs that the rules, the tree and both reject.

    `validity` is that of `validity_chart`; its numbers are summed over folds and kinds. Without invalid runs,
    the text says only that.
    """
    shares = _rejected_shares(validity.assign(kind=np.where(validity["kind"] == "", "", "invalid")))
    if "invalid" not in shares.index:
        return "No run is flagged as invalid, so no validity tree was trained."
    caught, wrongly = (
        [percent(shares[judge].get(kind, np.nan)) for judge in JUDGES] for kind in ("invalid", "")
    )
    return (
        f"Of the invalid runs, the fixed rules alone reject {caught[0]}, the decision tree alone "
        f"{caught[1]}, both together {caught[2]}. Of the valid runs, they wrongly reject {wrongly[0]}, "
        f"{wrongly[1]} and {wrongly[2]}, in the same order."
    )


def validity_chart(validity: pd.DataFrame) -> Chart | None:
    """Draw the share of runs that each judge rejects, for valid runs and each kind of invalid ones.

    `validity` has ``judge`` (rules, tree, both), ``fold, kind`` (empty: valid runs), and the numbers ``runs,
    rejected``, which are summed over folds. None without rows of invalid runs.
    """
    shares = _rejected_shares(validity)
    if set(shares.index) <= {""}:
        return None
    ordered = shares.loc[sorted(shares.index, key=lambda kind: (kind == "", kind))]
    judges = [judge for judge in JUDGES if ordered[judge].notna().any()]
    invalid = ordered.loc[ordered.index != "", judges[-1]]
    title = (
        f'Invalid runs of the kind "{invalid.idxmin()}" are hardest to detect: '
        f"{JUDGES[judges[-1]]} reject {percent(float(invalid.min()), 0)} of them"
    )
    if not _smallest_differs(invalid, ordered.loc[invalid.index, "runs"]):
        span = f"{JUDGES[judges[-1]]} reject {_share_range(invalid)} of each"
        title = f"No kind of invalid run is significantly harder to detect: {span}"
    bars = [
        Bars(ordered[judge], JUDGES[judge], turn=turn, turns=len(judges)) for turn, judge in enumerate(judges)
    ]
    kinds = _axis_with_sizes("kind", ordered["runs"].rename({"": "valid (should not be rejected)"}))
    panel = Panel(bars, _shares_axis("runs that are rejected (% of that kind)"), kinds)
    words = Words(
        "validity-chart",
        title,
        "Bars of the share of runs that are rejected, by kind of run",
        "On held-out test cases; the tree was trained on the other folds. Kinds: ways in which the runs were "
        "made invalid, as named in the data. In brackets: number of runs.",
    )
    return draw_chart(words, [panel], (8.4, 1.3 + 0.55 * len(ordered)))


def causes_chart(verdicts: pd.DataFrame) -> Chart | None:
    """Draw by ``cause`` the share of abnormal pairs (``status`` fail) that are detected (``verdict`` fail).

    `verdicts` has a row per pair; any other verdict is no detection. None if no abnormal pair has a cause.
    """
    abnormal = verdicts[(verdicts["cause"].fillna("") != "") & (verdicts["status"] == "fail")]
    if abnormal.empty:
        return None
    by_cause = (abnormal["verdict"] == "fail").groupby(abnormal["cause"]).agg(["mean", "size"])
    by_cause = by_cause.sort_values("mean", kind="stable")
    least = by_cause.iloc[0]
    if least["mean"] == 1:
        title = f"All abnormal pairs of {with_noun(len(by_cause), 'cause')} are detected"
    elif _smallest_differs(by_cause["mean"], by_cause["size"]):
        title = (
            f"{by_cause.index[0]} is detected least often: in {percent(float(least['mean']), 0)} of "
            f"{with_noun(int(least['size']), 'abnormal pair')}"
        )
    else:
        span = _share_range(by_cause["mean"])
        title = f"No cause is significantly harder to detect: {span} of each are detected"
    shares = _shares_axis("abnormal pairs that are detected (% of all with the cause)")
    panel = Panel([Bars(by_cause["mean"])], shares, _axis_with_sizes("cause", by_cause["size"]))
    equal_time = ""
    if any(str(cause).endswith(EQUAL_TIME) for cause in by_cause.index):
        equal_time = (
            " “At equal time”: the program does so much less of its own work that the added load does not "
            "make its runs longer."
        )
    words = Words(
        "causes",
        title,
        "Bars of the share of abnormal pairs that are detected, by cause",
        f"In brackets: number of abnormal pairs.{equal_time}",
    )
    return draw_chart(words, [panel], (8.4, 1.1 + 0.3 * len(by_cause)))


def groups_chart(groups: pd.DataFrame) -> Chart | None:
    """Draw a matrix with the number of test cases of each given ``group`` in each ``automatic`` one.

    `groups` has a row per test case. None with fewer than two given groups, or more than 40 of either.
    """
    table = pd.crosstab(groups["group"], groups["automatic"])
    if len(table) < 2 or max(table.shape) > _GROUPS:  # noqa: PLR2004 - nothing to compare
        return None
    from sklearn.metrics import adjusted_rand_score

    agree = float(adjusted_rand_score(groups["group"], groups["automatic"]))
    table = table.iloc[np.argsort(table.to_numpy().argmax(axis=1), kind="stable")]
    title = (
        f"{with_noun(table.shape[1], 'automatic group')} and {with_noun(len(table), 'given group')} "
        f"have an agreement of {agree:.2f} (1: equal, 0: no more than by chance)"
    )
    words = Words(
        "groups-chart",
        title,
        "Table of given groups by automatic groups",
        "Each number counts test cases. If the pairs of a test case are nearest to different automatic "
        "groups, it counts in the group of most of its pairs. Empty automatic groups are not shown. "
        "Agreement is the adjusted Rand index.",
    )
    counts, largest_count = table.to_numpy().tolist(), int(table.to_numpy().max())
    cells = [
        [HeatCell(count, 0.25 + 0.6 * count / largest_count) if count else None for count in row]
        for row in counts
    ]
    panel = Panel(
        [Cells(cells)],
        Axis("automatic group (name)", [str(name) for name in table.columns]),
        Axis("given group (workload type)", [str(name) for name in table.index]),
    )
    size = max(4.6, 2.6 + 0.45 * table.shape[1]), max(3.4, 1.4 + 0.3 * len(table))
    return draw_chart(words, [panel], size, narrows=False)


def _rejected_shares(validity: pd.DataFrame) -> pd.DataFrame:
    """Return by kind the number of runs, and the share of them that each judge rejects."""
    sums = validity.groupby(["kind", "judge"])[["runs", "rejected"]].sum()
    shares = (sums["rejected"] / sums["runs"]).unstack("judge").reindex(columns=list(JUDGES))
    return shares.assign(runs=sums["runs"].unstack("judge").max(axis="columns"))


def _smallest_differs(shares: pd.Series, sizes: pd.Series) -> bool:
    """Return whether the smallest share differs significantly from all others (Fisher's exact test)."""
    from scipy.stats import fisher_exact

    right = (shares * sizes).round()
    table = pd.DataFrame({"right": right, "wrong": sizes - right})
    least = shares.idxmin()
    p: float = fisher_exact([table.loc[least], table.drop(index=least).sum()]).pvalue
    return p < 1 - CONFIDENCE


def _share_range(shares: pd.Series) -> str:
    low, high = percent(float(shares.min()), 0), percent(float(shares.max()), 0)
    return low if low == high else f"{low} to {high}"


def _axis_with_sizes(label: str, sizes: pd.Series) -> Axis:
    return Axis(label, [f"{name} ({int(size):,})" for name, size in sizes.items()])


def _shares_axis(label: str) -> Axis:
    return Axis(label, percent=True, low=0, high=1)


#: Difference of balanced accuracies below which they are called equal.
EQUAL = 0.01
_GROUPINGS = {"none": "one model for all groups", "given": "a model per group"}
_BARS = "Error bars are one standard deviation over the folds."


class Curve(NamedTuple):
    """Balanced accuracy over one parameter; `style` numbers the model's colour."""

    name: str
    style: int
    hollow: bool
    x: list[float]
    accuracy: list[float]
    spread: list[float]
    folds: int

    @property
    def best_index(self) -> int:
        """Index of the first largest accuracy."""
        return self.accuracy.index(max(self.accuracy))

    @property
    def largest_gain(self) -> float:
        """Largest accuracy minus the first, which has no remedy."""
        return max(self.accuracy) - self.accuracy[0]

    def differs_at(self, place: int, other: Curve, other_place: int) -> bool:
        """Return whether points `place` and `other_place` (indices) differ significantly over the folds."""
        gain = self.accuracy[place] - other.accuracy[other_place]
        return is_significant(gain, self.spread[place], other.spread[other_place], folds=self.folds)


def times_chart(times: pd.DataFrame) -> Chart | None:
    """Draw training ``seconds`` by ``dimensions`` and ``model`` (engine paper, figure 7); None if no rows."""
    if times.empty:
        return None
    ordered = times.sort_values(["model", "dimensions"], kind="stable")
    ends = ordered.groupby("model")["seconds"].agg(["first", "last"])
    slow = ends["last"].idxmax()
    most, fewest = ordered["dimensions"].max(), ordered["dimensions"].min()
    lines = [
        Line(str(model), rows["dimensions"], rows["seconds"], style)
        for style, (model, rows) in enumerate(ordered.groupby("model", sort=True))
    ]
    panel = Panel(lines, Axis("number of dimensions"), Axis("time to train a model (s, log scale)", log=True))
    words = Words(
        "figure-7",
        f"{slow} takes longest to train: {plain_number(ends.loc[slow, 'last'], 3)} s with {most} dimensions, "
        f"{plain_number(ends.loc[slow, 'first'], 3)} s with {fewest}",
        "Chart of training time by dimensions, a line per model",
        "Mean over the folds, on the machine that made this page; times differ from run to run.",
    )
    return draw_chart(words, [panel], (8.4, 4.0))


def ablation_chart(
    name: str, steps: Sequence[Sequence[TableRow]], *, alone: bool, unit: str = "pairs"
) -> Chart | None:
    """Draw balanced accuracy remedy by remedy; None without models or with one row per model.

    `steps` holds the rows of each model, with the same remedies, measured on one set of pairs or target runs
    (`unit`). `alone`: the first row has all remedies, and each other row leaves out one; otherwise the first
    row has none, and each other row adds one to the previous row. `name`: the anchor in the page.
    """
    if not steps or len(steps[0]) < 2:  # noqa: PLR2004 - nothing to compare
        return None
    title = (_loss_title if alone else _steps_title)(steps)
    first, prefix = ("all remedies", "all but:") if alone else ("no remedy", "+")
    labels = [first, *(f"{prefix} {row.name}" for row in steps[0][1:])]
    how = "without one remedy" if alone else "remedy by remedy"
    words = Words(name, title, f"Chart of balanced accuracy of {unit} {how}, a line per model", _BARS)
    lines = [_remedy_line(rows, style, joined=not alone) for style, rows in enumerate(steps)]
    accuracy = Axis(f"balanced accuracy of {unit}; 0.5 is guessing")
    panel = Panel([*lines, *_paper_dots(steps), ValueLine(x=0.5)], accuracy, Axis("remedy", labels))
    return draw_chart(words, [panel], (8.4, 1.4 + 0.42 * len(labels)))


def _remedy_line(rows: Sequence[TableRow], style: int, *, joined: bool) -> Line:
    positions = [place + 0.09 * (style - 1) for place in range(len(rows))]
    accuracies, spreads = [row.same for row in rows], [row.same_spread for row in rows]
    return Line(rows[0].model, accuracies, positions, style, sideways=spreads, joined=joined)


def _paper_dots(steps: Sequence[Sequence[TableRow]]) -> list[Dots]:
    """Return the paper's figures of each model that has any; the first has the label."""
    dots: list[Dots] = []
    for style, rows in enumerate(steps):
        figures = [row.seeds.balanced_accuracy for row in rows]
        positions = [place for place, figure in enumerate(figures) if not isnan(figure)]
        if positions:
            label = "" if dots else "the paper's values (vectors of its own data)"
            accuracies, colour = [figures[place] for place in positions], SERIES[style % len(SERIES)]
            dots.append(Dots(accuracies, positions, label, PAPER, colour, "D", size=36, thickness=1.4))
    return dots


def _steps_title(steps: Sequence[Sequence[TableRow]]) -> str:
    top = max(steps, key=lambda rows: rows[-1].same)
    change = {
        "helps": "Balanced accuracy of {model} rises from {0} without remedies to {1} with all",
        "hurts": "Balanced accuracy of {model} falls from {0} without remedies to {1} with all",
    }.get(
        RemedyGain.from_rows(top[-1], top[0]).effect,
        "Balanced accuracy of {model} is {0} without remedies and {1} with all, no significant difference",
    )
    whole = change.format(f"{top[0].same:.2f}", f"{top[-1].same:.2f}", model=top[0].model)
    worths = [(RemedyGain.from_rows(row, before), row.name) for before, row in pairwise(top)]
    helping = [(worth.gain, name) for worth, name in worths if worth.effect == "helps"]
    if not helping:
        return f"{whole}; no single step is a significant gain"
    gain, name = max(helping, key=itemgetter(0))
    return f'{whole}; the largest significant step (+{gain:.2f}) is "{name}"'


def _loss_title(steps: Sequence[Sequence[TableRow]]) -> str:
    top = max(steps, key=lambda rows: rows[0].same)
    whole = f"Balanced accuracy of {top[0].model} is {top[0].same:.2f} with all remedies"
    worths = [(RemedyGain.from_rows(top[0], row), row) for row in top[1:]]
    losses = [(worth.gain, row) for worth, row in worths if worth.effect == "helps"]
    if not losses:
        return f"{whole}; omitting a single remedy makes no significant difference"
    _, row = max(losses, key=itemgetter(0))
    return f'{whole}; the largest significant loss (to {row.same:.2f}) comes from omitting "{row.name}"'


def _gain_title(curves: Sequence[Curve], best: str, without: str) -> str:
    if max(line.largest_gain for line in curves) <= EQUAL:
        return f"No line rises by more than {EQUAL:g} above its value {without}"
    rising = [line for line in curves if line.differs_at(line.best_index, line, 0)]
    if not rising:
        return f"No line rises significantly above its value {without}"
    top = max(rising, key=lambda line: line.largest_gain)
    at_best = best.format(plain_number(top.x[top.best_index], 3))
    return (
        f"Largest gain in balanced accuracy ({top.name}): from {top.accuracy[0]:.2f} {without} to "
        f"{max(top.accuracy):.2f} {at_best}"
    )


def _dimensions_title(curves: Sequence[Curve]) -> str:
    top = max(curves, key=lambda line: max(line.accuracy))
    best, points = top.best_index, range(len(top.x))
    enough = next(place for place in points if place == best or not top.differs_at(best, top, place))
    others = [line for line in curves if line is not top and not top.differs_at(best, line, line.best_index)]
    if others:
        names = join_names([top.name, *(line.name for line in others)])
        at_best = [max(line.accuracy) for line in (top, *others)]
        span = f"{min(at_best):.2f} to {max(at_best):.2f}"
        return f"At the best number of dimensions, {names} do not differ significantly: {span}"
    title = f"{top.name} is best with {plain_number(top.x[best])} dimensions ({top.accuracy[best]:.2f})"
    if enough != best:
        fewer = f"{plain_number(top.x[enough])} ({top.accuracy[enough]:.2f})"
        title += f", not significantly better than with {fewer}"
    return title


#: By figure: the horizontal axis, its short name, and for `_gain_title` the best value and the reference.
CURVE_FIGURES: dict[int, tuple[Axis, str, tuple[str, str] | None]] = {
    4: (
        Axis("cost of a missed abnormal vector : cost of a false alarm (log scale)", log=True),
        "cost ratio, a line per model",
        ("if a miss costs {} times as much", "if a miss costs as much as a false alarm"),
    ),
    5: (
        Axis("normal training vectors per abnormal vector (log scale)", log=True, backwards=True),
        "undersampling, a line per model and grouping",
        ("at a ratio of {} normal to 1 abnormal vector", "if all normal vectors are kept"),
    ),
    6: (
        Axis("number of principal components (last point: all metrics, not projected)"),
        "dimensions, a line per model",
        None,
    ),
}


def curve_chart(curves: pd.DataFrame, figure: int, folds: int) -> Chart | None:
    """Draw balanced accuracy by a parameter of models (engine paper, figures 4 to 6); None without rows.

    `curves` has ``figure, model, grouping, x`` (the parameter: cost of a false negative in false positives,
    normal vectors per abnormal one, or dimensions), ``balanced_accuracy, spread`` (one standard deviation
    over the `folds`, drawn as an error bar). Rows of other figures or with a NaN accuracy are ignored. The
    title names the largest significant gain over the value without the remedy, or the best dimensions.
    """
    rows = curves[(curves["figure"] == figure) & curves["balanced_accuracy"].notna()]
    if rows.empty:
        return None
    across, by, gain = CURVE_FIGURES[figure]
    models, several = sorted(rows["model"].unique()), len(rows["grouping"].drop_duplicates()) > 1
    lines = []
    for (model, grouping), part in rows.groupby(["model", "grouping"], sort=True):
        ordered = part.sort_values("x", ascending=not across.backwards, kind="stable")
        name = f"{model}, {_GROUPINGS.get(str(grouping), grouping)}" if several else str(model)
        x, accuracy, spread = (ordered[column].tolist() for column in ("x", "balanced_accuracy", "spread"))
        hollow = several and grouping == "none"
        lines.append(Curve(name, models.index(model), hollow, x, accuracy, spread, folds))
    if across.log:
        tried = sorted({x for line in lines for x in line.x})
        across = replace(across, ticks={x: f"{plain_number(x, 3)}:1" for x in tried})
    marks = [
        Line(line.name, line.x, line.accuracy, line.style, spread=line.spread, hollow=line.hollow)
        for line in lines
    ]
    title = _gain_title(lines, *gain) if gain else _dimensions_title(lines)
    words = Words(f"figure-{figure}", title, f"Chart of balanced accuracy by {by}", _BARS)
    panel = Panel(marks, across, Axis("balanced accuracy of vectors (0 to 1)"))
    return draw_chart(words, [panel], (8.4, 4.2))
