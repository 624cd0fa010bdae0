"""perfjudge, other tools, fixed rules and the engineers on comparisons that engineers judged.

Run it with ``python -m benchmarks.human_labels``; it writes ``docs/results/human-labels.md`` and
``docs/images/human-labels.png``. The data set is not shipped; without it, the command prints that and ends.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import typer

from benchmarks.human_labels import models
from benchmarks.human_labels.cases import (
    ALARMS,
    Cases,
    Curve,
    Engineer,
    Judge,
    VerdictRates,
    View,
    average_precision,
    best_reach,
    compare_engineers,
    hindsight_view,
    online_view,
    pool_engineers,
    rates_at_best_cut,
    rates_from_other_folds,
    rule_judges,
    series_of,
    verdict_rates,
)
from benchmarks.human_labels.models import PipelineRun
from benchmarks.human_labels.reference_tools import TOOLS, Tool, ToolAnswer, run_tool
from benchmarks.table import Table, load_average, load_note, publish
from data.comparisons.params import LabelRules
from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from data.tables.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIXED = {
    "judge": "", "kind": "", "setting": "", "balanced accuracy": ".3f", "± over folds": ".3f",
    "missed fails": ".1%", "false alarms": ".2%", "processor seconds": ".1f",
}  # fmt: skip
CHOSEN = {
    "judge": "", "kind": "", "threshold from other folds": ".3f", "± over folds": ".3f",
    "at the best threshold": ".3f", "± over folds then": ".3f", "missed fails then": ".1%",
    "false alarms then": ".2%", "average precision": ".3f", "± of it over folds": ".3f",
    **{f"missed at {share:.1%} false alarms": ".1%" for share in ALARMS},
}  # fmt: skip
PEOPLE = {
    "engineer": "", "boundaries": "d", "fails": "d", "balanced accuracy": ".3f", "missed fails": ".1%",
    "false alarms": ".2%", "fails judged by both": "d", "engineer there": ".3f", "perfjudge there": ".3f",
    "perfjudge missed": ".1%", "perfjudge's false alarms": ".2%",
}  # fmt: skip
AS_ONE_GETS_IT = (
    "Figures count the verdicts of all test folds; ± is the balanced accuracy's deviation over them.",
    "Models have parameters and thresholds from inside each training part; tools and rules their defaults.",
    "Seconds of the processor: of models for vectors and probabilities (from 1,000), of tools for theirs.",
)
AS_CHOSEN = (
    "Threshold from other folds: models have theirs from inside the training part.",
    (
        "The best threshold is chosen on the very cases told, one for all folds, in everyone's favour; "
        "for tools, so is how near to the boundary a point has to be (0 to 5 versions)."
    ),
    "Average precision is the mean over the folds; what is missed at so many false alarms, at one threshold.",
)


@dataclass(frozen=True)
class PageText:
    """One view of the comparisons, its judges, and the text of its tables."""

    title: str
    cases: Cases
    judges: Sequence[Judge]
    notes: Sequence[str]

    def tables(self) -> list[Table]:
        """Return two tables of scores: at the default settings, and at chosen thresholds."""
        fixed = [
            (*_rate_cells(judge, self.cases), judge.seconds)
            for judge in self.judges
            if judge.judged is not None
        ]
        chosen = [_threshold_cells(judge, self.cases) for judge in self.judges if judge.score is not None]
        titles = f"{self.title}: at the setting one gets", f"{self.title}: at chosen thresholds"
        return [
            Table(titles[0], FIXED, _best_first(fixed, 3), [*self.notes, *AS_ONE_GETS_IT]),
            Table(titles[1], CHOSEN, _best_first(chosen, 4), [*self.notes, *AS_CHOSEN]),
        ]

    @property
    def champion(self) -> Judge:
        """The model with the highest balanced accuracy at thresholds from inside the training part."""
        candidates = [judge for judge in self.judges if judge.kind == "model" and judge.judged is not None]
        return max(candidates, key=lambda judge: verdict_rates(self.cases, np.asarray(judge.judged)).balanced)

    def best_of(self, kind: str) -> Judge:
        """Return the judge of a kind with the highest balanced accuracy at the best threshold."""
        candidates = [judge for judge in self.judges if judge.kind == kind and judge.score is not None]
        return max(candidates, key=lambda judge: self.score_at_best(judge).balanced)

    def score_at_best(self, judge: Judge) -> VerdictRates:
        """Score a judge at its best threshold."""
        assert judge.score is not None
        return rates_at_best_cut(self.cases, judge.score)


def _rate_cells(judge: Judge, cases: Cases) -> tuple[object, ...]:
    assert judge.judged is not None
    rates = verdict_rates(cases, judge.judged)
    return (
        judge.name,
        judge.kind,
        judge.setting,
        rates.balanced,
        rates.spread,
        rates.false_negative_rate,
        rates.false_positive_rate,
    )


def _threshold_cells(judge: Judge, cases: Cases) -> tuple[object, ...]:
    assert judge.score is not None
    if judge.inside and judge.judged is not None:
        honest = verdict_rates(cases, judge.judged)
    else:
        honest = rates_from_other_folds(cases, judge.score)
    top, curve = rates_at_best_cut(cases, judge.score), Curve.of(cases.failed, judge.score)
    rates = (
        honest.balanced,
        honest.spread,
        top.balanced,
        top.spread,
        top.false_negative_rate,
        top.false_positive_rate,
    )
    false_negative_rates = (curve.false_negative_rate_at(share) for share in ALARMS)
    return judge.name, judge.kind, *rates, *average_precision(cases, judge.score), *false_negative_rates


def _best_first(rows: list[tuple[object, ...]], column: int) -> list[tuple[object, ...]]:
    return sorted(rows, key=lambda row: -float(str(row[column])))


def engineer_table(engineers: list[Engineer], cases: Cases, judge: Judge, notes: Sequence[str]) -> Table:
    reported = sorted(
        (engineer for engineer in engineers if engineer.is_reported),
        key=lambda engineer: -engineer.engineer_rates.balanced,
    )
    few = len(engineers) - len(reported)
    rows = [_engineer_row(engineer, cases, judge) for engineer in (pool_engineers(engineers), *reported)]
    last = f"{few} engineers with too few boundaries or fails are in the first row only." if few else ""
    title = "The engineers, each beside the consensus of the others"
    return Table(title, PEOPLE, rows, [*notes, *filter(None, [last])])


def _engineer_row(engineer: Engineer, cases: Cases, judge: Judge) -> tuple[object, ...]:
    assert judge.judged is not None
    rates, (here, other) = engineer.engineer_rates, engineer.limited_to(cases, judge.judged)
    shared_rates = (
        here.engineer_rates.balanced,
        other.engineer_rates.balanced,
        other.engineer_rates.false_negative_rate,
        other.engineer_rates.false_positive_rate,
    )
    counts = len(engineer.failed), int(engineer.failed.sum())
    return (
        engineer.name,
        *counts,
        rates.balanced,
        rates.false_negative_rate,
        rates.false_positive_rate,
        int(here.failed.sum()),
        *shared_rates,
    )


def headline_note(view: PageText) -> str:
    kinds = sorted({judge.kind for judge in view.judges if judge.score is not None})
    best_judges = (
        f"{top.name} ({kind}) {view.score_at_best(top).balanced:.3f}"
        for kind in kinds
        for top in [view.best_of(kind)]
    )
    return f"Best of each kind at its best threshold: {', '.join(best_judges)}."


LEAST, MOST = 2e-4, 0.2


def draw_views(views: Sequence[PageText], engineers: list[Engineer], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4 * len(views), 5.6), layout="constrained")
    for axes, view in zip(figure.subplots(1, len(views), squeeze=False)[0], views, strict=True):
        _draw_panel(axes, view, engineers)
    with replacing(path) as target:
        figure.savefig(target, dpi=110, format="png")


def best_of_each(view: PageText) -> list[Judge]:
    """Return the best model, the best rule and the best variant of every tool, each at its best threshold."""
    ranked = [judge for judge in view.judges if judge.score is not None]
    groups = {
        (judge.kind, judge.name.split(",")[0]) if judge.kind == "tool" else (judge.kind, ""): judge
        for judge in ranked
    }
    of_group = {
        group: max(
            (judge for judge in ranked if judge.kind == group[0] and judge.name.startswith(group[1])),
            key=lambda judge: view.score_at_best(judge).balanced,
        )
        for group in groups
    }
    return sorted(of_group.values(), key=lambda judge: -view.score_at_best(judge).balanced)


def _draw_panel(axes: Axes, view: PageText, engineers: list[Engineer]) -> None:
    for number, judge in enumerate(best_of_each(view)):
        _draw_curve(axes, view, judge, f"C{number}")
    _draw_engineers(axes, engineers)
    axes.set(xscale="log", xlim=(LEAST, MOST), ylim=(-0.015, 1.02), title=view.title)
    axes.set(xlabel="false alarms, share of the passes", ylabel="missed, share of the fails")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.1%}" if value < 0.01 else f"{value:.0%}")  # noqa: PLR2004
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right", fontsize=8, framealpha=0.9)


def _draw_curve(axes: Axes, view: PageText, judge: Judge, colour: str) -> None:
    assert judge.score is not None
    curve = Curve.of(view.cases.failed, judge.score)
    width = 2.4 if judge.kind == "model" else 1.3
    name = f"perfjudge, {judge.name}" if judge.kind == "model" else judge.name
    drawn = np.maximum(curve.false_positive_rate, LEAST / 2)
    axes.step(drawn, curve.false_negative_rate, where="post", color=colour, lw=width, label=name)
    if judge.judged is not None:
        rates = verdict_rates(view.cases, judge.judged)
        axes.plot(
            [max(rates.false_positive_rate, LEAST)],
            [rates.false_negative_rate],
            "s",
            color=colour,
            ms=7,
            mec="black",
            clip_on=False,
        )


def _draw_engineers(axes: Axes, engineers: list[Engineer]) -> None:
    reported = [engineer for engineer in engineers if engineer.is_reported]
    for engineer in reported:
        rates = engineer.engineer_rates
        at = max(rates.false_positive_rate, LEAST), rates.false_negative_rate
        axes.scatter(*at, s=25 + 2 * engineer.failed.sum(), color="0.35", alpha=0.55, zorder=3, clip_on=False)
        axes.annotate(engineer.name, at, fontsize=7, ha="center", va="center", color="white", zorder=4)
    everybody = pool_engineers(engineers).engineer_rates
    axes.plot(
        [everybody.false_positive_rate],
        [everybody.false_negative_rate],
        "X",
        color="black",
        ms=9,
        label="all engineers together",
    )
    axes.plot([], [], "o", color="0.35", alpha=0.55, label="an engineer against the others; size: fails")
    axes.plot([], [], "s", color="white", mec="black", label="at the setting one gets")


CACHE = Path(".studies/human-labels")
IMAGE = Path("docs/images/human-labels.png")
WINDOWED = "What is known online"
WHOLE = "Whole series in hindsight"
SHOWN = (
    "Everybody sees history, baseline and target of a comparison and nothing after it; "
    "the tools see the medians of its versions, 55 at most."
)
IN_HINDSIGHT = "The tools see the medians of the whole series, and so what came after."
POINTS = (
    "A change point within 5 versions of the boundary fails a comparison if the samples' median got worse "
    "there, 10 versions before against 5 after: the rule that gives labels their direction."
)
ENGINEER_NOTES = (
    (
        "The truth of a row is the consensus of the others, computed as the labels are; an engineer fails a "
        "boundary by a mark within 5 versions of it at which the median got worse."
    ),
    "Best first, chosen on these very cases.",
    "perfjudge learned from everybody's consensus, the row's engineer's too, never from a series it judges.",
)


def tool_judges(
    tools: Sequence[Tool], view: View, cases: Cases, *, cache: Path, jobs: int
) -> tuple[list[Judge], list[str]]:

    def answers_or_error(tool: Tool) -> list[ToolAnswer] | InputError:
        try:
            return run_tool(tool, view, cache)
        except InputError as error:
            return error

    with ThreadPoolExecutor(jobs) as threads:
        answers = list(threads.map(answers_or_error, tools))
    judges, notes = [], []
    for tool, answer in zip(tools, answers, strict=True):
        if isinstance(answer, InputError):
            notes.append(f"{tool.name} is left out: {answer}")
        else:
            judges += [_tool_judge(tool, tool_answer, view, cases) for tool_answer in answer]
            notes.append(f"{tool.name} {answer[0].version}")
    return judges, notes


def _tool_judge(tool: Tool, answer: ToolAnswer, view: View, cases: Cases) -> Judge:
    judged = np.asarray(~np.isnan(view.evidence(answer.fixed)).all(axis=1))
    reach, score = best_reach(cases, view.evidence(answer.varied))
    setting = f"its default; within {view.rules.match_window} versions (best: {reach})"
    return Judge(f"{tool.name}, {answer.way}", "tool", setting, judged, score, seconds=answer.seconds)


def _comparisons(tables: ComparisonTables, cases: Cases) -> pd.DataFrame:
    return tables.comparisons.set_index("comparison_id").loc[list(cases.ids)].reset_index()


def _compared_sides(tables: ComparisonTables, cases: Cases) -> Sides:
    return Sides.from_tables(ComparisonTables(tables.results, _comparisons(tables, cases), tables.labels))


def score_views(
    run: PipelineRun,
    later: PipelineRun | None,
    tools: Sequence[Tool],
    *,
    cache: Path,
    jobs: int,
) -> tuple[PageText, PageText]:
    """Score all judges in both views.

    Returns the online view, then the view in hindsight. The features of `later` use versions after the
    target; None where such features do not exist.
    """
    build_view = partial(_judged_view, cases=run.cases, tools=tools, cache=cache, jobs=jobs)
    tables, cases, how = run.tables, run.cases, LabelRules()
    series, comparisons, sides = (
        series_of(tables.results),
        _comparisons(tables, cases),
        _compared_sides(tables, cases),
    )
    online = build_view(WINDOWED, online_view(series, comparisons, how))
    online = replace(
        online,
        judges=[*run.judges(sides), *rule_judges(sides, pd.Index(cases.ids), cases), *online.judges],
        notes=[SHOWN, *online.notes],
    )
    hindsight = build_view(WHOLE, hindsight_view(series, comparisons, how))
    our_judges = [replace(online.champion, name=f"{online.champion.name}, without hindsight")]
    our_judges += [] if later is None else _in_hindsight(later, cases)
    lack = ["perfjudge has no features that look past the target here."] if later is None else []
    notes = [IN_HINDSIGHT, *lack, *hindsight.notes]
    return online, replace(hindsight, judges=[*our_judges, *hindsight.judges], notes=notes)


def _judged_view(title: str, view: View, *, tools: Sequence[Tool], cases: Cases, **how: Any) -> PageText:
    judges, versions = tool_judges(tools, view, cases, **how)
    return PageText(title, cases, judges, [POINTS, f"Tools: {', '.join(versions)}."])


def _in_hindsight(run: PipelineRun, cases: Cases) -> list[Judge]:
    if run.cases.ids != cases.ids or (run.cases.fold != cases.fold).any():
        raise InputError("the retrospective models were judged on other comparisons or folds")
    judges = run.judges(_compared_sides(run.tables, run.cases))
    return [replace(judge, name=f"{judge.name}, retrospective") for judge in judges]


def main(path: Path = Path("../shared/data/sap-hana"), cache: Path = CACHE, jobs: int = 2) -> None:
    """Compute what is not known yet, print the tables, and write the page and the picture."""
    if not (path / "annotations.json").is_file():
        sys.stderr.write(
            f"skipped: {path}/annotations.json is not there; --path names the data set sap-hana\n"
        )
        return
    before = load_average()
    runs = [models.run_pipeline(path, cache, chosen, jobs) for chosen in models.feature_sets()]
    views = score_views(runs[0], next(iter(runs[1:]), None), TOOLS, cache=cache, jobs=jobs)
    write_page(path, runs[0], views, IMAGE, [load_note(before)])


def write_page(
    path: Path,
    run: PipelineRun,
    views: tuple[PageText, PageText],
    image: Path,
    extra_notes: Sequence[str] = (),
) -> None:
    everybody = compare_engineers(path, series_of(run.tables.results), LabelRules())
    about, champion = run.about(path), views[0].champion
    comparison_note = (
        f"perfjudge: {champion.name}, out of fold, thresholds from inside, where both have the boundary."
    )
    final_views = [
        replace(view, notes=[about, headline_note(view), *view.notes, *extra_notes]) for view in views
    ]
    named = image.as_posix().removeprefix("docs/")
    seen = f"![Misses against false alarms](../{named})"
    people_table = engineer_table(
        everybody, run.cases, champion, [about, *ENGINEER_NOTES, comparison_note, seen]
    )
    publish("human-labels", [*final_views[0].tables(), *final_views[1].tables(), people_table])
    draw_views(views, everybody, image)


if __name__ == "__main__":
    typer.run(main)
