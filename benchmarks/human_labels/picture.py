"""The picture: misses against false alarms, judges as curves, engineers as points."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.human_labels.engineers import Engineer, pooled
from benchmarks.human_labels.judges import Curve, Judge, worth
from benchmarks.human_labels.page import Told
from data.tables.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST, MOST = 2e-4, 0.2


def draw(views: Sequence[Told], engineers: list[Engineer], path: Path) -> None:
    """Draw a panel a view."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4 * len(views), 5.6), layout="constrained")
    for axes, view in zip(figure.subplots(1, len(views), squeeze=False)[0], views, strict=True):
        _panel(axes, view, engineers)
    with replacing(path) as target:
        figure.savefig(target, dpi=110, format="png")


def best_of_each(view: Told) -> list[Judge]:
    """Return the model and the rule that are best at their best threshold, and so of every tool."""
    ranked = [one for one in view.judges if one.score is not None]
    groups = {
        (one.kind, one.name.split(",")[0]) if one.kind == "tool" else (one.kind, ""): one for one in ranked
    }
    of_group = {
        group: max(
            (one for one in ranked if one.kind == group[0] and one.name.startswith(group[1])),
            key=lambda one: view.top(one).balanced,
        )
        for group in groups
    }
    return sorted(of_group.values(), key=lambda one: -view.top(one).balanced)


def _panel(axes: Axes, view: Told, engineers: list[Engineer]) -> None:
    for number, judge in enumerate(best_of_each(view)):
        _curve(axes, view, judge, f"C{number}")
    _people(axes, engineers)
    axes.set(xscale="log", xlim=(LEAST, MOST), ylim=(-0.015, 1.02), title=view.title)
    axes.set(xlabel="false alarms, share of the passes", ylabel="missed, share of the fails")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.1%}" if value < 0.01 else f"{value:.0%}")  # noqa: PLR2004
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right", fontsize=8, framealpha=0.9)


def _curve(axes: Axes, view: Told, judge: Judge, colour: str) -> None:
    assert judge.score is not None
    curve = Curve.of(view.cases.failed, judge.score)
    width = 2.4 if judge.kind == "model" else 1.3
    name = f"perfjudge, {judge.name}" if judge.kind == "model" else judge.name
    drawn = np.maximum(curve.alarms, LEAST / 2)
    axes.step(drawn, curve.missed, where="post", color=colour, lw=width, label=name)
    if judge.judged is not None:
        own = worth(view.cases, judge.judged)
        axes.plot([max(own.alarms, LEAST)], [own.missed], "s", color=colour, ms=7, mec="black", clip_on=False)


def _people(axes: Axes, engineers: list[Engineer]) -> None:
    told = [one for one in engineers if one.told]
    for one in told:
        own = one.worth
        at = max(own.alarms, LEAST), own.missed
        axes.scatter(*at, s=25 + 2 * one.failed.sum(), color="0.35", alpha=0.55, zorder=3, clip_on=False)
        axes.annotate(one.name, at, fontsize=7, ha="center", va="center", color="white", zorder=4)
    everybody = pooled(engineers).worth
    axes.plot(
        [everybody.alarms], [everybody.missed], "X", color="black", ms=9, label="all engineers together"
    )
    axes.plot([], [], "o", color="0.35", alpha=0.55, label="an engineer against the others; size: fails")
    axes.plot([], [], "s", color="white", mec="black", label="at the setting one gets")
