"""The champion's worst mistakes, with the samples that misled it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.sides import Samples, Sides
from data.comparisons.tables import COMPARISON_DTYPES, ComparisonTables
from serving.pages.charts import (
    INK,
    MUTED,
    PAPER,
    PASS,
    Chart,
    counted,
    inline,
    percent,
    percent_axis,
    sketch,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 12
#: Dots drawn over one box; of more samples an even share is drawn.
DOTS = 60
#: A shift that rounds to 0.0 % is told as none.
_NO_SHIFT = 0.0005
#: Below the first, numbers get four digits; from the second on, powers of ten.
_FEW, _MANY = 1000, 1e7


@dataclass(frozen=True)
class Pair:
    """Baseline and target of one configuration, as shares of the baseline's median.

    Attributes
    ----------
    threads : int
    baseline_median : float
        In the unit of the result.
    shift : float
        Target's median against the baseline's, negative where the target is worse.
    boxes : tuple of ndarray
        Min, q1, median, q3, max of baseline and target, relative to the baseline's median.
    samples : tuple of ndarray
        Their samples, relative likewise; empty where the source has summaries only.
    """

    threads: int
    baseline_median: float
    shift: float
    boxes: tuple[NDArray[np.float64], NDArray[np.float64]]
    samples: tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Mistake:
    """One wrong verdict on a held-out fold."""

    anchor: str
    comparison_id: str
    benchmark: str
    operation: str
    machine: str
    unit: str
    better: str
    label: str
    labelled_by: str
    verdict: str
    probability: float
    threshold: float
    pairs: tuple[Pair, ...]

    @property
    def worst(self) -> Pair:
        """The configuration whose median fell most."""
        return min(self.pairs, key=lambda pair: pair.shift)

    @property
    def shifts(self) -> str:
        """The range of median shifts over the configurations, in words."""
        low, high = (percent(choose(pair.shift for pair in self.pairs)) for choose in (min, max))
        return low if low == high else f"{low} to {high}"


def worst_mistakes(verdicts: pd.DataFrame, tables: ComparisonTables, most: int = MOST) -> list[Mistake]:
    """Find the wrong verdicts that the model was surest of.

    Parameters
    ----------
    verdicts : DataFrame
        One model's held-out verdicts, with the columns of `serving.pages.evaluated.OOF_DTYPES`.
    tables : ComparisonTables
        What the comparisons were made of.
    most : int
        How many to return.

    Returns
    -------
    list of Mistake
        The surest first. Sureness is how far a probability lies from its threshold,
        as a share of how far it could.
    """
    wrong = verdicts[verdicts["verdict"] != verdicts["status"]].drop_duplicates("comparison_id")
    ranked = wrong.assign(sure=sureness(wrong)).sort_values(
        ["sure", "comparison_id"], ascending=[False, True]
    )
    comparisons = tables.comparisons[list(COMPARISON_DTYPES)]
    found = ranked.head(most).merge(comparisons, on="comparison_id", validate="one_to_one")
    keys = ["benchmark", "operation", "machine"]
    results = tables.results.merge(found[keys].drop_duplicates(), on=keys)
    chosen = replace(tables, results=results, comparisons=found[list(COMPARISON_DTYPES)])
    sides, people = Sides.of(chosen), _people(tables.labels)
    return [
        _mistake(row, place, sides, results, people.get(str(row.comparison_id)) or "\N{EN DASH}")
        for place, row in enumerate(found.itertuples())
    ]


def sureness(verdicts: pd.DataFrame) -> NDArray[np.float64]:
    """Return how far probabilities lie from their thresholds, as shares of how far they could."""
    probability, threshold = (verdicts[name].to_numpy(float) for name in ("probability", "threshold"))
    room = np.where(probability >= threshold, 1 - threshold, threshold)
    shares: NDArray[np.float64] = np.abs(probability - threshold) / np.maximum(room, 1e-9)
    return shares


def _people(labels: pd.DataFrame) -> dict[str, str]:
    """Return who labelled each comparison."""
    named = labels.dropna(subset=["labelled_by"]).drop_duplicates(["comparison_id", "labelled_by"])
    return {str(key): ", ".join(part["labelled_by"]) for key, part in named.groupby("comparison_id")}


def _mistake(row: Any, place: int, sides: Sides, results: pd.DataFrame, labelled_by: str) -> Mistake:
    values = {
        name: getattr(row, name) for name in ("comparison_id", "benchmark", "operation", "machine", "verdict")
    }
    own = results[
        (results["benchmark"] == values["benchmark"])
        & (results["operation"] == values["operation"])
        & (results["machine"] == values["machine"])
    ].iloc[0]
    return Mistake(
        anchor=f"mistake-{place + 1}",
        **values,
        unit=str(own["unit"]),
        better=str(own["better"]),
        label=str(row.status),
        labelled_by=labelled_by,
        probability=float(row.probability),
        threshold=float(row.threshold),
        pairs=tuple(_pair(sides, int(at)) for at in _judged(sides, place)),
    )


def _judged(sides: Sides, place: int) -> NDArray[np.int64]:
    """Return the configurations that both sides of a comparison have."""
    both = np.isfinite(sides.baseline_five[:, 2] + sides.target_five[:, 2])
    return np.flatnonzero(both & (sides.comparison == place))


def _pair(sides: Sides, at: int) -> Pair:
    median = float(sides.baseline_five[at, 2])
    unit = median or 1.0
    boxes = sides.baseline_five[at] / unit, sides.target_five[at] / unit
    samples = _list(sides.baseline, at) / unit, _list(sides.target, at) / unit
    shift = float(sides.sign[at]) * float(boxes[1][2] - boxes[0][2])
    return Pair(int(sides.threads[at]), median, shift, boxes, samples)


def _list(samples: Samples, at: int) -> NDArray[np.float64]:
    return samples.values[samples.starts[at] : samples.stops[at]]  # noqa: PD011 - a field, not pandas


def mistake_chart(mistake: Mistake) -> Chart:
    """Draw baseline beside target for every configuration of `mistake`."""
    word = "Missed" if mistake.label == "fail" else "False alarm"
    worst = mistake.worst
    change = f"{percent(abs(worst.shift))} {'worse' if worst.shift < 0 else 'better'}"
    if abs(worst.shift) < _NO_SHIFT:
        change = "no shift of the median"
    given = "yet given" if mistake.label == "fail" else "given"
    title = (
        f"{word}: {mistake.operation}, {change} at {counted(worst.threads, 'thread')}, "
        f"{given} p = {mistake.probability:.2f}"
    )
    alt = f"Box plots of baseline and target by threads. {title}. Median shifts {mistake.shifts}."
    with sketch(max(3.9, 1.5 + 0.95 * len(mistake.pairs)), 2.9) as figure:
        axes = figure.subplots()
        for place, pair in enumerate(mistake.pairs):
            _draw_pair(axes, place, pair)
        axes.axhline(0, color=MUTED, linewidth=0.8, linestyle=":")
        ticks = [f"{pair.threads}\n{_short(pair.baseline_median)}" for pair in mistake.pairs]
        axes.set_xticks(range(len(ticks)), ticks)
        axes.set_xlim(-0.6, len(ticks) - 0.4)
        axes.set_xlabel(f"threads (number)\nbelow each: the baseline's median ({mistake.unit})", fontsize=8.5)
        axes.set_ylabel(f"against baseline's median (%)\n{mistake.better} is better", fontsize=8.5)
        percent_axis(axes, "y")
        axes.grid(visible=False, axis="x")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return Chart(mistake.anchor, title, alt, inline(figure, mistake.anchor, alt))


def _short(value: float) -> str:
    return f"{value:,.0f}" if _FEW <= abs(value) < _MANY else f"{value:.4g}"


def _draw_pair(axes: Axes, place: int, pair: Pair) -> None:
    looks = ((-0.2, PAPER, "", "baseline"), (0.2, PASS, "////", "target"))
    for (shift, colour, hatch, label), five, samples in zip(looks, pair.boxes, pair.samples, strict=True):
        if np.isnan(five).any():
            continue
        names = ("whislo", "q1", "med", "q3", "whishi")
        box = axes.bxp(
            [dict(zip(names, (five - 1).tolist(), strict=True))], positions=[place + shift], widths=0.32,
            showfliers=False, patch_artist=True, manage_ticks=False,
            boxprops={"facecolor": colour, "edgecolor": INK, "hatch": hatch},
            medianprops={"color": INK, "linewidth": 2}, whiskerprops={"color": INK}, capprops={"color": INK},
        )  # fmt: skip
        if place == 0:
            box["boxes"][0].set_label(label)
        dots = samples[:: -(-len(samples) // DOTS) or 1] - 1
        spread = place + shift + 0.1 * (np.arange(len(dots)) % 3 - 1)
        axes.scatter(spread, dots, s=11, color=INK, alpha=0.6, linewidths=0, zorder=4)
