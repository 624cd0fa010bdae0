"""perfjudge, other tools, fixed rules and the engineers on comparisons that engineers judged."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer

from benchmarks.human_labels import cases as scoring
from benchmarks.human_labels import models
from benchmarks.human_labels.cases import ALARMS, Cases, Curve, Engineer, Judge, VerdictRates, View
from benchmarks.human_labels.models import PipelineRun, run_pipeline
from benchmarks.human_labels.reference_tools import TOOLS, Tool, ToolAnswer, run_tool
from benchmarks.sap_hana import SAP_HANA
from benchmarks.table import Table, load_note, publish
from data.comparisons.params import Comparisons, LabelRules
from data.comparisons.sides import Sides
from data.errors import InputError
from data.params import load
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
AS_ONE_GETS_IT = """
- Figures count the verdicts of all test folds; ± is the balanced accuracy's deviation over them.
- Models have parameters and thresholds from inside each training part; tools and rules their defaults.
- Seconds of the processor: of models for vectors and probabilities (from 1,000), of tools for theirs.
"""
AS_CHOSEN = """
- Threshold from other folds: models have theirs from inside the training part.
- The best threshold is chosen on the very cases told, one for all folds, in everyone's favour; for tools, so
  is how near to the boundary a point has to be (0 to 5 versions).
- Average precision is the mean over the folds; what is missed at so many false alarms, at one threshold.
"""
SHOWN = """
- Everybody sees history, baseline and target of a comparison and nothing after it; the tools see the medians
  of its versions, 55 at most.
"""
IN_HINDSIGHT = "\n- The tools see the medians of the whole series, and so what came after."
POINTS = """
- A change point within 5 versions of the boundary fails a comparison if the samples' median got worse there,
  10 versions before against 5 after: the rule that gives labels their direction.
"""
ENGINEER_NOTES = """
- The truth of a row is the consensus of the others, computed as the labels are; an engineer fails a boundary
  by a mark within 5 versions of it at which the median got worse.
