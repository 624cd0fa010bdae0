"""What was measured of co-runs, before anything is learned: figures 1 to 3 of seed 002, and all impacts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from serving.corun.evaluated import EvaluatedCoruns, where
from serving.pages.apart import Leaders, listed
from serving.pages.charts import INK, Chart, Words, percent, plain
from serving.pages.marks import Bars, Dots, Heat, Line, ValueLine
from serving.pages.panels import Axis, Panel, drawn

#: Co-runners of one task, events, and lines in one figure.
_CORUNNERS, _EVENTS, _LINES = 30, 40, 5


def times_chart(given: EvaluatedCoruns) -> Chart | None:
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
    shows = f"Run times of {', '.join(chosen)} beside each co-runner, and alone"
    note = (
        f"The tasks that suffer most, middling and least, on {given.machine}."
        f" The line is the time alone. At most {_CORUNNERS} co-runners are drawn."
    )
    panels = [
        _times(impacts.loc[task].dropna(), str(task), float(given.solo_seconds[task])) for task in chosen
    ]
    return drawn(Words("figure-1", title, shows, note), panels, (8.4, 7.4), narrows=False)


def _times(impacts: pd.Series, task: str, solo: float) -> Panel:
    ordered = impacts.sort_values(kind="stable").iloc[_evenly(len(impacts), _CORUNNERS)]
    dots = Dots(np.arange(len(ordered)), ordered * solo)
    return Panel(
        [ValueLine(y=solo, dash="--"), dots],
        Axis("co-runner", [str(name) for name in ordered.index]),
        Axis("run time (s)", low=0.98 * solo * min(1.0, float(ordered.min()))),
        f"{task} beside",
    )


def _slows(impacts: pd.DataFrame) -> str:
    """Say who slows others most, unless most could."""
    alike = Leaders.of(impacts).alike
    if len(alike) > impacts.shape[1] / 2:
        return "who slows others most cannot be told"
    return f"{_most(impacts, 'slows', 'slow')} others most"


def _most(impacts: pd.DataFrame, one: str, several: str) -> str:
    """Say of which columns the mean is largest, where one cannot be told from another."""
    leaders = Leaders.of(impacts)
    return f"{listed(leaders.all)} {several if leaders.alike else one}"


def _evenly(number: int, most: int) -> list[int]:
    """Return which of `number` places to draw: all, or so many, from the first to the last."""
    return list(np.unique(np.linspace(0, number - 1, min(number, most)).astype(int)))


def heat_map(given: EvaluatedCoruns) -> Chart | None:
    """Draw the impact on each task (row) beside each co-runner (column)."""
    impacts = given.impacts
    if impacts.empty:
        return None
    rows = impacts.mean(axis=1).sort_values(ascending=False, kind="stable").index
    columns = impacts.mean(axis=0).sort_values(ascending=False, kind="stable").index
    shown = impacts.loc[rows, columns].to_numpy()
    title = f"{_most(impacts.T, 'suffers', 'suffer')} most from others; {_slows(impacts)}"
    shows = f"Heat map of the impact on {len(rows)} tasks beside {len(columns)} co-runners"
    note = (
        f"Impact: co-run time / time alone, on {given.machine}. Tasks that suffer most are at the top, "
        "co-runners that slow others most on the left. White is no effect; the colours reach as far as "
        "nearly all impacts do, the arrow of the legend stands for those beyond. Where there is no colour, "
        "nothing was measured."
    )
    heat = Heat.robust(shown, "impact (co-run time / time alone)", 1.0)
    panel = Panel([heat], Axis("co-runner", list(map(str, columns))), Axis("task", list(map(str, rows))))
    return drawn(
        Words("impacts", title, shows, note), [panel], (8.4, min(9.0, 2.6 + 0.2 * len(rows))), narrows=False
    )


def events_chart(given: EvaluatedCoruns) -> Chart | None:
    """Draw by which factor each event's count changed in the co-run with the largest impact (figure 2).

    Returns
    -------
    Chart or None
        None where no events were counted in co-runs.
    """
    task, other = given.strongest
    here = {"task": task, "machine": given.machine}
    pairs = where(given.tables.pairs, corunner_1=other, **here)
    events = [event for event in given.tables.events if event in pairs.columns]
    alone = where(given.tables.tasks, **here)[events].median()
    ratios = (pairs[events].median() / alone[alone > 0]).dropna()
    ratios = ratios[(ratios > 0) & np.isfinite(ratios)]
    if ratios.empty:
        return None
    size = np.log(ratios).abs().sort_values(ascending=False, kind="stable")
    ratios = ratios[size.index[:_EVENTS]].sort_values(ascending=False, kind="stable")
    top = size.index[0]
    title = f"Beside {other}, {task} counts {plain(float(ratios[top]), 3)} times as many {top}"
    shows = f"Bars of co-run count / solo count by event for {task} beside {other}"
    note = (
        f"Counts over the whole run, beside others / alone; the pair with the largest impact "
        f"({given.impacts.loc[task, other]:.2f}) on {given.machine}. Events not counted alone are left out."
    )
    panel = Panel(
        [Bars(ratios, start=1), ValueLine(x=1, colour=INK, dash="-")],
        Axis("count beside the other / count alone (log scale)", log=True),
        Axis("event", [str(name) for name in ratios.index]),
    )
    return drawn(Words("figure-2", title, shows, note), [panel], (8.4, 1.2 + 0.19 * len(ratios)))


def trend_chart(given: EvaluatedCoruns) -> Chart | None:
    """Draw events over the time of one co-run (seed 002, figure 3); None where nothing was sampled."""
    beside = where(given.tables.samples, phase="corun", machine=given.machine)
    if beside.empty:
        return None
    wanted = where(beside, task=given.strongest[0], corunners=given.strongest[1])
    first = (wanted if len(wanted) else beside).iloc[0]
    task, other = first["task"], first["corunners"]
    own = where(beside, task=task, corunners=other, repetition=first["repetition"]).sort_values("t_seconds")
    lasted = np.diff(own["t_seconds"].to_numpy(np.float64), prepend=0.0)
    events = [event for event in given.tables.events if event in own.columns]
    rates = own[events].div(lasted, axis="index")
    means = rates.mean()
    relative = (rates / means[means > 0]).dropna(axis="columns")
    if relative.empty:
        return None
    chosen = list(relative.std().sort_values(kind="stable").index)
    # from the steadiest to the most restless
    chosen = [chosen[place] for place in _evenly(len(chosen), _LINES)]
    restless = float(relative[chosen[-1]].std())
    title = (
        f"Events go on much as they began: {chosen[-1]} varies most, by {percent(restless, 0)} of its mean"
    )
    if restless > 1:
        title = f"Events come in bursts: {chosen[-1]} varies by {percent(restless, 0)} of its mean"
    shows = f"Line chart of the rates of {', '.join(chosen)} over the run of {task} beside {other}"
    note = f"{task} beside {other} on {given.machine}; from the steadiest event to the most restless."
    lines = [Line(event, own["t_seconds"], relative[event], look) for look, event in enumerate(chosen)]
    panel = Panel(lines, Axis("time since the start (s)"), Axis("rate / its mean"))
    return drawn(Words("figure-3", title, shows, note), [panel], (8.4, 3.8))
