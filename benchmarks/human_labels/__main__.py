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
    View,
    Worth,
    at_best,
    average_precision,
    best_reach,
    engineers,
    from_other_folds,
    pooled,
    rule_judges,
    series_of,
    whole,
    windows,
    worth,
)
from benchmarks.human_labels.models import PipelineRun
from benchmarks.human_labels.opponents import TOOLS, Answered, Tool, ask
from benchmarks.table import Table, busy, load, publish
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
        fixed = [(*_rates(one, self.cases), one.seconds) for one in self.judges if one.judged is not None]
        chosen = [_chosen(one, self.cases) for one in self.judges if one.score is not None]
        titles = f"{self.title}: at the setting one gets", f"{self.title}: at chosen thresholds"
        return [
            Table(titles[0], FIXED, _best_first(fixed, 3), [*self.notes, *AS_ONE_GETS_IT]),
            Table(titles[1], CHOSEN, _best_first(chosen, 4), [*self.notes, *AS_CHOSEN]),
        ]

    @property
    def champion(self) -> Judge:
        """The model with the highest balanced accuracy at thresholds from inside the training part."""
        own = [one for one in self.judges if one.kind == "model" and one.judged is not None]
        return max(own, key=lambda one: worth(self.cases, np.asarray(one.judged)).balanced)

    def best_of(self, kind: str) -> Judge:
        """Return the judge of a kind with the highest balanced accuracy at the best threshold."""
        own = [one for one in self.judges if one.kind == kind and one.score is not None]
        return max(own, key=lambda one: self.top(one).balanced)

    def top(self, judge: Judge) -> Worth:
        """Score a judge at its best threshold."""
        assert judge.score is not None
        return at_best(self.cases, judge.score)


def _rates(judge: Judge, cases: Cases) -> tuple[object, ...]:
    assert judge.judged is not None
    own = worth(cases, judge.judged)
    return judge.name, judge.kind, judge.setting, own.balanced, own.spread, own.missed, own.alarms


def _chosen(judge: Judge, cases: Cases) -> tuple[object, ...]:
    assert judge.score is not None
    if judge.inside and judge.judged is not None:
        honest = worth(cases, judge.judged)
    else:
        honest = from_other_folds(cases, judge.score)
    top, curve = at_best(cases, judge.score), Curve.of(cases.failed, judge.score)
    rates = honest.balanced, honest.spread, top.balanced, top.spread, top.missed, top.alarms
    missed = (curve.missed_at(share) for share in ALARMS)
    return judge.name, judge.kind, *rates, *average_precision(cases, judge.score), *missed


def _best_first(rows: list[tuple[object, ...]], column: int) -> list[tuple[object, ...]]:
    return sorted(rows, key=lambda row: -float(str(row[column])))


def people(engineers: list[Engineer], cases: Cases, judge: Judge, notes: Sequence[str]) -> Table:
    told = sorted((one for one in engineers if one.told), key=lambda one: -one.worth.balanced)
    few = len(engineers) - len(told)
    rows = [_person(one, cases, judge) for one in (pooled(engineers), *told)]
    last = f"{few} engineers with too few boundaries or fails are in the first row only." if few else ""
    title = "The engineers, each beside the consensus of the others"
    return Table(title, PEOPLE, rows, [*notes, *filter(None, [last])])


def _person(one: Engineer, cases: Cases, judge: Judge) -> tuple[object, ...]:
    assert judge.judged is not None
    own, (here, other) = one.worth, one.among(cases, judge.judged)
    there = (here.worth.balanced, other.worth.balanced, other.worth.missed, other.worth.alarms)
    counts = len(one.failed), int(one.failed.sum())
    return one.name, *counts, own.balanced, own.missed, own.alarms, int(here.failed.sum()), *there


def headline(view: PageText) -> str:
    kinds = sorted({one.kind for one in view.judges if one.score is not None})
    said = (
        f"{top.name} ({kind}) {view.top(top).balanced:.3f}" for kind in kinds for top in [view.best_of(kind)]
    )
    return f"Best of each kind at its best threshold: {', '.join(said)}."


LEAST, MOST = 2e-4, 0.2


def draw(views: Sequence[PageText], engineers: list[Engineer], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4 * len(views), 5.6), layout="constrained")
    for axes, view in zip(figure.subplots(1, len(views), squeeze=False)[0], views, strict=True):
        _panel(axes, view, engineers)
    with replacing(path) as target:
        figure.savefig(target, dpi=110, format="png")


def best_of_each(view: PageText) -> list[Judge]:
    """Return the best model, the best rule and the best variant of every tool, each at its best threshold."""
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


def _panel(axes: Axes, view: PageText, engineers: list[Engineer]) -> None:
    for number, judge in enumerate(best_of_each(view)):
        _curve(axes, view, judge, f"C{number}")
    _people(axes, engineers)
    axes.set(xscale="log", xlim=(LEAST, MOST), ylim=(-0.015, 1.02), title=view.title)
    axes.set(xlabel="false alarms, share of the passes", ylabel="missed, share of the fails")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.1%}" if value < 0.01 else f"{value:.0%}")  # noqa: PLR2004
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right", fontsize=8, framealpha=0.9)