- Best first, chosen on these very cases.
- perfjudge learned from everybody's consensus, the row's engineer's too, never from a series it judges.
"""
CACHE = Path(".studies/human-labels")
IMAGE = Path("docs/images/human-labels.png")
LEAST, MOST = 2e-4, 0.2


@dataclass(frozen=True)
class PageText:
    title: str
    cases: Cases
    judges: Sequence[Judge]
    notes: str

    def tables(self) -> list[Table]:
        """Return two tables of scores: at the default settings, and at chosen thresholds."""
        fixed, chosen = [], []
        for judge in self.judges:
            about, rates = (judge.name, judge.kind), scoring.verdict_rates(self.cases, judge.judged)
            fixed.append((*about, judge.setting, *rates, judge.seconds))
            if judge.score is not None:
                honest = rates
                if judge.kind != "model":
                    honest = scoring.rates_from_other_folds(self.cases, judge.score)
                precision = scoring.average_precision(self.cases, judge.score)
                miss_rates = map(Curve.of(self.cases.failed, judge.score).false_negative_rate_at, ALARMS)
                best = self.rates_at_best(judge)
                chosen.append((*about, honest.balanced, honest.spread, *best, *precision, *miss_rates))
        fixed.sort(key=lambda row: -row[3])
        chosen.sort(key=lambda row: -row[4])
        return [
            Table(f"{self.title}: at the setting one gets", FIXED, fixed, self.notes + AS_ONE_GETS_IT),
            Table(f"{self.title}: at chosen thresholds", CHOSEN, chosen, self.notes + AS_CHOSEN),
        ]

    @property
    def champion(self) -> Judge:
        candidates = [judge for judge in self.judges if judge.kind == "model"]
        return max(candidates, key=lambda judge: scoring.verdict_rates(self.cases, judge.judged).balanced)

    def rates_at_best(self, judge: Judge) -> VerdictRates:
        return scoring.rates_at_best_cut(self.cases, judge.score)

    def best_judges(self, *, variants: bool) -> dict[tuple[str, str], Judge]:
        """Return the judge of each kind that is best at its best threshold; `variants`: and of each tool."""
        best: dict[tuple[str, str], Judge] = {}
        scored = [judge for judge in self.judges if judge.score is not None]
        for judge in sorted(scored, key=lambda judge: -self.rates_at_best(judge).balanced):
            tool = judge.name.split(",")[0] if variants and judge.kind == "tool" else ""
            best.setdefault((judge.kind, tool), judge)
        return best

    def headline(self) -> str:
        best = (
            f"{judge.name} ({kind}) {self.rates_at_best(judge).balanced:.3f}"
            for (kind, _), judge in sorted(self.best_judges(variants=False).items())
        )
        return f"Best of each kind at its best threshold: {', '.join(best)}."


def engineer_table(engineers: list[Engineer], cases: Cases, judge: Judge, notes: str) -> Table:
    reported = [engineer for engineer in engineers if engineer.is_reported]
    reported.sort(key=lambda engineer: -engineer.engineer_rates.balanced)
    rows = []
    for engineer in (scoring.pool_engineers(engineers), *reported):
        balanced, _, *wrong = engineer.engineer_rates
        here, other = engineer.limited_to(cases, judge.judged)
        there, _, *wrong_there = other.engineer_rates
        counts = len(engineer.failed), int(engineer.failed.sum())
        shared = int(here.failed.sum()), here.engineer_rates.balanced, there
        rows.append((engineer.name, *counts, balanced, *wrong, *shared, *wrong_there))
    few = len(engineers) - len(reported)
    last = f"\n- {few} engineers with too few boundaries or fails are in the first row only." if few else ""
    title = "The engineers, each beside the consensus of the others"
    return Table(title, PEOPLE, rows, notes + last)


def draw_views(views: Sequence[PageText], engineers: list[Engineer]) -> None:
    """Draw misses against false alarms: the best model, the best rule, and the best variant of every tool."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4 * len(views), 5.6), layout="constrained")
    for axes, view in zip(figure.subplots(1, len(views), squeeze=False)[0], views, strict=True):
        for number, judge in enumerate(view.best_judges(variants=True).values()):
            _draw_curve(axes, view, judge, f"C{number}")
        _draw_engineers(axes, engineers)
        axes.set(xscale="log", xlim=(LEAST, MOST), ylim=(-0.015, 1.02), title=view.title)
        axes.set(xlabel="false alarms, share of the passes", ylabel="missed, share of the fails")
        axes.xaxis.set_major_formatter(lambda share, _: f"{share:.1%}" if share < 0.01 else f"{share:.0%}")  # noqa: PLR2004
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axes.grid(alpha=0.3)
        axes.legend(loc="upper right", fontsize=8, framealpha=0.9)
    with replacing(IMAGE) as target:
        figure.savefig(target, dpi=110, format="png")


def _draw_curve(axes: Axes, view: PageText, judge: Judge, colour: str) -> None:
    curve = Curve.of(view.cases.failed, judge.score)
    name, width = (f"perfjudge, {judge.name}", 2.4) if judge.kind == "model" else (judge.name, 1.3)
    drawn = np.maximum(curve.false_positive_rate, LEAST / 2)
    axes.step(drawn, curve.false_negative_rate, where="post", color=colour, lw=width, label=name)
    *_, miss_rate, alarms = scoring.verdict_rates(view.cases, judge.judged)
    axes.plot([max(alarms, LEAST)], [miss_rate], "s", color=colour, ms=7, mec="black", clip_on=False)


def _draw_engineers(axes: Axes, engineers: list[Engineer]) -> None:
    for engineer in (engineer for engineer in engineers if engineer.is_reported):
        *_, miss_rate, alarms = engineer.engineer_rates
        at, size = (max(alarms, LEAST), miss_rate), 25 + 2 * engineer.failed.sum()
        axes.scatter(*at, s=size, color="0.35", alpha=0.55, zorder=3, clip_on=False)
        axes.annotate(engineer.name, at, fontsize=7, ha="center", va="center", color="white", zorder=4)
    *_, miss_rate, alarms = scoring.pool_engineers(engineers).engineer_rates
    axes.plot([alarms], [miss_rate], "X", color="black", ms=9, label="all engineers together")
    axes.plot([], [], "o", color="0.35", alpha=0.55, label="an engineer against the others; size: fails")
    axes.plot([], [], "s", color="white", mec="black", label="at the setting one gets")


