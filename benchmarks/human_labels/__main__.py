"""perfjudge, other tools, fixed rules and the engineers on comparisons that engineers judged.

Run it with ``python -m benchmarks.human_labels``; it writes ``docs/results/human-labels.md`` and
``docs/images/human-labels.png``. The data set is not shipped; without it, it says so and ends.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer

from benchmarks.human_labels import models, rules
from benchmarks.human_labels.engineers import engineers
from benchmarks.human_labels.judges import Cases, Judge, best_reach
from benchmarks.human_labels.models import PipelineRun
from benchmarks.human_labels.opponents import TOOLS, Answered, Tool, ask
from benchmarks.human_labels.page import Told, headline, people
from benchmarks.human_labels.picture import draw
from benchmarks.human_labels.series import series_of
from benchmarks.human_labels.views import View, whole, windows
from benchmarks.table import busy, load, publish
from data.comparisons.params import LabelRules
from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables
from data.errors import InputError

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
    tools: Sequence[Tool], view: View, cases: Cases, *, cache: Path, jobs: int, known: bool = False
) -> tuple[list[Judge], list[str]]:
    """Let tools judge what a view shows.

    Returns
    -------
    judges : list of Judge
        One for every way of using a tool.
    notes : list of str
        Versions, and which tools are left out and why.
    """

    def asked(tool: Tool) -> list[Answered] | InputError:
        try:
            return ask(tool, view, cache, known=known)
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
    known: bool = False,
) -> tuple[Told, Told]:
    """Let all judge in both views; the features of `later` look past the target, if there are such.

    `known` leaves out the tools that have not been asked yet.
    """
    asked = partial(_told, cases=run.cases, tools=tools, cache=cache, jobs=jobs, known=known)
    tables, cases, how = run.tables, run.cases, LabelRules()
    series, comparisons, sides = (
        series_of(tables.results),
        _comparisons(tables, cases),
        _judged(tables, cases),
    )
    online = asked(WINDOWED, windows(series, comparisons, how))
    online = replace(
        online,
        judges=[*run.judges(sides), *rules.judges(sides, pd.Index(cases.ids), cases), *online.judges],
        notes=[SHOWN, *online.notes],
    )
    hindsight = asked(WHOLE, whole(series, comparisons, how))
    own = [replace(online.champion, name=f"{online.champion.name}, without hindsight")]
    own += [] if later is None else _in_hindsight(later, cases)
    lack = ["perfjudge has no features that look past the target here."] if later is None else []
    notes = [IN_HINDSIGHT, *lack, *hindsight.notes]
    return online, replace(hindsight, judges=[*own, *hindsight.judges], notes=notes)


def _told(title: str, view: View, *, tools: Sequence[Tool], cases: Cases, **how: Any) -> Told:
    judges, versions = tool_judges(tools, view, cases, **how)
    return Told(title, cases, judges, [POINTS, f"Tools: {', '.join(versions)}."])


def _in_hindsight(run: PipelineRun, cases: Cases) -> list[Judge]:
    if run.cases.ids != cases.ids or (run.cases.fold != cases.fold).any():
        raise InputError("the retrospective models were judged on other comparisons or folds")
    judges = run.judges(_judged(run.tables, run.cases))
    return [replace(one, name=f"{one.name}, retrospective") for one in judges]


def main(
    path: Path = Path("../shared/data/sap-hana"), cache: Path = CACHE, jobs: int = 2, known: bool = False
) -> None:
    """Compute what is not known yet, print the tables, and write the page and the picture.

    With --known, tools that were not asked before are left out.
    """
    if not (path / "annotations.json").is_file():
        sys.stderr.write(
            f"skipped: {path}/annotations.json is not there; --path names the data set sap-hana\n"
        )
        return
    before = load()
    runs = [models.run(path, cache, chosen, jobs) for chosen in models.features()]
    views = study(runs[0], next(iter(runs[1:]), None), TOOLS, cache=cache, jobs=jobs, known=known)
    write(path, runs[0], views, IMAGE, [busy(before)])


def write(
    path: Path, run: PipelineRun, views: tuple[Told, Told], image: Path, said: Sequence[str] = ()
) -> None:
    """Write the page and the picture."""
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
