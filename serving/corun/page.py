"""What the page about co-runs holds: the figures and the table of seed 002, from whatever data was given."""

from __future__ import annotations

from pathlib import Path

from serving.corun.advice import advice
from serving.corun.charts import importance_chart, placement_chart, residual_chart, seconds_chart
from serving.corun.evaluated import EvaluatedCoruns
from serving.corun.measured_charts import events_chart, heat_map, times_chart, trend_chart
from serving.corun.placement_check import check
from serving.pages.charts import Chart
from serving.pages.papers import CORUN
from serving.pages.render import render

#: Number, chart, and what to say where it cannot be drawn.
Figure = tuple[str, Chart | None, str]
#: What each way to divide says, and which sentence names it.
DESIGNS = {
    "random": "At random (the co-run paper's split): the other direction of a pair may have been seen",
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
    given = EvaluatedCoruns.read(root)
    metrics, repeats = given.metrics, given.metrics.repeatability
    checked = check(*given.unseen, given.solo_seconds, metrics.seed)
    return render(
        "corun.html",
        given=given,
        metrics=metrics,
        splits=[(name, DESIGNS.get(name, name), split) for name, split in metrics.splits.items()],
        table_1=given.seeds_cells(),
        measured=measured_figures(given),
        residuals=residual_figures(given),
        importance=importance_chart(given.importance),
        removed=given.removed.to_dict("records"),
        seconds=metrics.online and seconds_chart(metrics.online, repeats, metrics.tolerance),
        check=checked,
        placements=checked and placement_chart(checked),
        run=given.placements,
        points=list(advice(given, checked)),
        papers=[CORUN],
    )


def measured_figures(given: EvaluatedCoruns) -> list[Figure]:
    """Draw figures 1 to 3 and the heat map."""
    return [
        ("Figure 1 of the co-run paper", times_chart(given), "No task ran beside two others."),
        ("All pairs", heat_map(given), "No pairs were measured."),
        ("Figure 2 of the co-run paper", events_chart(given), "This data has no events of co-runs."),
        ("Figure 3 of the co-run paper", trend_chart(given), "This data has no samples."),
    ]


def residual_figures(given: EvaluatedCoruns) -> list[Figure]:
    """Draw figures 4 and 5."""
    champion, online = given.metrics.champion, given.metrics.online
    sampled = "Online model" if online is None else f"Online model ({online.champion})"
    figure_4 = residual_chart("figure-4", given.online_residuals, sampled)
    figure_5 = residual_chart("figure-5", given.residuals, f"Static model ({champion})")
    return [
        ("Figure 4 of the co-run paper", figure_4, "This data has no samples, hence no online model."),
        ("Figure 5 of the co-run paper", figure_5, "No residuals were kept."),
    ]