def judged_view(
    title: str, view: View, *, cases: Cases, tools: Sequence[Tool], cache: Path, jobs: int
) -> PageText:
    """Return a view with all tools as judges; tools that fail are named in its notes."""

    def answers_or_error(tool: Tool) -> list[ToolAnswer] | InputError:
        try:
            return run_tool(tool, view, cache)
        except InputError as error:
            return error

    with ThreadPoolExecutor(jobs) as threads:
        answers = list(threads.map(answers_or_error, tools))
    judges, versions = [], []
    for tool, tool_answers in zip(tools, answers, strict=True):
        if isinstance(tool_answers, InputError):
            versions.append(f"{tool.name} is left out: {tool_answers}")
            continue
        versions.append(f"{tool.name} {tool_answers[0].version}")
        for answer in tool_answers:
            judged = np.asarray(~np.isnan(view.evidence(answer.fixed)).all(axis=1))
            reach, score = scoring.best_reach(cases, view.evidence(answer.varied))
            setting = f"its default; within {view.rules.match_window} versions (best: {reach})"
            name = f"{tool.name}, {answer.way}"
            judges.append(Judge(name, "tool", setting, judged, score, answer.seconds))
    return PageText(title, cases, judges, f"{POINTS}- Tools: {', '.join(versions)}.")


def score_views(
    run: PipelineRun, later: PipelineRun, tools: Sequence[Tool], *, cache: Path, jobs: int
) -> tuple[PageText, PageText]:
    """Return the online view and the view in hindsight; features of `later` use versions after the target."""
    build_view = partial(judged_view, cases=run.cases, tools=tools, cache=cache, jobs=jobs)
    comparisons, rules, series = run.tables.comparisons, LabelRules(), scoring.series_of(run.tables.results)
    online = build_view("What is known online", scoring.online_view(series, comparisons, rules))
    judges = [*run.judges(), *scoring.rule_judges(Sides.from_tables(run.tables)), *online.judges]
    online = replace(online, judges=judges, notes=SHOWN + online.notes)
    whole = scoring.hindsight_view(series, comparisons, rules)
    hindsight = build_view("Whole series in hindsight", whole)
    if later.cases.ids != run.cases.ids or (later.cases.fold != run.cases.fold).any():
        raise InputError("the retrospective models were judged on other comparisons or folds")
    ours = [replace(online.champion, name=f"{online.champion.name}, without hindsight")]
    ours += [replace(judge, name=f"{judge.name}, retrospective") for judge in later.judges()]
    judges, notes = [*ours, *hindsight.judges], IN_HINDSIGHT + hindsight.notes
    return online, replace(hindsight, judges=judges, notes=notes)


def main(path: Path = SAP_HANA, cache: Path = CACHE, jobs: int = 2) -> None:
    """Compute what is not known yet, print the tables, and write the page and the picture."""
    if not (path / "annotations.json").is_file():
        sys.stderr.write(f"skipped: no {path}/annotations.json; --path names the data set sap-hana\n")
        return
    configured = load(Comparisons, models.ROOT / "params.yaml").section.featurize.feature_set
    run, later = (run_pipeline(path, cache, chosen, jobs) for chosen in (configured, "retrospective"))
    write_page(path, run, score_views(run, later, TOOLS, cache=cache, jobs=jobs))


def write_page(path: Path, run: PipelineRun, views: Sequence[PageText]) -> None:
    engineers = scoring.compare_engineers(path, scoring.series_of(run.tables.results), LabelRules())
    about, champion, tables = f"\n- {run.about(path)}", views[0].champion, []
    for view in views:
        notes = f"{about}\n- {view.headline()}{view.notes}\n- {load_note()}"
        tables += replace(view, notes=notes).tables()
    people_notes = f"""{about}{ENGINEER_NOTES}
    - perfjudge: {champion.name}, out of fold, thresholds from inside, where both have the boundary.
    - ![Misses against false alarms](../{IMAGE.as_posix().removeprefix("docs/")})
    """
    publish("human-labels", [*tables, engineer_table(engineers, run.cases, champion, people_notes)])
    draw_views(views, engineers)


if __name__ == "__main__":
    typer.run(main)
