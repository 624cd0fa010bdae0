"""What ``perfjudge judge`` and ``compare`` do: read, judge, print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data import formats
from data.errors import InputError
from data.files import replacing
from data.pair import paired
from data.reading import Problems, joined
from data.run import results_of_run
from data.tables import ComparisonTables
from serving import render
from serving.figure import as_xml
from serving.judge import Judgement, judge
from serving.model import load


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


def judge_source(source: Path, uri: str | None, wanted: Wanted, *, keep_going: bool) -> int:
    """Judge all comparisons of `source`, whatever its format, and return the exit code.

    Raises
    ------
    InputError
        If the source cannot be read, or there is no such model.
    """
    served = load(uri)
    kind = formats.sniff(source)
    tables = read_source(kind, [source], keep_going=keep_going)
    judgement = judge(tables, served)
    if wanted.shown == "xml" and kind == "comparison-xml" and source.is_file():
        from data.comparison_status import with_status

        write(with_status(source, judgement.statuses), wanted.output)
        return _code(judgement, wanted)
    return _give(judgement, tables, wanted)


def judge_pair(baseline: Path, target: Path, uri: str | None, wanted: Wanted) -> int:
    """Judge what both of two runs measured, and return the exit code.

    Raises
    ------
    InputError
        If one cannot be read, they have nothing in common, or there is no such model.
    """
    served = load(uri)
    tables = paired(results_of_run(baseline), results_of_run(target))
    return _give(judge(tables, served), tables, wanted)


def read_source(kind: str, sources: list[Path], *, keep_going: bool) -> ComparisonTables:
    """Read sources; say on stderr what was skipped. What cannot be judged stays in: it gets a verdict.

    Raises
    ------
    InputError
        At the first thing that is wrong, unless `keep_going`; and if there is no comparison at all.
    """
    problems = Problems(keep_going)
    tables = joined(list(formats.stream(kind, sources, problems, piece=None)))
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


def _give(judgement: Judgement, tables: ComparisonTables, wanted: Wanted) -> int:
    write(_content(judgement, tables, wanted), wanted.output)
    return _code(judgement, wanted)


def _content(judgement: Judgement, tables: ComparisonTables, wanted: Wanted) -> bytes:
    if wanted.shown == "xml":
        return as_xml(judgement, tables)
    if wanted.shown == "table":
        on_terminal = wanted.output is None and sys.stdout.isatty()
        return (render.as_terminal if on_terminal else render.as_plain)(judgement).encode()
    return _FORMATS[wanted.shown](judgement).encode()


_FORMATS = {"json": render.as_json, "markdown": render.as_markdown, "junit": render.as_junit}


def _code(judgement: Judgement, wanted: Wanted) -> int:
    return 1 if wanted.fail_on_regression and judgement.count("fail") else 0


def write(content: bytes, output: Path | None) -> None:
    """Write to a file in one piece, or to standard output."""
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
    else:
        with replacing(output) as path:
            path.write_bytes(content)
