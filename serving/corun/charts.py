"""Charts of the report on co-runs: figures 1 to 5 of the co-run paper, importance, accuracy, placements."""

from __future__ import annotations

import numpy as np
import pandas as pd

from data.corun.tables import corunner_columns
from serving.corun.evaluated import EvaluatedCoruns, OnlineScores, PlacementCheck, Repeatability, rows_with
from serving.reports.chart_marks import (
    WORST,
    Bars,
    Diagonal,
    Dots,
    Heat,
    Histogram,
    Line,
    ValueLine,
    even_slice,
)
from serving.reports.charts import FAIL, INK, Chart, Words, percent, plain_number, with_noun
from serving.reports.panels import Axis, Mark, Panel, draw_chart
from serving.reports.separation import ERRORS, Leaders, join_names

#: Maximal numbers of co-runners of a task, events, and lines in a figure.
_CORUNNERS, _EVENTS, _LINES = 30, 40, 5


def times_chart(evaluation: EvaluatedCoruns) -> Chart | None:
    """Return a chart of co-run seconds of three tasks with each co-runner (co-run paper, figure 1).

    The tasks are those with the largest, median and smallest mean impact, or all of fewer. Times are medians
    on ``shown_machine``. None with fewer than two co-runners.
    """
    impacts = evaluation.impact_matrix
    if impacts.shape[1] < 2:  # noqa: PLR2004 - nothing varies
        return None
    order = impacts.mean(axis=1).sort_values(ascending=False, kind="stable").index
    chosen = list(dict.fromkeys([order[0], order[len(order) // 2], order[-1]]))
    largest_impact = float(impacts.loc[chosen[0]].max())
    smallest_impact = float(impacts.loc[chosen[-1]].max())
    title = (
        f"{chosen[0]} takes up to {percent(largest_impact - 1, 0)} longer with co-runners, "
        f"{chosen[-1]} up to {percent(smallest_impact - 1, 0)}"
    )
    shows = f"Run times of {', '.join(chosen)} beside each co-runner, and alone"
    note = (
        f"The tasks with the largest, median and smallest slow-down on {evaluation.shown_machine}. "
        f"The dashed line is the solo run time. At most {_CORUNNERS} co-runners are drawn."
    )
    panels = [
        _times_panel(impacts.loc[task].dropna(), str(task), float(evaluation.solo_seconds[task]))
        for task in chosen
    ]
    return draw_chart(Words("figure-1", title, shows, note), panels, (8.4, 7.4), narrows=False)


def _times_panel(impacts: pd.Series, task: str, solo: float) -> Panel:
    ordered = impacts.sort_values(kind="stable").iloc[_evenly_spaced(len(impacts), _CORUNNERS)]
    marks: list[Mark] = [ValueLine(y=solo, dash="--"), Dots(np.arange(len(ordered)), ordered * solo)]
    corunners = Axis("co-runner", [str(name) for name in ordered.index])
    seconds = Axis("run time (s)", low=0.98 * solo * min(1.0, float(ordered.min())))
    return Panel(marks, corunners, seconds, f"{task} with")


def _leaders_with_verb(impacts: pd.DataFrame, singular: str, plural: str) -> str:
    """Name the columns with the largest mean, including those not significantly smaller, with a verb."""
    leaders = Leaders.from_scores(impacts)
    return f"{join_names(leaders.all_names)} {plural if leaders.alike else singular}"


def _evenly_spaced(number: int, max_count: int) -> list[int]:
    """Return at most `max_count` of the places 0 to `number` - 1, evenly spaced, with both ends."""
    return list(np.unique(np.linspace(0, number - 1, min(number, max_count)).astype(int)))


def heat_map(evaluation: EvaluatedCoruns) -> Chart | None:
    """Return a chart of measured co-run time / solo time of each task (row) with each co-runner (column).

    Values are medians on ``evaluation.shown_machine``; cells that were not measured are not painted. The top
    row and the left column have the largest means, the others follow. None if no pair was measured there.
    """
    impacts = evaluation.impact_matrix
    if impacts.empty:
        return None
    rows = impacts.mean(axis=1).sort_values(ascending=False, kind="stable").index
    columns = impacts.mean(axis=0).sort_values(ascending=False, kind="stable").index
    shown = impacts.loc[rows, columns].to_numpy()
    slowest = f"{_leaders_with_verb(impacts, 'slows', 'slow')} others most"
    if len(Leaders.from_scores(impacts).alike) > impacts.shape[1] / 2:
        slowest = "averaged over all tasks, co-runners hardly differ in how much they slow others"
    title = f"{_leaders_with_verb(impacts.T, 'suffers', 'suffer')} most from others; {slowest}"
    shows = f"Heat map of the impact on {len(rows)} tasks with {len(columns)} co-runners"
    note = (
        f"Impact: co-run time / time alone, on {evaluation.shown_machine}. Tasks that suffer most are at the "
        "top, co-runners that slow others most on the left. White is no effect. The colours span nearly all "
        "impacts; the arrow of the legend marks larger ones."
    )
    if np.isnan(shown).any():
        note += " Cells that show no value under the pointer were not measured."
    heat = Heat.with_robust_range(shown, "impact (co-run time / time alone)", 1.0)
    panel = Panel([heat], Axis("co-runner", list(map(str, columns))), Axis("task", list(map(str, rows))))
    height = min(9.0, 2.6 + 0.2 * len(rows))
    return draw_chart(Words("impacts", title, shows, note), [panel], (8.4, height), narrows=False)


def events_chart(evaluation: EvaluatedCoruns) -> Chart | None:
    """Return a chart of co-run count / solo count by event (co-run paper, figure 2), on a logarithmic axis.

    Counts are medians of the pair with the largest impact on ``shown_machine``. Of the positive ratios, the
    40 furthest from 1 (by logarithm) are drawn; None without any.
    """
    if evaluation.strongest_pair is None:
        return None
    task, other = evaluation.strongest_pair
    pairs = rows_with(evaluation.tables.pairs, corunner_1=other, task=task, machine=evaluation.shown_machine)
    other_columns = corunner_columns(evaluation.tables.pairs)[1:]
    pairs = pairs[pairs[other_columns].isna().all(axis=1)]
    events = [event for event in evaluation.tables.events if event in pairs.columns]
    alone = rows_with(evaluation.tables.tasks, task=task, machine=evaluation.shown_machine)[events].median()
    ratios = (pairs[events].median() / alone[alone > 0]).dropna()
    ratios = ratios[(ratios > 0) & np.isfinite(ratios)]
    if ratios.empty:
        return None
    size = np.log(ratios).abs().sort_values(ascending=False, kind="stable")
    ratios = ratios[size.index[:_EVENTS]].sort_values(ascending=False, kind="stable")
    top = size.index[0]
    ratio = plain_number(float(ratios[top]), 3)
    title = f"With co-runner {other}, {task} has {ratio} times the solo count of {top}"
    shows = f"Bars of co-run count / solo count by event for {task} with {other}"
    note = (
        f"Counts over the whole run: co-run / alone, for the pair with the largest impact "
        f"({evaluation.impact_matrix.loc[task, other]:.2f}) on {evaluation.shown_machine}. Events "
        "without a solo count are not shown."
    )
    marks: list[Mark] = [Bars(ratios, start=1), ValueLine(x=1, colour=INK, dash="-")]
    counts = Axis("count in the co-run / solo count (log scale)", log=True)
    panel = Panel(marks, counts, Axis("event", [str(name) for name in ratios.index]))
    return draw_chart(Words("figure-2", title, shows, note), [panel], (8.4, 1.2 + 0.19 * len(ratios)))


def trend_chart(evaluation: EvaluatedCoruns) -> Chart | None:
    """Return a chart of event rates / their means over the time of one co-run (co-run paper, figure 3).

    The co-run is the first with samples on ``shown_machine``, of the pair with the largest impact if that has
    any. At most five events are drawn, evenly spaced from the least to the most variable. None without
    samples there, or if each event was 0 throughout or not always counted.
    """
    samples = rows_with(evaluation.tables.samples, phase="corun", machine=evaluation.shown_machine)
    if samples.empty:
        return None
    task, other = evaluation.strongest_pair or ("", "")
    wanted = rows_with(samples, task=task, corunners=other)
    first = (wanted if len(wanted) else samples).iloc[0]
    task, other = first["task"], first["corunners"]
    run = rows_with(samples, task=task, corunners=other, repetition=first["repetition"])
    run = run.sort_values("t_seconds")
    lasted = np.diff(run["t_seconds"].to_numpy(np.float64), prepend=0.0)
    events = [event for event in evaluation.tables.events if event in run.columns]
    rates = run[events].div(lasted, axis="index")
    means = rates.mean()
    relative = (rates / means[means > 0]).dropna(axis="columns")
    if relative.empty:
        return None
    chosen = list(relative.std().sort_values(kind="stable").index)
    # from the smallest to the largest variation
    chosen = [chosen[place] for place in _evenly_spaced(len(chosen), _LINES)]
    largest = float(relative[chosen[-1]].std())
    summary = "Events come in bursts" if largest > 1 else "Event rates are nearly constant"
    title = f"{summary}: {chosen[-1]} varies most over time (coefficient of variation: {percent(largest, 0)})"
    shows = f"Line chart of the rates of {', '.join(chosen)} over the run of {task} with {other}"
    note = f"{task} with {other} on {evaluation.shown_machine}. Legend: in ascending order of variation."
    lines = [Line(event, run["t_seconds"], relative[event], style) for style, event in enumerate(chosen)]
    panel = Panel(lines, Axis("time since the start (s)"), Axis("rate / its mean"))
    return draw_chart(Words("figure-3", title, shows, note), [panel], (8.4, 3.8))


#: Maximal number of features in the chart of importance, and number of marked residuals.
_FEATURES, _WORST = 20, 3
#: Axes by column of the residuals.
_AXES = {
    "fitted": Axis("predicted impact"),
    "residual": Axis("residual (impact)"),
    "theoretical": Axis("normal quantile"),
    "standardised": Axis("standardised residual"),
    "scale": Axis("\u221a of |standardised residual|"),
    "leverage": Axis("leverage (0 to 1)", low=0),
}
#: Maximal number of dots; of more an even share is drawn.
_DRAWN = 600


def residual_chart(name: str, residuals: pd.DataFrame, model_name: str, held_out: str) -> Chart | None:
    """Return charts of residuals, normal Q-Q, scale-location and leverage (co-run paper, figures 4 and 5).

    `name` is the chart's id, `held_out` names the part outside of training, `residuals` has ``task,
    corunners, fitted`` (impact), ``residual`` (measured - predicted), ``standardised, leverage, theoretical``
    (normal quantile) and ``scale``. At most 600 rows, evenly spaced, and the three largest residuals are
    drawn. None without rows.
    """
    if residuals.empty:
        return None
    outside = float((residuals["standardised"].abs() > 3).mean())  # noqa: PLR2004 - three deviations
    worst = residuals.loc[residuals["residual"].abs().sort_values(kind="stable").index[::-1][:_WORST]]
    first = worst.iloc[0]
    title = (
        f"{model_name}: {percent(outside)} of the residuals exceed three standard deviations "
        "(0.3\N{NO-BREAK SPACE}% for a normal distribution)"
    )
    note = (
        f"Residual: measured \N{MINUS SIGN} predicted impact. {held_out}. "
        f"The largest is {first['residual']:+.3f}, of {first['task']} with {first['corunners']}; "
        f"the {_WORST} largest are marked."
    )
    shows = "Four plots of residuals of held-out co-runs: over fitted, Q-Q, scale, leverage"
    shown, zero = residuals[even_slice(len(residuals), _DRAWN)], ValueLine(y=0, dash="--")
    quantiles = shown["theoretical"]
    equal = Diagonal(float(quantiles.min()), float(quantiles.max()))

    def residual_panel(x: str, y: str, heading: str, *lines: Mark) -> Panel:
        dots = (
            Dots(shown[x], shown[y], size=9, thickness=0.25, point_names=_pair_names(shown)),
            Dots(worst[x], worst[y], **WORST, point_names=_pair_names(worst)),
        )
        return Panel([*dots, *lines], _AXES[x], _AXES[y], heading)

    panels = [
        residual_panel("fitted", "residual", "Residuals and fitted", zero),
        residual_panel("theoretical", "standardised", "Normal Q-Q", equal),
        residual_panel("fitted", "scale", "Scale and location"),
        residual_panel("leverage", "standardised", "Residuals and leverage", zero),
    ]
    return draw_chart(Words(name, title, shows, note), panels, (8.4, 7.0), across=2)


def _pair_names(rows: pd.DataFrame) -> list[str]:
    return (rows["task"] + " with " + rows["corunners"]).tolist()


def importance_chart(importance: pd.DataFrame) -> Chart | None:
    """Return a chart of the permutation importance of the first 20 features; None if none is positive.

    `importance` has ``feature``, ``rise`` (increase of the mean relative error when the feature is shuffled),
    sorted by it, and ``spread`` (standard deviation over the shuffles, drawn as an error bar).
    """
    shown = importance.head(_FEATURES)
    if shown.empty or shown["rise"].iloc[0] <= 0:
        return None
    top = shown.iloc[0]
    cost = f"raises the mean error by {plain_number(100 * top['rise'], 2)} percentage points"
    title = f"Most important feature: shuffling {top['feature']} {cost}"
    if top["rise"] <= ERRORS * top["spread"]:
        varies = f"\N{PLUS-MINUS SIGN} {plain_number(100 * top['spread'], 2)} over the shuffles"
        title = "No single feature is significant; the largest effect: "
        title += f"shuffling {top['feature']} {cost} ({varies})"
    elif len(shown) > 1 and not _differ_significantly(top, shown.iloc[1]):
        title = f"Most important features: shuffling {top['feature']} or {shown['feature'].iloc[1]} {cost}"
    shows = f"Bars of permutation importance of {with_noun(len(shown), 'feature')}"
    note = (
        "Features: own_ is of the task, others_ of its co-runners; seconds: solo run time; longer: "
        "own_seconds \N{MINUS SIGN} others_seconds. Error bars are one standard deviation over the shuffles."
    )
    bars = Bars(100 * shown["rise"], spread=100 * shown["spread"])
    rise = Axis("rise of the mean error (percentage points)")
    panel = Panel([bars], rise, Axis("feature", shown["feature"].tolist()))
    return draw_chart(Words("importance", title, shows, note), [panel], (8.4, 1.1 + 0.21 * len(shown)))


def _differ_significantly(first: pd.Series, second: pd.Series) -> bool:
    return bool(first["rise"] - second["rise"] > ERRORS * np.hypot(first["spread"], second["spread"]))


def seconds_chart(online: OnlineScores, repeats: Repeatability, tolerance: float) -> Chart:
    """Return a line chart of the share of predictions within a tolerance, by sampled seconds.

    Each online model has a line, of its scores of ``online.design`` only, with the standard deviation over
    the folds as error bars. `repeats` adds a line with the share of repeated measurements, if any were
    repeated. `tolerance` only labels the chart: it must be the one, as a part of 1, of the scores.
    """
    entries = pd.DataFrame([entry.model_dump() for entry in online.entries])
    rows = rows_with(entries, design=online.design)
    champion = rows_with(rows, model=online.champion).sort_values("seconds")
    first, at = champion.iloc[0], rows_with(champion, seconds=online.trained_at).iloc[0]
    title = (
        f"{percent(at['within_tolerance'], 0)} of the predictions of {online.champion} (smallest mean error) "
        f"are within {percent(tolerance, 0)} after {plain_number(at['seconds'])} s of samples, "
        f"{percent(first['within_tolerance'], 0)} after {plain_number(first['seconds'])} s"
    )
    if abs(at["within_tolerance"] - first["within_tolerance"]) <= np.hypot(at["spread"], first["spread"]):
        title += " (no significant difference)"
    held_out = "whole tasks" if online.design == "tasks" else "co-runs at random"
    note = f"Held out of training: {held_out}. Error bars are one standard deviation over the folds."
    marks: list[Mark] = []
    for style, (model, line) in enumerate(rows.sort_values("seconds").groupby("model", sort=True)):
        x = line["seconds"] * (1 + 0.02 * (style - 1.5))
        marks.append(Line(str(model), x, line["within_tolerance"], style, spread=line["spread"]))
    if repeats.within_tolerance is not None:
        marks.append(ValueLine("repeated measurements", y=repeats.within_tolerance))
    ticks = {second: plain_number(second) for second in sorted(rows["seconds"].unique())}
    seconds = Axis("sampled seconds of solo run and co-run (log scale)", ticks=ticks, log=True)
    within = Axis(f"within {percent(tolerance, 0)} of the measured impact", percent=True)
    panel = Panel(marks, seconds, within)
    words = Words("seconds", title, "Line chart of accuracy by sampled seconds, a line per model", note)
    return draw_chart(words, [panel], (8.4, 4.0))


def placement_chart(check: PlacementCheck) -> Chart:
    """Return a histogram of the total seconds of random placements, with the chosen, the best and the worst.

    Predictions choose the chosen placement, measurements the best and the worst; all seconds are measured.
    """
    saved = f"{check.random.mean() - check.chosen:.1f} s ({percent(check.chosen_saving)}) of run time"
    title = (
        f"Placement of {check.tasks} tasks by predictions for held-out pairs saves {saved} against random "
        f"placements; the best possible placement saves {percent(check.best_saving)}"
    )
    note = (
        "Run times are sums over measured pairs. The best placement can be known only if all pairs are "
        "measured; the placement by predictions needs solo runs and a model."
    )
    marks: list[Mark] = [
        Histogram(check.random, "at random"),
        ValueLine("chosen by predictions", check.chosen, colour=FAIL, dash="-", width=2),
        ValueLine("best possible", check.best, colour=INK, dash="--", width=2),
        ValueLine("worst possible", check.worst, colour=INK, width=2),
    ]
    seconds = Axis("run time of all tasks, two to a machine (s)")
    panel = Panel(marks, seconds, Axis(f"random placements (of {len(check.random):,})"))
    shows = "Histogram of the total run time of random placements"
    return draw_chart(Words("placements-random", title, shows, note), [panel], (8.4, 3.6))
