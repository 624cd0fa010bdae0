"""Sources of any supported format become the tables of the design."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from data.comparisons import formats
from data.comparisons.importing import import_tables
from data.comparisons.params import Measure
from data.corun import formats as corun_formats
from data.errors import InputError
from data.fingerprints import formats as fingerprint_formats
from data.matrices import formats as matrix_formats
from data.matrices.choice import Choice
from data.tables.nearest import unknown
from serving.answering import tell_notes, tell_skipped


@dataclass(frozen=True)
class Counts:
    """How many rows of each kind were imported, what was skipped, and what had to be assumed."""

    rows: dict[str, int]
    skipped: tuple[InputError, ...]
    notes: tuple[str, ...] = ()


def import_sources(
    kind: str,
    sources: list[Path],
    directory: Path,
    *,
    chosen: Choice | None = None,
    better: str | None = None,
    keep_going: bool,
    as_json: bool,
) -> int:
    """Read `sources`, write their tables to `directory`, and return the exit code.

    Parameters
    ----------
    kind : str
        The format of all sources; it decides the family.
    chosen : Choice, optional
        Which workloads of matrices are wanted; by default all.
    better : {"lower", "higher"}, optional
        Which values of comparisons are better, where a source does not say.
    keep_going : bool
        Skip what is bad, say so on stderr, and count it.
    as_json : bool
        Say on standard output what was imported as JSON.

    Raises
    ------
    InputError
        At the first thing that is wrong, unless `keep_going`; and if workloads are chosen that are not there,
        or of another family, or `better` is said of one.
    """
    known = dict.fromkeys(
        [*formats.FORMATS, *fingerprint_formats.FORMATS, *corun_formats.FORMATS, *matrix_formats.FORMATS]
    )
    if kind not in known:
        raise InputError(f'format "{kind}" {unknown(kind, known)}')
    family: Callable[..., Counts] = _comparisons
    if fingerprint_formats.holds_fingerprints(kind, sources[0]):
        family = _fingerprints
    elif corun_formats.holds_coruns(kind, sources[0]):
        family = _coruns
    elif matrix_formats.holds_matrices(kind, sources[0]):
        family = _matrices
    if chosen and family is not _matrices:
        raise InputError(f"--only and --without choose workloads of matrices, and {kind} holds none")
    if better and family is not _comparisons:
        raise InputError("--better is about comparisons, and there are none", file=sources[0])
    read = partial(_matrices, chosen=chosen) if chosen else family
    read = partial(_comparisons, better=better) if better else read
    counts = read(kind, sources, directory, keep_going=keep_going)
    tell_skipped(counts.skipped)
    tell_notes(counts.notes)
    numbers = counts.rows | {"skipped": len(counts.skipped)}
    told = ", ".join(f"{count} {name}" for name, count in numbers.items())
    answer = json.dumps(numbers | {"directory": str(directory)}) if as_json else f"{told} -> {directory}"
    sys.stdout.write(answer + "\n")
    return 0


def _comparisons(
    kind: str, sources: list[Path], directory: Path, *, keep_going: bool, better: str | None = None
) -> Counts:
    measure = Measure.model_validate({"better": better})
    imported = import_tables(kind, sources, directory, keep_going=keep_going, measure=measure)
    rows = {name: getattr(imported, name) for name in ("comparisons", "results", "labels")}
    return Counts(rows, imported.skipped, imported.notes)


def _fingerprints(kind: str, sources: list[Path], directory: Path, *, keep_going: bool) -> Counts:
    reading = fingerprint_formats.read(kind, sources, keep_going=keep_going)
    reading.tables.write(directory)
    tables = reading.tables
    rows = {
        "machines": tables.machines["machine"].nunique(),
        "rates": len(tables.machines),
        "applications": tables.applications["application"].nunique(),
        "values": len(tables.applications),
    }
    return Counts(rows, reading.skipped)


def _coruns(kind: str, sources: list[Path], directory: Path, *, keep_going: bool) -> Counts:
    reading = corun_formats.read(kind, sources, keep_going=keep_going)
    tables = reading.tables
    tables.write(directory)
    rows = {
        "machines": tables.tasks["machine"].nunique(),
        "tasks": tables.tasks["task"].nunique(),
        "events": len(tables.events),
        "solo_runs": len(tables.tasks),
        "pairs": len(tables.pairs),
        "samples": len(tables.samples),
    }
    return Counts(rows, reading.skipped)


def _matrices(
    kind: str, sources: list[Path], directory: Path, *, keep_going: bool, chosen: Choice | None = None
) -> Counts:
    reading = matrix_formats.read(kind, sources, keep_going=keep_going)
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
