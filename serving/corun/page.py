"""What the page about co-runs holds: the figures and the table of seed 002, from whatever data was given."""

from __future__ import annotations

from pathlib import Path

from serving.corun.charts import importance_chart, placement_chart, residual_chart, seconds_chart
from serving.corun.evaluated import Evaluated, Repeatability
from serving.corun.measured_charts import events_chart, heat_map, times_chart, trend_chart
from serving.corun.placement_check import check
from serving.pages.charts import Chart, counted, percent
from serving.pages.render import render

#: Number, chart, and what to say where it cannot be drawn.
Figure = tuple[str, Chart | None, str]
#: What each way to divide says, and which sentence names it.
DESIGNS = {
    "random": "At random (the seed's split): the other direction of a pair may have been seen",
    "pairs": "Pairs never seen, in neither direction",
    "pairs-on-machine": "Pairs never seen on that machine, perhaps on others",
    "tasks": "Tasks never seen: both the task and its co-runner",
    "machines": "Machines never seen",
}


def page(root: Path) -> str:
    """Return the page for the files under `root`, as one self-contained HTML text.

    Raises
    ------
    InputError
        If a file that the page cannot do without is missing or broken.
    """
    given = Evaluated.read(root)
    metrics = given.metrics
    checked = check(*given.unseen, given.solo_seconds, metrics.seed)
    return render(
        "corun.html",
        given=given,
        metrics=metrics,
        lead=lead(given),
        repeats=repeats_told(metrics.repeatability, metrics.tolerance),
        splits=[(name, DESIGNS.get(name, name), split) for name, split in metrics.splits.items()],
        table_1=given.seeds_cells(),
        measured=measured_figures(given),
        residuals=residual_figures(given),
        importance=importance_chart(given.importance),
        removed=given.removed.to_dict("records"),
        seconds=None
        if metrics.online is None
        else seconds_chart(metrics.online, metrics.repeatability, metrics.tolerance),
        check=checked,
        placements=None if checked is None else placement_chart(checked),
        run=given.placements,
    )


def lead(given: Evaluated) -> str:
    """Say in one sentence how well unseen co-runs are predicted, beside how well they repeat themselves."""
    metrics = given.metrics
    entry = metrics.splits[metrics.main].entries[metrics.champion]
    what = "pairs never seen" if metrics.main == "pairs" else f"co-runs held out ({metrics.main})"
    told = (
        f"{metrics.champion} predicts {percent(entry.within_tolerance.pooled)} of {what} within "
        f"{percent(metrics.tolerance, 0)} of the measured impact; its mean error is "
        f"{percent(entry.mape.pooled)}."
    )
    again = metrics.repeatability
    if again.within_tolerance is None or again.mape is None:
        return f"{told} Nothing was measured twice, so that nobody knows how much of it is noise."
    return (
        f"{told} Measured again, {percent(again.within_tolerance)} of the co-runs come within "
        f"{percent(metrics.tolerance, 0)}, with a mean error of {percent(again.mape)}."
    )


def repeats_told(again: Repeatability, tolerance: float) -> str:
    """Say in a few words what the measurement's own repeatability is; stands beside every accuracy."""
    scores = (again.within_tolerance, again.mape, again.p90_error, again.same_range)
    known = [percent(score) for score in scores if score is not None]
    if len(known) < len(scores):
        return "Nothing in this data was measured twice: its own repeatability is not known."
    within, mean, ninetieth, same = known
    return (
        f"The measurement's own repeatability, on {counted(again.repeated, 'repeated co-run')}: "
        f"{within} within {percent(tolerance, 0)}, {same} in the same range, mean error {mean}, "
        f"90th percentile {ninetieth}."
    )


def measured_figures(given: Evaluated) -> list[Figure]:
    """Draw figures 1 to 3 and the heat map."""
    return [
        ("Figure 1 of the seed", times_chart(given), "No task ran beside two others."),
        ("All pairs", heat_map(given), "No pairs were measured."),
        ("Figure 2 of the seed", events_chart(given), "This data has no events of co-runs."),
        ("Figure 3 of the seed", trend_chart(given), "This data has no samples."),
    ]


def residual_figures(given: Evaluated) -> list[Figure]:
    """Draw figures 4 and 5."""
    champion, online = given.metrics.champion, given.metrics.online
    sampled = "Online model" if online is None else f"Online model ({online.champion})"
    figure_4 = residual_chart("figure-4", given.online_residuals, sampled)
    figure_5 = residual_chart("figure-5", given.residuals, f"Static model ({champion})")
    return [
        ("Figure 4 of the seed", figure_4, "This data has no samples, hence no online model."),
        ("Figure 5 of the seed", figure_5, "No residuals were kept."),
    ]
