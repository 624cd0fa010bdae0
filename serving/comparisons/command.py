"""The parts of ``perfjudge judge`` and ``perfjudge import`` that concern comparisons."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

from data.comparisons import formats, posted
from data.comparisons.params import Measure
from data.comparisons.request import Comparison, add_settings_note, read_request
from data.comparisons.sides import NamedSides
from data.comparisons.tables import ComparisonTables, version_ranges
from data.errors import InputError
from data.tables.files import naming_unreadable
from data.tables.problems import Problems
from serving.answering import OutputOptions, PrintableJudgement, print_notes, print_skipped, write_judgement
from serving.comparisons import render
from serving.comparisons.judge import BaseRateOption, judge_sides
from serving.comparisons.model import load_judge
from serving.plugins import Counts


def judge_source(
    source: Path,
    uri: str | None,
    wanted: OutputOptions,
    *,
    keep_going: bool,
    better: str | None = None,
    from_: str | None = None,
    fail_on_unsure: bool | None = None,
    retrospective: bool = False,
    explain: bool | None = None,
    base_rate: BaseRateOption = None,
    **deciding: Any,
) -> int:
    """Judge all comparisons of `source`, write the verdicts as `wanted` describes, and return the exit code.

    The code is 1 if a verdict is ``fail`` with ``wanted.fail_on_regression``, or ``unsure`` with
    `fail_on_unsure`; else 0, also with skipped parts and invalid comparisons. `uri`, `retrospective` and
    `deciding` (such as ``costs``) are arguments of `load_judge`, which loads the model. `keep_going`: skip
    parts that cannot be read, and report them on stderr. `better`: the direction of comparisons without one;
    None: "higher", with a note. `from_`: the format; None: detected from the content. `explain`: add
    evidence, nearest examples and counterfactuals; Markdown (folded) and XML always have them. `base_rate`:
    as for `judge_sides`; 0: that of the training data. Raises InputError if the source cannot be read or has
    no comparison, the model does not exist, an option does not suit it, or the directory of the output does
    not exist; ModelError if the model computes a number that is not finite; OSError if writing fails.
    """
    served = load_judge(uri, retrospective=retrospective, **deciding)
    kind = from_ or formats.recognise_format(source)
    problems, measure = Problems(keep_going), Measure.model_validate({"better": better})
    read_tables = cache(partial(read_source, kind, [source], problems, measure))
    comparisons = _read_quickly(kind, source, problems)
    if comparisons is None:
        named, versions = NamedSides.from_tables(read_tables()), partial(version_ranges, read_tables())
    else:
        named, versions = posted.named_sides(comparisons), partial(posted.version_ranges, comparisons)
    judgement = judge_sides(named, served, notes=problems.notes, base_rate=base_rate or None)

    def write_xml() -> bytes:
        from data.comparisons.formats.comparison_xml import with_status
        from serving.comparisons.xml.report import as_xml, verdict_xml_bytes

        if kind == "comparison-xml" and source.is_file():
            return with_status(source, judgement.verdict_by_id, written=verdict_xml_bytes(judgement))
        return as_xml(judgement, read_tables())

    has_details = bool(explain) or wanted.shown == "markdown"
    printable = PrintableJudgement(
        judgement.count_verdicts("fail"),
        lambda: render.table_lines(judgement, versions(), explain=has_details),
        lambda: render.as_json(judgement, explain=bool(explain)),
        write_xml,
    )
    if wanted.shown == "xml":
        print_notes(problems.notes)
    status = write_judgement(printable, wanted)
    return 1 if fail_on_unsure and judgement.count_verdicts("unsure") else status


def _read_quickly(kind: str, source: Path, problems: Problems) -> list[Comparison] | None:
    """Return the comparisons of a valid JSON file, or None if tables have to be made of the source."""
    if kind != "comparison-json" or not source.is_file():
        return None
    with naming_unreadable(source):
        request = read_request(source.read_bytes())
    # tables also take labels, and report errors and repeated names
    if request is None or posted.repeat_names(request.comparisons):
        return None
    add_settings_note(request, str(source), problems)
    return request.comparisons


def read_source(
    kind: str, sources: list[Path], problems: Problems, measure: Measure | None = None
) -> ComparisonTables:
    """Return the comparisons of `sources`, including invalid ones; report skipped parts on stderr.

    `kind`: the format. `problems`: whether to skip parts that cannot be read; collects errors and notes.
    `measure`: the metric and its direction, for formats that do not define them; None: the first metric that
    is not a time, and "higher", with a note. Raises InputError at the first error, unless
    ``problems.keep_going``; always for an unknown format, a missing source, and if no comparison is left.
    """
    chunks = formats.stream_tables(kind, sources, problems, measure=measure, chunk_rows=None)
    tables = ComparisonTables.join_tables(list(chunks))
    print_skipped(problems.skipped)
    if tables.comparisons.empty:
        formats.require_content(kind, sources, problems, len(tables.results), 0)
        raise InputError("holds no comparison that could be read", file=sources[0])
    return tables


def imported(
    kind: str, sources: list[Path], directory: Path, *, keep_going: bool, better: str | None = None
) -> Counts:
    """Write the tables of the comparisons in `sources` to `directory`, and return their numbers of rows.

    The result has ``rows`` (by table: comparisons, results, labels), ``skipped`` (errors) and ``notes``. All
    three tables are replaced, or none. `kind`: the format. `keep_going`: skip parts that cannot be read, and
    write invalid comparisons, which also count as skipped; else InputError at the first of either. `better`:
    see `judge_source`. InputError also if a source is missing; if nothing is skipped, also without results or
    two versions to compare.
    """
    from data.comparisons.stages import import_tables

    measure = Measure.model_validate({"better": better})
    counts = import_tables(kind, sources, directory, keep_going=keep_going, measure=measure)
    rows = {name: counts.tables[name] for name in ("comparisons", "results", "labels")}
    return Counts(rows, counts.skipped, counts.notes)
