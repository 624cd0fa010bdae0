"""What ``perfjudge judge`` and ``compare`` do: read, judge, print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from data.comparisons import formats
from data.comparisons.pair import paired
from data.comparisons.params import Measure
from data.comparisons.run import results_of_run
from data.comparisons.tables import ComparisonTables
from data.comparisons.versions import versions
from data.errors import InputError
from data.tables.files import replacing
from data.tables.problems import Problems
from serving.comparisons import render
from serving.comparisons.judge import Judgement, judge
from serving.comparisons.model import load
from serving.comparisons.xml import as_xml
from serving.matrices import source as matrices_source
from serving.pages.verdict_lines import Lines, as_junit, as_markdown, as_plain, as_terminal


@dataclass(frozen=True)
class Wanted:
    """How the answer is to be given.

    Attributes
    ----------
    shown : str
        One of table, json, xml, markdown, junit.
    output : Path or None
        The file; None = standard output.
    fail_on_regression : bool
        Whether a regression makes the exit code 1.
    """

    shown: str
    output: Path | None
    fail_on_regression: bool


@dataclass(frozen=True)
class Told:
    """A judgement of any family in every form, each made when it is asked for.

    Attributes
    ----------
    fails : int
        How many verdicts are ``fail``.
    lines, json, xml : callable
        Return the lines of a table, the JSON that HTTP answers, and XML.
    """

    fails: int
    lines: Callable[[], Lines]
    json: Callable[[], str]
    xml: Callable[[], bytes]


def judge_source(
    source: Path,
    uri: str | None,
    wanted: Wanted,
    *,
    keep_going: bool,
    better: str | None = None,
    floor: float | None = None,
) -> int:
    """Judge all comparisons or all matrices of `source`, whatever its format, and return the exit code.

    Where comparisons don't say which values are better, `better` does; without it, the answer has a note.

    Raises
    ------
    InputError
        If the source cannot be read, there is no such model, or `better` or a floor is given for matrices.
    """
    if matrices_source.recognised(source):
        if floor is not None:
            raise InputError("holds matrices, which --floor is not for", file=source)
        from serving.matrices.command import judge_matrices

        if better is not None:
            raise InputError("holds matrices; --better is about comparisons", file=source)
        return judge_matrices(source, uri, wanted, keep_going=keep_going)
    served = load(uri, floor)
    kind = formats.sniff(source)
    problems = Problems(keep_going)
    tables = read_source(kind, [source], problems, Measure.model_validate({"better": better}))
    judgement = judge(tables, served, notes=problems.notes)
    told = _told(judgement, tables)
    if kind == "comparison-xml" and source.is_file():
        from data.comparisons.formats.comparison_status import with_status

        told = replace(told, xml=lambda: with_status(source, judgement.statuses))
    if wanted.shown == "xml":
        tell_notes(problems.notes)
    return give(told, wanted)


def judge_pair(
    baseline: Path,
    target: Path,
    uri: str | None,
    wanted: Wanted,
    *,
    fail_on_missing: bool,
    floor: float | None = None,
) -> int:
    """Judge what both of two runs measured, name what only one did, and return the exit code.

    Raises
    ------
    InputError
        If one cannot be read, they have nothing in common or cannot be compared, or there is no such model.
    """
    served = load(uri, floor)
    problems = Problems()
    before, after = results_of_run(baseline, problems), results_of_run(target, problems)
    pair = paired(before, after, (str(baseline), str(target)))
    judgement = judge(pair.tables, served, notes=(*problems.notes, *pair.notes))
    told = replace(_told(judgement, pair.tables), json=lambda: render.pair_as_json(judgement, pair.missing))
    status = give(told, wanted)
    return 1 if fail_on_missing and pair.missing else status


def read_source(
    kind: str, sources: list[Path], problems: Problems, measure: Measure | None = None
) -> ComparisonTables:
    """Read sources; say on stderr what was skipped. What cannot be judged stays in: it gets a verdict.

    Raises
    ------
    InputError
        At the first thing that is wrong, unless ``problems.keep_going``; and if there is no comparison.
    """
    tables = ComparisonTables.joined(
        list(formats.stream(kind, sources, problems, measure=measure, piece=None))
    )
    tell_skipped(problems.skipped)
    if tables.comparisons.empty:
        raise InputError("holds no comparison that could be read", file=sources[0])
    return tables


def tell_skipped(skipped: Sequence[InputError]) -> None:
    """Say on stderr how much was skipped, and what was wrong with each."""
    for error in skipped:
        sys.stderr.write(f"skipped: {error}\n")
    if skipped:
        sys.stderr.write(f"skipped {len(skipped)} in all\n")


def tell_notes(notes: Sequence[str]) -> None:
    """Say on stderr what had to be assumed."""
    sys.stderr.writelines(f"note: {note}\n" for note in notes)


def give(told: Told, wanted: Wanted) -> int:
    """Write a judgement as it is wanted, and return the exit code."""
    write(_content(told, wanted), wanted.output)
    return 1 if wanted.fail_on_regression and told.fails else 0


def write(content: bytes, output: Path | None) -> None:
    """Write to a file in one piece, or to standard output."""
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
    else:
        with replacing(output) as path:
            path.write_bytes(content)


def _told(judgement: Judgement, tables: ComparisonTables) -> Told:
    return Told(
        judgement.count("fail"),
        lambda: render.lines(judgement, versions(tables)),
        lambda: render.as_json(judgement),
        lambda: as_xml(judgement, tables),
    )


def _content(told: Told, wanted: Wanted) -> bytes:
    if wanted.shown == "json":
        return told.json().encode()
    if wanted.shown == "xml":
        return told.xml()
    form = _TABLES[wanted.shown]
    if form is as_plain and wanted.output is None and sys.stdout.isatty():
        form = as_terminal
    return form(told.lines()).encode()


_TABLES = {"table": as_plain, "markdown": as_markdown, "junit": as_junit}
