"""What models of impact are worth: figures 4 and 5 of seed 002, importance, seconds, placements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from serving.corun.evaluated import OnlineScores, Repeatability
from serving.corun.placement_check import Check
from serving.pages.charts import (
    FAIL,
    INK,
    LINES,
    MARKERS,
    MUTED,
    PASS,
    SERIES,
    Chart,
    counted,
    inline,
    percent,
    percent_axis,
    sketch,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Features in the chart of importance, and residuals whose rows are named.
_FEATURES, _WORST = 20, 3
#: Dots beyond which an even share is drawn.
_DRAWN = 1500


def residual_chart(name: str, residuals: pd.DataFrame, what: str) -> Chart | None:
    """Draw the four plots of figures 4 and 5: residuals, normal Q-Q, scale-location, leverage.

    Parameters
    ----------
    residuals : DataFrame
        As `training.corun.estimators.explaining.residuals` gives them.
    what : str
        Which model, for the title.

    Returns
    -------
    Chart or None
        None where there are none.
    """
    if residuals.empty:
        return None
    outside = float((residuals["standardised"].abs() > 3).mean())  # noqa: PLR2004 - three deviations
    worst = residuals.loc[residuals["residual"].abs().sort_values(kind="stable").index[::-1][:_WORST]]
    first = worst.iloc[0]
    title = (
        f"{what}: {percent(outside)} of the residuals lie beyond three standard deviations "
        "(0.3\N{NO-BREAK SPACE}% of normal ones would)"
    )
    alt = f"Four plots of residuals of unseen co-runs: over fitted, Q-Q, scale, leverage. {title}."
    note = (
        f"Residual: measured impact \N{MINUS SIGN} predicted impact of co-runs that the model had not seen. "
        f"The largest is {first['residual']:+.3f}, of {first['task']} beside {first['corunners']}; "
        f"the {_WORST} largest are marked."
    )
    shown = residuals if len(residuals) <= _DRAWN else residuals.iloc[:: len(residuals) // _DRAWN + 1]
    panels = (
        ("fitted", "residual", "predicted impact", "residual (impact)", "Residuals and fitted"),
        ("theoretical", "standardised", "normal quantile", "standardised residual", "Normal Q-Q"),
        ("fitted", "scale", "predicted impact", "\u221a of |standardised residual|", "Scale and location"),
        ("leverage", "standardised", "leverage (0 to 1)", "standardised residual", "Residuals and leverage"),
    )
    with sketch(8.4, 7.0) as figure:
        for axes, (x, y, across, up, heading) in zip(figure.subplots(2, 2).flat, panels, strict=True):
            axes.scatter(shown[x], shown[y], s=9, color=PASS, edgecolor=INK, linewidth=0.25)
            axes.scatter(worst[x], worst[y], s=34, color=FAIL, marker="D", edgecolor=INK, linewidth=0.5)
            if y in {"residual", "standardised"} and x != "theoretical":
                axes.axhline(0, color=MUTED, linewidth=1, linestyle="--")
            if x == "theoretical":
                span = [float(shown[x].min()), float(shown[x].max())]
                axes.plot(span, span, color=MUTED, linewidth=1, linestyle="--")
            axes.set_xlabel(across)
            axes.set_ylabel(up)
            axes.set_title(heading, loc="left", fontsize=9)
            if x == "leverage":
                axes.set_xlim(0, None)
        return Chart(name, title, alt, inline(figure, name, alt), note)


def importance_chart(importance: pd.DataFrame) -> Chart | None:
    """Draw by how much the error grows when a feature is shuffled."""
    shown = importance.head(_FEATURES)
    if shown.empty or shown["rise"].iloc[0] <= 0:
        return None
    top = shown.iloc[0]
    title = f"Shuffling {top['feature']} costs most: {100 * top['rise']:.2g} points of mean error"
    alt = f"Bars of permutation importance of {counted(len(shown), 'feature')}. {title}."
    note = "own_: the task, others_: its co-runners. Bars are one standard deviation over the shuffles."
    with sketch(8.4, 1.1 + 0.21 * len(shown)) as figure:
        axes = figure.subplots()
        places = np.arange(len(shown))
        axes.barh(
            places, 100 * shown["rise"], xerr=100 * shown["spread"], color=PASS, edgecolor=INK, linewidth=0.5,
            height=0.65, error_kw={"elinewidth": 0.8, "ecolor": INK},
        )  # fmt: skip
        axes.set_yticks(places, shown["feature"].tolist(), fontsize=8)
        axes.invert_yaxis()
        axes.set_xlabel("growth of the mean error when shuffled (percentage points)")
        axes.grid(visible=False, axis="y")
        return Chart("importance", title, alt, inline(figure, "importance", alt), note)


def seconds_chart(online: OnlineScores, repeats: Repeatability, tolerance: float) -> Chart:
    """Draw the accuracy of the online models by the seconds that were sampled."""
    rows = pd.DataFrame([one.model_dump() for one in online.entries])
    own = rows[rows["design"] == online.design]
    champion = own[own["model"] == online.champion].sort_values("seconds")
    first, at = champion.iloc[0], champion[champion["seconds"] == online.trained_at].iloc[0]
    title = (
        f"{percent(at['within_tolerance'], 0)} within {percent(tolerance, 0)} after {at['seconds']:g} s of "
        f"samples, {percent(first['within_tolerance'], 0)} after {first['seconds']:g} s"
    )
    alt = f"Line chart of accuracy by sampled seconds, a line a model. {title}."
    unseen = "tasks that the model has never seen" if online.design == "tasks" else "co-runs at random"
    note = f"Held out: {unseen}. Bars are one standard deviation over the folds."
    with sketch(8.4, 4.0) as figure:
        axes = figure.subplots()
        for place, (model, rows_of) in enumerate(own.groupby("model", sort=True)):
            line = rows_of.sort_values("seconds")
            axes.errorbar(
                line["seconds"] * (1 + 0.02 * (place - 1.5)), line["within_tolerance"], line["spread"],
                color=SERIES[place], marker=MARKERS[place], linestyle=LINES[place], markersize=4.5,
                linewidth=1.3, elinewidth=0.7, capsize=2, label=str(model),
            )  # fmt: skip
        if repeats.within_tolerance is not None:
            axes.axhline(
                repeats.within_tolerance,
                color=MUTED,
                linestyle=":",
                label="measured once more",
            )
        ticks = sorted(own["seconds"].unique())
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{second:g}" for second in ticks])
        axes.minorticks_off()
        percent_axis(axes, "y")
        axes.set_xlabel("sampled seconds, alone and together (log scale)")
        axes.set_ylabel(f"within {percent(tolerance, 0)} of the measured impact")
        figure.legend(loc="outside upper center", ncols=5, fontsize=8)
        return Chart("seconds", title, alt, inline(figure, "seconds", alt), note)


def placement_chart(check: Check) -> Chart:
    """Draw the totals of placements at random, and where the chosen, the best and the worst lie."""
    saved = f"{check.random.mean() - check.chosen:.1f} s ({percent(check.saving)}) of run time"
    title = (
        f"Placed by predictions of unseen pairs, {check.tasks} tasks save {saved} against placements at "
        f"random; none saves more than {percent(check.possible)}"
    )
    alt = f"Histogram of the total run time of random placements. {title}."
    note = (
        "Run times as the pairs were measured one by one. The best is known only once everything is "
        "measured; the chosen one needs solo runs and a model."
    )
    with sketch(8.4, 3.6) as figure:
        axes = figure.subplots()
        axes.hist(check.random, bins=30, color=PASS, edgecolor=INK, linewidth=0.4, label="at random")
        marks = (
            ("chosen by predictions", check.chosen, FAIL, "-"),
            ("best there is", check.best, INK, "--"),
            ("worst there is", check.worst, INK, ":"),
        )
        for label, value, colour, line in marks:
            axes.axvline(value, color=colour, linestyle=line, linewidth=2, label=label)
        axes.set_xlabel("run time of all tasks, two to a machine (s)")
        axes.set_ylabel(f"placements (of {len(check.random)})")
        _room_above(axes)
        axes.legend(loc="upper center", ncols=4, fontsize=8)
        return Chart("placements-random", title, alt, inline(figure, "placements-random", alt), note)


def _room_above(axes: Axes) -> None:
    axes.set_ylim(top=axes.get_ylim()[1] * 1.2)
