"""The parts of ``perfjudge judge`` and ``perfjudge import`` that concern comparisons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from data.comparisons import formats
from data.comparisons.params import Measure
from data.comparisons.stages import import_tables
from data.comparisons.tables import ComparisonTables, versions
from data.errors import InputError
from data.tables.problems import Problems
from serving.answering import PrintableJudgement, Wanted, give, tell_notes, tell_skipped
from serving.comparisons import render
from serving.comparisons.judge import judge
from serving.comparisons.model import load
from serving.comparisons.xml.report import as_xml, verdicts_written
from serving.supply import Counts


def judge_source(
    source: Path,
    uri: str | None,
    wanted: Wanted,
    *,
    keep_going: bool,
    better: str | None = None,
    from_: str | None = None,
    fail_on_unsure: bool | None = None,
    retrospective: bool = False,
    **deciding: Any,
) -> int:
    """Judge and print all comparisons of `source`; return the exit code.

    `better`: the direction of comparisons without one; None: "higher", with a note.
    `from_`: the format; None: detected from the content.
    `deciding`: as of `serving.comparisons.model.load`.
    Raises InputError if the source cannot be read, or the model does not exist.
    """
    served = load(uri, retrospective=retrospective, **deciding)
    kind = from_ or formats.sniff(source)
    problems = Problems(keep_going)
    tables = read_source(kind, [source], problems, Measure.model_validate({"better": better}))
    judgement = judge(tables, served, notes=problems.notes)
    printable = PrintableJudgement(
        judgement.count("fail"),
        lambda: render.lines(judgement, versions(tables)),
        lambda: render.as_json(judgement),
        lambda: as_xml(judgement, tables),
    )
    if kind == "comparison-xml" and source.is_file():
        from data.comparisons.formats.comparison_xml import with_status

        printable = replace(
            printable,
            xml=lambda: with_status(source, judgement.statuses, written=verdicts_written(judgement)),
        )
    if wanted.shown == "xml":
        tell_notes(problems.notes)
    status = give(printable, wanted)
    return 1 if fail_on_unsure and judgement.count("unsure") else status


def read_source(
    kind: str, sources: list[Path], problems: Problems, measure: Measure | None = None
) -> ComparisonTables:
    """Read sources, including comparisons that cannot be judged; report skipped parts on stderr.

    Raises InputError at the first error, unless ``problems.keep_going``, and if no comparison is left.
    """
    tables = ComparisonTables.joined(
        list(formats.stream(kind, sources, problems, measure=measure, piece=None))
    )
    tell_skipped(problems.skipped)
    if tables.comparisons.empty:
        formats.refuse_nothing(kind, sources, problems, results=len(tables.results), comparisons=0)
        raise InputError("holds no comparison that could be read", file=sources[0])
    return tables


def imported(
    kind: str, sources: list[Path], directory: Path, *, keep_going: bool, better: str | None = None
) -> Counts:
    """Write the tables of comparisons to `directory`; errors as of `data.comparisons.stages`."""
    measure = Measure.model_validate({"better": better})
    tables = import_tables(kind, sources, directory, keep_going=keep_going, measure=measure)
    rows = {name: getattr(tables, name) for name in ("comparisons", "results", "labels")}
    return Counts(rows, tables.skipped, tables.notes)