def _curve(axes: Axes, view: PageText, judge: Judge, colour: str) -> None:
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
PEOPLE_SAID = (
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

    def asked(tool: Tool) -> list[Answered] | InputError:
        try:
            return ask(tool, view, cache)
        except InputError as error:
            return error

    with ThreadPoolExecutor(jobs) as threads:
        answers = list(threads.map(asked, tools))
    judges, notes = [], []
    for tool, answer in zip(tools, answers, strict=True):
        if isinstance(answer, InputError):
            notes.append(f"{tool.name} is left out: {answer}")
        else:
            judges += [_tool_judge(tool, one, view, cases) for one in answer]
            notes.append(f"{tool.name} {answer[0].version}")
    return judges, notes


def _tool_judge(tool: Tool, answer: Answered, view: View, cases: Cases) -> Judge:
    judged = np.asarray(~np.isnan(view.evidence(answer.fixed)).all(axis=1))
    reach, score = best_reach(cases, view.evidence(answer.varied))
    setting = f"its default; within {view.rules.within} versions (best: {reach})"
    return Judge(f"{tool.name}, {answer.way}", "tool", setting, judged, score, seconds=answer.seconds)


def _comparisons(tables: ComparisonTables, cases: Cases) -> pd.DataFrame:
    return tables.comparisons.set_index("comparison_id").loc[list(cases.ids)].reset_index()


def _judged(tables: ComparisonTables, cases: Cases) -> Sides:
    return Sides.of(ComparisonTables(tables.results, _comparisons(tables, cases), tables.labels))


def study(
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
    asked = partial(_told_view, cases=run.cases, tools=tools, cache=cache, jobs=jobs)
    tables, cases, how = run.tables, run.cases, LabelRules()
    series, comparisons, sides = (
        series_of(tables.results),
        _comparisons(tables, cases),
        _judged(tables, cases),
    )
    online = asked(WINDOWED, windows(series, comparisons, how))
    online = replace(
        online,
        judges=[*run.judges(sides), *rule_judges(sides, pd.Index(cases.ids), cases), *online.judges],
        notes=[SHOWN, *online.notes],
    )
    hindsight = asked(WHOLE, whole(series, comparisons, how))
    own = [replace(online.champion, name=f"{online.champion.name}, without hindsight")]
    own += [] if later is None else _in_hindsight(later, cases)
    lack = ["perfjudge has no features that look past the target here."] if later is None else []
    notes = [IN_HINDSIGHT, *lack, *hindsight.notes]
    return online, replace(hindsight, judges=[*own, *hindsight.judges], notes=notes)


def _told_view(title: str, view: View, *, tools: Sequence[Tool], cases: Cases, **how: Any) -> PageText:
    judges, versions = tool_judges(tools, view, cases, **how)
    return PageText(title, cases, judges, [POINTS, f"Tools: {', '.join(versions)}."])


def _in_hindsight(run: PipelineRun, cases: Cases) -> list[Judge]:
    if run.cases.ids != cases.ids or (run.cases.fold != cases.fold).any():
        raise InputError("the retrospective models were judged on other comparisons or folds")
    judges = run.judges(_judged(run.tables, run.cases))
    return [replace(one, name=f"{one.name}, retrospective") for one in judges]


def main(path: Path = Path("../shared/data/sap-hana"), cache: Path = CACHE, jobs: int = 2) -> None:
    """Compute what is not known yet, print the tables, and write the page and the picture."""
    if not (path / "annotations.json").is_file():
        sys.stderr.write(
            f"skipped: {path}/annotations.json is not there; --path names the data set sap-hana\n"
        )
        return
    before = load()
    runs = [models.run(path, cache, chosen, jobs) for chosen in models.features()]
    views = study(runs[0], next(iter(runs[1:]), None), TOOLS, cache=cache, jobs=jobs)
    write(path, runs[0], views, IMAGE, [busy(before)])


def write(
    path: Path, run: PipelineRun, views: tuple[PageText, PageText], image: Path, said: Sequence[str] = ()
) -> None:
    everybody = engineers(path, series_of(run.tables.results), LabelRules())
    about, champion = run.about(path), views[0].champion
    beside = f"perfjudge: {champion.name}, out of fold, thresholds from inside, where both have the boundary."
    told = [replace(view, notes=[about, headline(view), *view.notes, *said]) for view in views]
    named = image.as_posix().removeprefix("docs/")
    seen = f"![Misses against false alarms](../{named})"
    people_table = people(everybody, run.cases, champion, [about, *PEOPLE_SAID, beside, seen])
    publish("human-labels", [*told[0].tables(), *told[1].tables(), people_table])
    draw(views, everybody, image)


if __name__ == "__main__":
    typer.run(main)
