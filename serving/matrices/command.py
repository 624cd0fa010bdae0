"""What ``perfjudge judge`` and ``import`` do with matrices: read, judge, print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from data.errors import InputError
from data.matrices import formats as matrix_formats
from data.matrices.tables import Choice
from serving.answering import Told, Wanted, give, tell_skipped
from serving.matrices import request as matrices_source
from serving.matrices.judge import judge, load
from serving.matrices.text import as_xml, lines
from serving.supply import Counts


def judge_matrices(source: Path, uri: str | None, wanted: Wanted, *, keep_going: bool) -> int:
    """Judge all pairs of matrices of `source`, and return the exit code."""
    reading = matrices_source.read(source, keep_going=keep_going)
    tell_skipped(reading.skipped)
    served = load(uri)
    try:
        found = judge(reading.tables, served, shown=True)
    except InputError as exc:
        raise exc.within(source) from exc
    told = Told(
        found.count("fail"),
        lambda: lines(found),
        lambda: f"{found.model_dump_json(indent=1)}\n",
        lambda: as_xml(found),
    )
    return give(told, wanted)


def imported(
    kind: str,
    sources: list[Path],
    directory: Path,
    *,
    keep_going: bool,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Counts:
    """Write the tables of matrices, of some workloads or of all, to `directory`."""
    reading = matrix_formats.read(kind, sources, keep_going=keep_going)
    chosen = Choice(only, without)
    tables = chosen.of(reading.tables) if chosen else reading.tables
    tables.write(directory)
    rows = {
        "groups": tables.runs["group"].nunique(),
        "workloads": tables.runs["workload"].nunique(),
        "pairs": tables.runs["pair_id"].nunique(),
        "runs": len(tables.runs),
        "raw_metrics": len(tables.raw),
        "summary_metrics": len(tables.summary),
    }
    return Counts(rows, reading.skipped)
