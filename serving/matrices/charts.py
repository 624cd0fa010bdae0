"""Charts of seed 001: its figures 4 to 7, and the ablation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import isnan
from typing import NamedTuple

import numpy as np
import pandas as pd

from serving.matrices.evaluated import Beside, Worth
from serving.reports import chart_marks
from serving.reports.chart_marks import Bars, Cells, Dots, HeatCell, ValueLine
from serving.reports.charts import PAPER, SERIES, Chart, Words, counted, percent, plain
from serving.reports.panels import Axis, Panel, drawn
from serving.reports.separation import CONFIDENCE, listed, told_apart

#: Detectors of invalid runs in the order of the bars, with display names.
JUDGES = {"rules": "the rules alone", "tree": "the tree alone", "both": "rules and tree"}
_CAUSES = "In brackets: abnormal pairs."
#: How large a table of groups is still drawn.
_GROUPS = 40


def validity_told(validity: pd.DataFrame) -> str:
    """Describe the shares of invalid and valid runs that the rules, the tree and both reject."""
    shares = _shares(validity.assign(kind=np.where(validity["kind"] == "", "", "invalid")))
    if "invalid" not in shares.index:
        return "Nobody flagged a run as invalid: there is nothing to learn a tree from."
    caught, wrongly = (
        [percent(shares[judge].get(kind, np.nan)) for judge in JUDGES] for kind in ("invalid", "")
    )
    return (
        f"Of the invalid runs, the rules alone find {caught[0]}, the tree alone {caught[1]}, both together "
        f"{caught[2]}; of the valid ones they wrongly reject {wrongly[0]}, {wrongly[1]} and {wrongly[2]}."
    )


def validity_chart(validity: pd.DataFrame) -> Chart | None:
    """Draw which share of the runs of each kind of invalidity is rejected, and of the valid ones."""
    shares = _shares(validity)
    if set(shares.index) <= {""}:
        return None
    ordered = shares.loc[sorted(shares.index, key=lambda kind: (kind == "", kind))]
    judges = [judge for judge in JUDGES if ordered[judge].notna().any()]
    invalid = ordered.loc[ordered.index != "", judges[-1]]
    title = (
        f"Hardest to tell are runs of the kind {invalid.idxmin()}: "
        f"{JUDGES[judges[-1]]} reject {percent(float(invalid.min()), 0)} of them"
    )
    if not _stands_out(invalid, ordered.loc[invalid.index, "runs"]):
        title = (
            f"No kind of invalid run can be told to be harder than the others: {JUDGES[judges[-1]]} reject "
            f"{_range(invalid)} of each"
        )
    bars = [
        Bars(ordered[judge], JUDGES[judge], turn=turn, turns=len(judges)) for turn, judge in enumerate(judges)
    ]
    kinds = _labels([kind or "valid (should stay)" for kind in ordered.index], ordered["runs"])
    panel = Panel(bars, _shares_axis("runs that are rejected (% of that kind)"), Axis("kind", kinds))
    words = Words(
        "validity-chart",
        title,
        "Bars of the share of runs that are rejected, by kind of run",
        "On test cases held out whole; the tree was learned on the other folds.",
    )
    return drawn(words, [panel], (8.4, 1.3 + 0.55 * len(ordered)))


def causes_chart(verdicts: pd.DataFrame) -> Chart | None:
    """Draw which share of the abnormal pairs of each cause is found."""
    known = verdicts[(verdicts["cause"].fillna("") != "") & (verdicts["status"] == "fail")]
    if known.empty:
        return None
    by_cause = (known["verdict"] == "fail").groupby(known["cause"]).agg(["mean", "size"])
    found = by_cause.sort_values("mean", kind="stable")
    least, title = found.iloc[0], f"All abnormal pairs of {counted(len(found), 'kind')} are found"
    if least["mean"] < 1:
        title = (
            f"Least found is {found.index[0]}: {percent(float(least['mean']), 0)} of "
            f"{counted(int(least['size']), 'abnormal pair')}"
        )
        if not _stands_out(found["mean"], found["size"]):
            title = (
                f"No cause can be told to be harder to find than the others: {_range(found['mean'])} of each"
            )
    causes = Axis("cause", _labels([str(cause) for cause in found.index], found["size"]))
    panel = Panel(
        [Bars(found["mean"])], _shares_axis("abnormal pairs that are found (% of the cause)"), causes
    )
    words = Words("causes", title, "Bars of the share of abnormal pairs that are found, by cause", _CAUSES)
    return drawn(words, [panel], (8.4, 1.1 + 0.3 * len(found)))


def groups_chart(groups: pd.DataFrame) -> Chart | None:
    """Draw the number of test cases by given and automatic group."""
    table = pd.crosstab(groups["group"], groups["automatic"])
    if len(table) < 2 or max(table.shape) > _GROUPS:  # noqa: PLR2004 - nothing to compare
        return None
    from sklearn.metrics import adjusted_rand_score

    agree = float(adjusted_rand_score(groups["group"], groups["automatic"]))
    table = table.iloc[np.argsort(table.to_numpy().argmax(axis=1), kind="stable")]
    title = (
        f"{counted(table.shape[1], 'automatic group')} beside {counted(len(table), 'given one')} "
        f"agree by {agree:.2f} (1: the same, 0: by chance)"
    )
    words = Words(
        "groups-chart",
        title,
        "Table of given groups by automatic groups",
        "Numbers are test cases. Agreement is the adjusted Rand index.",
    )
    counts, most = table.to_numpy().tolist(), int(table.to_numpy().max())
    cells = [
        [HeatCell(count, 0.25 + 0.6 * count / most) if count else None for count in row] for row in counts
    ]
    panel = Panel(
        [Cells(cells)],
        Axis("automatic group (name)", [str(one) for one in table.columns]),
        Axis("given group (workload type)", [str(one) for one in table.index]),
    )
    size = max(4.6, 2.6 + 0.45 * table.shape[1]), max(3.4, 1.4 + 0.3 * len(table))
    return drawn(words, [panel], size, narrows=False)


def _shares(validity: pd.DataFrame) -> pd.DataFrame:
    """Return by kind how many runs there are, and which share of them each judge rejects."""
    sums = validity.groupby(["kind", "judge"])[["runs", "rejected"]].sum()
    shares = (sums["rejected"] / sums["runs"]).unstack("judge").reindex(columns=list(JUDGES))
    return shares.assign(runs=sums["runs"].unstack("judge").max(axis="columns"))


def _stands_out(shares: pd.Series, sizes: pd.Series) -> bool:
    """Return whether the smallest share differs significantly from all others (Fisher's exact test)."""
    from scipy.stats import fisher_exact

    right = (shares * sizes).round()
    table = pd.DataFrame({"right": right, "wrong": sizes - right})
    least = shares.idxmin()
    p: float = fisher_exact([table.loc[least], table.drop(index=least).sum()]).pvalue
    return p < 1 - CONFIDENCE


def _range(shares: pd.Series) -> str:
    low, high = percent(float(shares.min()), 0), percent(float(shares.max()), 0)
    return low if low == high else f"{low} to {high}"


def _labels(names: list[str], sizes: pd.Series) -> list[str]:
    return [f"{name} ({int(size):,})" for name, size in zip(names, sizes, strict=True)]


def _shares_axis(label: str) -> Axis:
    return Axis(label, percent=True, low=0, high=1)


#: Figures of the seed, as curves.parquet calls them.
COST, UNDERSAMPLING, DIMENSION = 4, 5, 6
#: Two balanced accuracies that differ by less are called equal.
EQUAL = 0.01
_GROUPINGS = {"none": "one model", "given": "a model per group"}
_ACCURACY = "balanced accuracy of vectors (0 to 1)"
_BARS = "Bars are one standard deviation over the folds."


class Curve(NamedTuple):
    """Balanced accuracy over one parameter. ``look`` is its model's; ``hollow``: others have groups."""

    name: str
    look: int
    hollow: bool
    x: list[float]
    accuracy: list[float]
    spread: list[float]
    folds: int

    def at_best(self) -> int:
        """Return the first place of the best accuracy."""
        return self.accuracy.index(max(self.accuracy))

    @property
    def gain(self) -> float:
        """By how much the best is better than the first, which has no remedy."""
        return max(self.accuracy) - self.accuracy[0]

    def apart(self, one: int, other: int) -> bool:
        """Return whether two points of the curve differ significantly, by their spread over the folds."""
        gain = self.accuracy[one] - self.accuracy[other]
        return told_apart(gain, self.spread[one], self.spread[other], folds=self.folds)


def lines(curves: pd.DataFrame, figure: int, folds: int) -> list[Curve]:
    """Return the curves of a figure, one per model and grouping, each from no remedy on."""
    own = curves[(curves["figure"] == figure) & curves["balanced_accuracy"].notna()]
    models, several = sorted(own["model"].unique()), len(own["grouping"].drop_duplicates()) > 1
    found = []
    for (model, grouping), part in own.groupby(["model", "grouping"], sort=True):
        ordered = part.sort_values("x", ascending=figure != UNDERSAMPLING, kind="stable")
        name = f"{model}, {_GROUPINGS.get(str(grouping), grouping)}" if several else str(model)
        x, accuracy, spread = (ordered[column].tolist() for column in ("x", "balanced_accuracy", "spread"))
        hollow = several and grouping == "none"
        found.append(Curve(name, models.index(model), hollow, x, accuracy, spread, folds))
    return found


def cost_chart(curves: pd.DataFrame, folds: int) -> Chart | None:
    """Draw balanced accuracy by cost ratio (seed 001, figure 4); None without curves."""
    across = Axis("cost of a missed abnormal vector, in false alarms (log scale)", log=True)
    told = partial(
        _gain_told, best="where a miss costs {} times a false alarm", without="where both cost the same"
    )
    return _curves(lines(curves, COST, folds), COST, "cost ratio, a line a model", across, told)


def sampling_chart(curves: pd.DataFrame, folds: int) -> Chart | None:
    """Draw balanced accuracy by undersampling (seed 001, figure 5); None without curves."""
    label = "normal training vectors per abnormal one, from all to as many (log scale)"
    told = partial(_gain_told, best="at a ratio of {}:1", without="with all normal vectors")
    across = Axis(label, log=True, backwards=True)
    return _curves(
        lines(curves, UNDERSAMPLING, folds),
        UNDERSAMPLING,
        "undersampling, a line a model and grouping",
        across,
        told,
    )


def dimensions_chart(curves: pd.DataFrame, folds: int) -> Chart | None:
    """Draw balanced accuracy by the dimensions kept (seed 001, figure 6); None without curves."""
    across = Axis("dimensions that are kept (number; the last are all metrics, not projected)")
    return _curves(
        lines(curves, DIMENSION, folds), DIMENSION, "dimensions, a line a model", across, _enough_told
    )


def times_chart(times: pd.DataFrame) -> Chart | None:
    """Draw training time by dimensions (seed 001, figure 7); None where nothing was timed."""
    if times.empty:
        return None
    ordered = times.sort_values(["model", "dimensions"], kind="stable")
    ends = ordered.groupby("model")["seconds"].agg(["first", "last"])
    slow = ends["last"].idxmax()
    longest, shortest = ends.loc[slow, "last"], ends.loc[slow, "first"]
    most, least = int(ordered["dimensions"].max()), int(ordered["dimensions"].min())
    told = f"{plain(longest, 3)} s with {most} dimensions, {plain(shortest, 3)} s with {least}"
    lines = [
        chart_marks.Line(str(model), own["dimensions"], own["seconds"], look)
        for look, (model, own) in enumerate(ordered.groupby("model", sort=True))
    ]
    panel = Panel(lines, Axis("dimensions (number)"), Axis("time to fit an engine (s, log scale)", log=True))
    note = "Mean over the folds, on the machine that made this page; times are never the same twice."
    words = Words(
        "figure-7",
        f"{slow} takes longest to train: {told}",
        "Chart of training time by dimensions, a line a model",
        note,
    )
    return drawn(words, [panel], (8.4, 4.0))


def ablation_chart(
    name: str, steps: Sequence[Sequence[Beside]], *, alone: bool, of: str = "pairs"
) -> Chart | None:
    """Draw the balanced accuracy of what is the same whatever the form, remedy by remedy."""
    if not steps or len(steps[0]) < 2:  # noqa: PLR2004 - nothing to compare
        return None
    title = (_missed_most if alone else _gained)(steps)
    remedies = [row.name for row in steps[0]]
    first = "all remedies" if alone else "no remedy"
    labels = [first, *(f"all but: {one}" if alone else f"+ {one}" for one in remedies[1:])]
    how = "without one remedy" if alone else "remedy by remedy"
    words = Words(name, title, f"Chart of balanced accuracy of {of} {how}, a line a model", _BARS)
    panel = Panel(
        [
            *(_remedies(rows, look, joined=not alone) for look, rows in enumerate(steps)),
            *_seeds(steps),
            ValueLine(x=0.5),
        ],
        Axis(f"balanced accuracy of {of}; 0.5 is guessing"),
        Axis("remedy", labels),
    )
    return drawn(words, [panel], (8.4, 1.4 + 0.42 * len(labels)))


def _remedies(rows: Sequence[Beside], look: int, *, joined: bool) -> chart_marks.Line:
    places = [place + 0.09 * (look - 1) for place in range(len(rows))]
    accuracies, spreads = [row.same for row in rows], [row.same_spread for row in rows]
    return chart_marks.Line(rows[0].model, accuracies, places, look, sideways=spreads, joined=joined)


def _seeds(steps: Sequence[Sequence[Beside]]) -> Iterator[Dots]:
    """Yield the paper's figures for each model, where it has any."""
    label = "the paper's, of vectors, on its own data"
    for look, rows in enumerate(steps):
        found = [(place, row.seeds.balanced_accuracy) for place, row in enumerate(rows)]
        shown = [(place, accuracy) for place, accuracy in found if not isnan(accuracy)]
        if shown:
            places, accuracies = zip(*shown, strict=True)
            colour = SERIES[look % len(SERIES)]
            yield Dots(accuracies, places, label, PAPER, colour, marker="D", size=36, thickness=1.4)
            label = ""


def _gained(steps: Sequence[Sequence[Beside]]) -> str:
    top = max(steps, key=lambda rows: rows[-1].same)
    accuracies = f"{top[0].same:.2f} without any remedy", f"{top[-1].same:.2f} with all"
    whole = {
        "helps": "{model} rises from {0} to {1}",
        "hurts": "{model} falls from {0} to {1}",
        "cannot be told": "{model} has {0} and {1}, which cannot be told apart",
    }[Worth.of(top[-1], top[0]).told].format(*accuracies, model=top[0].model)
    told = [(Worth.of(row, before), row.name) for before, row in pairwise(top)]
    helping = [(worth.gain, name) for worth, name in told if worth.told == "helps"]
    if not helping:
        return f"{whole}; of no single step can it be told that it helps"
    gain, name = max(helping, key=lambda step: step[0])
    return f'{whole}; the largest step that can be told (+{gain:.2f}) is "{name}"'


def _missed_most(steps: Sequence[Sequence[Beside]]) -> str:
    top = max(steps, key=lambda rows: rows[0].same)
    whole = f"{top[0].model} has {top[0].same:.2f} with all"
    told = [(Worth.of(top[0], row), row) for row in top[1:]]
    missed = [(worth.gain, row) for worth, row in told if worth.told == "helps"]
    if not missed:
        return f"{whole}; of no remedy alone can it be told that it is missed"
    _, row = max(missed, key=lambda step: step[0])
    return f'{whole}; the largest loss that can be told is without "{row.name}": {row.same:.2f}'


def _gain_told(found: Sequence[Curve], best: str, without: str) -> str:
    top = max(found, key=lambda line: line.gain)
    if top.gain <= EQUAL:
        return f"No line rises by more than {EQUAL:g} above what it has {without}"
    if not any(line.apart(line.at_best(), 0) for line in found):
        return f"No line rises so far above what it has {without} that it could be told from chance"
    top = max((line for line in found if line.apart(line.at_best(), 0)), key=lambda line: line.gain)
    where = best.format(plain(top.x[top.at_best()], 3))
    return f"{top.name} gains most: {max(top.accuracy):.2f} {where}, {top.accuracy[0]:.2f} {without}"


def _enough_told(found: Sequence[Curve]) -> str:
    top = max(found, key=lambda line: max(line.accuracy))
    best = top.at_best()
    enough = next(place for place in range(len(top.x)) if place == best or not top.apart(best, place))
    others = [line for line in found if line is not top and not _apart(top, line)]
    title = f"{top.name} is best with {plain(top.x[best])} dimensions ({top.accuracy[best]:.2f})"
    if others:
        names = listed([top.name, *(line.name for line in others)])
        at_best = [max(line.accuracy) for line in (top, *others)]
        return f"{names} cannot be told apart at their best: {min(at_best):.2f} to {max(at_best):.2f}"
    if enough != best:
        title += f", and no less that could be told with {plain(top.x[enough])} ({top.accuracy[enough]:.2f})"
    return title


def _apart(one: Curve, other: Curve) -> bool:
    """Return whether two curves differ significantly at their best points."""
    here, there = one.at_best(), other.at_best()
    gain = one.accuracy[here] - other.accuracy[there]
    return told_apart(gain, one.spread[here], other.spread[there], folds=one.folds)


def _curves(
    found: Sequence[Curve],
    figure: int,
    by: str,
    across: Axis,
    told: Callable[[Sequence[Curve]], str],
) -> Chart | None:
    """Draw the curves of a figure; a logarithmic axis is one of the ratios that were tried."""
    if not found:
        return None
    if across.log:
        tried = sorted({x for line in found for x in line.x})
        across = replace(across, ticks={x: f"{plain(x, 3)}:1" for x in tried})
    drawing = [
        chart_marks.Line(one.name, one.x, one.accuracy, one.look, spread=one.spread, hollow=one.hollow)
        for one in found
    ]
    words = Words(f"figure-{figure}", told(found), f"Chart of balanced accuracy by {by}", _BARS)
    return drawn(words, [Panel(drawing, across, Axis(_ACCURACY))], (8.4, 4.2))
