"""What was measured of co-runs, before anything is learned: figures 1 to 3 of seed 002, and all impacts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from serving.corun.evaluated import Evaluated
from serving.pages.charts import INK, LINES, MARKERS, MUTED, PASS, SERIES, Chart, inline, percent, sketch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
#: Co-runners of one task, events, and lines in one figure.
_CORUNNERS, _EVENTS, _LINES = 30, 40, 5
#: Names that an axis of the heat map still has room for.
_NAMES = 45


def times_chart(given: Evaluated) -> Chart | None:
    """Draw the co-run times of three tasks beside each other task (seed 002, figure 1)."""
    impacts = given.impacts
    if impacts.shape[1] < 2:  # noqa: PLR2004 - nothing varies
        return None
    order = impacts.mean(axis=1).sort_values(ascending=False, kind="stable").index
    chosen = list(dict.fromkeys([order[0], order[len(order) // 2], order[-1]]))
    most = float(impacts.loc[chosen[0]].max())
    least = float(impacts.loc[chosen[-1]].max())
    title = (
        f"{chosen[0]} takes up to {percent(most - 1, 0)} longer beside others, "
        f"{chosen[-1]} up to {percent(least - 1, 0)}"
    )
    alt = f"Run times of {', '.join(chosen)} beside each co-runner, and alone. {title}."
    note = (
        f"The tasks that suffer most, middling and least, on {given.machine}."
        f" The line is the time alone. At most {_CORUNNERS} co-runners are drawn."
    )
    with sketch(8.4, 7.4) as figure:
        for axes, task in zip(np.atleast_1d(figure.subplots(len(chosen), 1)), chosen, strict=True):
            _times(axes, impacts.loc[task].dropna(), str(task), float(given.solo_seconds[task]))
        return Chart("figure-1", title, alt, inline(figure, "figure-1", alt), note)


def _times(axes: Axes, impacts: pd.Series, task: str, solo: float) -> None:
    ordered = impacts.sort_values(kind="stable")
    if len(ordered) > _CORUNNERS:
        ordered = ordered.iloc[np.unique(np.linspace(0, len(ordered) - 1, _CORUNNERS).astype(int))]
    places = np.arange(len(ordered))
    axes.axhline(solo, color=MUTED, linewidth=1, linestyle="--")
    axes.scatter(places, ordered * solo, s=22, facecolor=PASS, edgecolor=INK, linewidth=0.6, zorder=3)
    axes.set_xticks(places, [str(name) for name in ordered.index], rotation=90, fontsize=7)
    axes.set_title(f"{task} beside", loc="left", fontsize=9)
    axes.set_ylabel("run time (s)")
    axes.set_ylim(bottom=min(0.98 * solo, float(ordered.min()) * solo * 0.98))


def heat_map(given: Evaluated) -> Chart | None:
    """Draw the impact on each task (row) beside each co-runner (column)."""
    impacts = given.impacts
    if impacts.empty:
        return None
    rows = impacts.mean(axis=1).sort_values(ascending=False, kind="stable").index
    columns = impacts.mean(axis=0).sort_values(ascending=False, kind="stable").index
    shown = impacts.loc[rows, columns]
    title = f"{rows[0]} suffers most from others, {columns[0]} slows others most"
    alt = f"Heat map of the impact on {len(rows)} tasks beside {len(columns)} co-runners. {title}."
    note = (
        f"Impact: co-run time / time alone, on {given.machine}. Tasks that suffer most are at the top, "
        "co-runners that slow others most on the left; white was not measured."
    )
    with sketch(8.4, min(8.0, 2.6 + 0.2 * len(rows))) as figure:
        axes = figure.subplots()
        low, high = np.nanmin(shown.to_numpy()), np.nanmax(shown.to_numpy())
        image = axes.imshow(
            shown.to_numpy(),
            cmap="viridis_r",
            vmin=min(low, 1),
            vmax=high,
            interpolation="none",
            aspect="auto",
        )
        _named(axes, columns, rows)
        axes.set_xlabel("co-runner")
        axes.set_ylabel("task")
        axes.grid(visible=False)
        figure.colorbar(image, ax=axes, label="impact (co-run time / time alone)", shrink=0.7, pad=0.015)
        return Chart("impacts", title, alt, inline(figure, "impacts", alt), note)


def _named(axes: Axes, columns: Sequence[object], rows: Sequence[object]) -> None:
    for names, put, rotation in ((columns, axes.set_xticks, 90), (rows, axes.set_yticks, 0)):
        every = 1 + (len(names) - 1) // _NAMES
        places = list(range(0, len(names), every))
        put(places, [str(names[place]) for place in places], rotation=rotation, fontsize=7)


def events_chart(given: Evaluated) -> Chart | None:
    """Draw by which factor each event's count changed in the co-run with the largest impact (figure 2).

    Returns
    -------
    Chart or None
        None where no events were counted in co-runs.
    """
    task, other = given.strongest
    pairs, runs = given.tables.pairs, given.tables.tasks
    events = [event for event in given.tables.events if event in pairs.columns]
    own = pairs[
        (pairs["task"] == task) & (pairs["corunner_1"] == other) & (pairs["machine"] == given.machine)
    ]
    alone = runs[(runs["task"] == task) & (runs["machine"] == given.machine)][events].median()
    ratios = (own[events].median() / alone[alone > 0]).dropna()
    ratios = ratios[(ratios > 0) & np.isfinite(ratios)]
    if ratios.empty:
        return None
    size = np.log(ratios).abs().sort_values(ascending=False, kind="stable")
    ratios = ratios[size.index[:_EVENTS]].sort_values(kind="stable")
    top = size.index[0]
    title = f"Beside {other}, {task} counts {ratios[top]:.2g} times as many {top}"
    alt = f"Bars of co-run count / solo count by event for {task} beside {other}. {title}."
    note = (
        f"Counts over the whole run, beside others / alone; the pair with the largest impact "
        f"({given.impacts.loc[task, other]:.2f}) on {given.machine}. Events not counted alone are left out."
    )
    with sketch(8.4, 1.2 + 0.19 * len(ratios)) as figure:
        axes = figure.subplots()
        places = np.arange(len(ratios))
        axes.barh(places, ratios - 1, left=1, color=PASS, edgecolor=INK, linewidth=0.5, height=0.65)
        axes.axvline(1, color=INK, linewidth=1)
        _log_axis(axes)
        axes.set_yticks(places, [str(name) for name in ratios.index], fontsize=8)
        axes.set_xlabel("count beside the other / count alone (log scale)")
        axes.grid(visible=False, axis="y")
        return Chart("figure-2", title, alt, inline(figure, "figure-2", alt), note)


def _log_axis(axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.2, 1.5, 2.0, 3.0, 5.0)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def trend_chart(given: Evaluated) -> Chart | None:
    """Draw events over the time of one co-run (seed 002, figure 3); None where nothing was sampled."""
    samples = given.tables.samples
    beside = samples[(samples["phase"] == "corun") & (samples["machine"] == given.machine)]
    if beside.empty:
        return None
    wanted = beside[(beside["task"] == given.strongest[0]) & (beside["corunners"] == given.strongest[1])]
    own = wanted if len(wanted) else beside
    task, other, repetition = own[["task", "corunners", "repetition"]].iloc[0]
    own = own[(own["task"] == task) & (own["corunners"] == other) & (own["repetition"] == repetition)]
    own = own.sort_values("t_seconds")
    lasted = np.diff(own["t_seconds"].to_numpy(np.float64), prepend=0.0)
    events = [event for event in given.tables.events if event in own.columns]
    rates = own[events].div(lasted, axis="index")
    means = rates.mean()
    relative = (rates / means[means > 0]).dropna(axis="columns")
    if relative.empty:
        return None
    chosen = list(relative.std().sort_values(kind="stable").index)
    # from the steadiest to the most restless
    chosen = [chosen[place] for place in np.unique(np.linspace(0, len(chosen) - 1, _LINES).astype(int))]
    restless = float(relative[chosen[-1]].std())
    title = (
        f"Events go on much as they began: {chosen[-1]} varies most, by {percent(restless, 0)} of its mean"
    )
    if restless > 1:
        title = f"Events come in bursts: {chosen[-1]} varies by {percent(restless, 0)} of its mean"
    alt = f"Line chart of the rates of {', '.join(chosen)} over the run of {task} beside {other}. {title}."
    note = f"{task} beside {other} on {given.machine}; from the steadiest event to the most restless."
    with sketch(8.4, 3.8) as figure:
        axes = figure.subplots()
        for place, event in enumerate(chosen):
            axes.plot(
                own["t_seconds"], relative[event], color=SERIES[place], marker=MARKERS[place], markersize=3.5,
                linestyle=LINES[place], linewidth=1.2, label=event, markevery=max(1, len(own) // 25),
            )  # fmt: skip
        axes.set_xlabel("time since the start (s)")
        axes.set_ylabel("rate / its mean")
        figure.legend(loc="outside upper center", ncols=3, fontsize=8)
        return Chart("figure-3", title, alt, inline(figure, "figure-3", alt), note)
