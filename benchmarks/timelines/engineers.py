"""Compare the changes shown in timelines with the marks of engineers in SAP's data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
import pandas as pd
import typer

from benchmarks.table import Table
from data.comparisons.formats import sap_hana
from data.comparisons.formats.sap_hana import SECOND_SPLIT, annotations_of
from data.comparisons.params import LabelRules
from data.comparisons.timelines.rules import RuleSet, TimelineRule
from data.comparisons.timelines.runs import of_results
from data.comparisons.timelines.selection import choose_runs
from data.tables.problems import Problems
from serving.comparisons.timelines.assembled import assemble_report
from serving.comparisons.timelines.generate import choose_judge
from serving.comparisons.timelines.judged import FAIL

#: Most versions between a change and its mark; a change farther than the second from any mark is unmarked.
MATCH_WINDOW, EXCLUSION_WINDOW = 5, 12
_RULES = RuleSet("marked", (TimelineRule("baseline", "Kernel", ".*"), TimelineRule("target", "Kernel", ".*")))


@dataclass(frozen=True)
class EngineerMarks:
    """Engineers' marks in a series: agreed changes to worse, all marks, and the versions looked at."""

    worse: Sequence[int]
    any: Collection[int]
    looked: float


def count_changes(marked: EngineerMarks, spans: Iterable[tuple[int, int]]) -> dict[str, int]:
    reviewed = [span for span in spans if span[0] < marked.looked]
    return {
        "found": sum(any(_is_near(span, [mark], MATCH_WINDOW) for span in reviewed) for mark in marked.worse),
        "detected": len(reviewed),
        "beside marks": sum(_is_near(span, marked.any, MATCH_WINDOW) for span in reviewed),
        "clear": sum(not _is_near(span, marked.any, EXCLUSION_WINDOW) for span in reviewed),
    }


def _is_near(span: tuple[int, int], versions: Iterable[int], within: int) -> bool:
    return any(span[0] - within <= version <= span[1] + within for version in versions)


def marks_by_series(labels: pd.DataFrame, source: Path) -> Iterator[tuple[str, EngineerMarks]]:
    fails = labels[labels["status"] == "fail"].groupby("operation")["target_from"].apply(np.array)
    names = {name.lstrip("0"): name for name in labels["operation"].unique()}
    for number, splits in annotations_of(source / "annotations.json").items():
        every = {split.first + entry for split in splits for marks in split.marks.values() for entry in marks}
        looked = inf if any(split.versions is None for split in splits) else SECOND_SPLIT
        if name := names.get(number):
            yield name, EngineerMarks(fails.get(name, ()), every, looked)


def main(source: Path) -> None:
    tables = next(sap_hana.read_data_set(source, Problems(keep_going=True), LabelRules()))
    labels = tables.labels[tables.labels["annotator"].isna()].merge(tables.comparisons, on="comparison_id")
    by_series = dict(tuple(tables.results.groupby("operation", sort=False)))
    ways = ("lasting changes", "fails beside the versions before", "either")
    tallies: dict[str, Counter[str]] = {way: Counter() for way in ways}
    people = dict(marks_by_series(labels, source))
    for name, marked in people.items():
        (entry,) = choose_runs(list(of_results(by_series[name], "results")), _RULES)
        report = assemble_report(entry, source, "", choose_judge(None, None), problems=Problems())
        (operation,) = report.operations
        lasting = [(change.first, change.last) for change in operation.changes if change.kind != "gain"]
        failing = [(at, at) for at in np.flatnonzero(operation.against_before == FAIL).tolist()]
        for tally, spans in zip(tallies.values(), (lasting, failing, lasting + failing), strict=True):
            tally.update(count_changes(marked, spans))
    n_marks = sum(len(marked.worse) for marked in people.values())
    columns = {"what": "", f"found of {n_marks}": "d", "found": ".1%", "told": "d"}
    columns[f"of these within {MATCH_WINDOW} versions of anybody's mark"] = "d"
    columns[f"more than {EXCLUSION_WINDOW} from any"] = "d"
    rows = [
        (what, found, found / n_marks, *others)
        for what, tally in tallies.items()
        for found, *others in [tally.values()]
    ]
    notes = [
        f"{len(people)} series of SAP's public set that engineers looked at.",
        f"A change to worse counts that 3 of them mark; within {MATCH_WINDOW} versions it is found.",
        "Only what lies where they looked is counted.",
        "Where versions have fewer than 3 samples, 10 before and up to 5 from it on stand for one.",
    ]
    title = "What timelines show of the changes that engineers marked"
    Table(title, columns, rows, notes).publish("timelines-marked")


if __name__ == "__main__":
    typer.run(main)
