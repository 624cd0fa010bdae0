"""Content of the report on co-runs: figures and table of seed 002, for the given data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from serving.corun.charts import (
    events_chart,
    heat_map,
    importance_chart,
    placement_chart,
    residual_chart,
    seconds_chart,
    times_chart,
    trend_chart,
)
from serving.corun.evaluated import Check, EvaluatedCoruns, check
from serving.reports.charts import Chart, percent
from serving.reports.rendering import CORUN, render

#: Descriptions of the evaluation designs.
_UNSEEN = {
    "random": "pairs whose other direction was measured",
    "pairs": "pairs that never ran together",
    "pairs-on-machine": "pairs that never ran together on that machine",
    "tasks": "tasks that never ran beside others",
    "machines": "machines on which nothing was measured",
}
#: Intervals that hold so much less than they are meant to are too narrow.
_SHORT = 0.05


def advice(given: EvaluatedCoruns, checked: Check | None) -> Iterator[str]:
    """Yield sentences for the person who must act."""
    metrics = given.metrics
    own = {name: split.entries[metrics.champion] for name, split in metrics.splits.items()}
    worth = {name: entry for name, entry in own.items() if (entry.r2.pooled or 0) > 0}
    useless = [_UNSEEN.get(name, name) for name in own if name not in worth]
    covered = own[metrics.main].coverage.pooled or 0.0
    held = (
        f"{'Take' if covered >= metrics.confidence - _SHORT else 'Do not take'} its intervals at their word: "
        f"{percent(covered)} held, {percent(metrics.confidence, 0)} were meant to."
    )
    if metrics.main in worth:
        yield (
            f"Ask the static model about {_UNSEEN.get(metrics.main, metrics.main)}: "
            f"{percent(own[metrics.main].within_tolerance.pooled)} of its answers come within "
            f"{percent(metrics.tolerance, 0)}. {held}"
        )
    if useless:
        yield (
            f"Do not rely on it for {' or '.join(useless)}: there it explains nothing (R² is not above "
            f"0), and the mean impact is as good a guess."
        )
    if given.impacts.notna().any(axis=None):
        yield _apart(given)
    if checked:
        yield _placed(checked, metrics.repeatability.solo_spread)
    yield _noise(metrics.repeatability.mape, own[metrics.main].mape.pooled)


def _apart(given: EvaluatedCoruns) -> str:
    task, other = given.strongest
    slower = percent(float(given.impacts.loc[task, other]) - 1, 0)
    typical = percent(float(given.impacts.stack().median()) - 1)
    return f"Keep {task} away from {other}, which makes it {slower} slower; the median pair costs {typical}."


def _placed(checked: Check, noise: float | None) -> str:
    """Describe the time saved by placement, compared with the variation of solo runs."""
    saved = f"Placing all tasks by predictions saves {percent(checked.saving)} of run time"
    if noise is not None and checked.saving <= noise:
        return (
            f"{saved}, no more than solo runs of one task differ ({percent(noise)}): on such tasks it "
            f"hardly pays."
        )
    return f"{saved}, of {percent(checked.possible)} that could be saved: let `perfjudge corun place` do it."


def _noise(repeats: float | None, error: float | None) -> str:
    if repeats is None or error is None:
        return "Measure some co-runs twice: without that nobody knows how much of the error is noise."
    if error <= repeats:
        return (
            f"Measure longer or on a quieter machine before you look for a better model: its mean error "
            f"({percent(error)}) is no larger than that of a second measurement ({percent(repeats)})."
        )
    return (
        f"A better model can still be found: a second measurement comes nearer ({percent(repeats)} mean "
        f"error) than the model ({percent(error)})."
    )


#: Number, chart, and what to say where it cannot be drawn.
Figure = tuple[str, Chart | None, str]
#: Meaning of each evaluation design, and its sentence.
DESIGNS = {
    "random": "At random (the co-run paper's split): the other direction of a pair may have been seen",
    "pairs": "Pairs never seen, in neither direction",
    "pairs-on-machine": "Pairs never seen on that machine, perhaps on others",
    "tasks": "Tasks never seen: both the task and its co-runner",
    "machines": "Machines never seen",
}


def page(root: Path) -> str:
    """Return the page for the files under `root`, as one self-contained HTML text."""
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
