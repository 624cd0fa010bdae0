"""What ``perfjudge judge`` and ``import`` do with matrices: read, judge, print."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import data.matrices.formats as matrix_formats
from data.errors import InputError, visible
from data.matrices.params import Matrices
from data.matrices.tables import Choice
from serving.answering import PrintableJudgement, Wanted, give, tell_skipped
from serving.matrices import request as matrices_source
from serving.matrices.judge import judge, load
from serving.matrices.schemas import DriverAnswer, MatricesAnswer, MatrixVerdictAnswer
from serving.reports.verdict_lines import Lines, VerdictLine
from serving.supply import Counts
from training.matrices.chunks import LargeRecipe
from training.matrices.engine.engine import LARGE
from training.matrices.engine.judges import FALLBACK
from training.matrices.schemes import Cell
from training.registry.champions import project_params


def fit(source: Path, output: Path, model: str, trials: int | None, work: Path | None) -> int:
    """Write the model to `output`, and return the exit code."""
    knobs = project_params(Matrices)
    how, scheme = knobs.section.evaluate, replace(LARGE, components=knobs.section.evaluate.components)
    tried = how.trials if trials is None else trials
    missing = knobs.section.checks.missing
    recipe = LargeRecipe(Cell(model, scheme), tried, knobs.seed, missing, knobs.compute)
    place = output.parent if work is None else work
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pieces-", dir=place) as directory:
        trained = recipe.train(source, Path(directory))
    trained.write(output)
    own = f"{len(trained.card.own)} of {len(trained.card.groups)} groups have a classifier of their own"
    sys.stderr.write(f"{trained.card.entry} -> {output}: {own}\n")
    return 0


def as_xml(found: MatricesAnswer) -> bytes:
    """Return ``matrix_results``; an attribute that is not known is left out."""
    from lxml import etree

    ref = {"model": found.model.name} | found.model.model_dump(exclude={"name"})
    root = etree.Element("matrix_results", _attributes(ref))
    for one in found.verdicts:
        node = etree.SubElement(root, "matrix_result", _attributes(one))
        for driver in one.drivers:
            etree.SubElement(node, "driver", _attributes(driver))
        for run in one.invalid_runs:
            etree.SubElement(node, "invalid_run", _attributes(run))
        _add_notes(etree, node, one.notes)
    _add_notes(etree, root, found.notes)
    written: bytes = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return written


def _attributes(told: Mapping[str, Any] | BaseModel) -> dict[str, str]:
    """Return the scalar fields as XML attributes, without None and lists."""
    return {
        name: visible(str(value))
        for name, value in dict(told).items()
        if value is not None and not isinstance(value, list)
    }


def _add_notes(etree: Any, parent: Any, notes: Sequence[str]) -> None:
    for note in notes:
        etree.SubElement(parent, "note").text = visible(note)


#: How many raw metrics a line shows; ``--json`` has all that the verdict names.
SHOWN = 3
#: Maximal numbers of notes and of excluded runs that are listed.
TOLD = 20


def lines(found: MatricesAnswer) -> Lines:
    """Return the verdicts as lines of a table, a group a suite."""
    rows = [_line(one) for one in found.verdicts]
    general = tuple(f"note: {note}" for note in found.notes)
    headings = ("group", "pair", "what drove it")
    return Lines(rows, headings, summary(found), (*general, *_notes(found)), general)


def summary(found: MatricesAnswer) -> str:
    """Return how many pairs got which verdict, in one line."""
    counted = ", ".join(f"{found.count(verdict)} {verdict}" for verdict in ("fail", "pass", "invalid"))
    number, ref = len(found.verdicts), found.model
    promised = f"; {found.promise.told}" if found.promise else ""
    return f"{number} pair{'' if number == 1 else 's'}: {counted} (model {ref.name} {ref.version}{promised})"


def _line(one: MatrixVerdictAnswer) -> VerdictLine:
    # a group without a separate model, where others have one
    group = f"{one.group} (fallback)" if one.group_used == FALLBACK else one.group
    why = one.invalid_reason or ", ".join(map(_moved, one.drivers[:SHOWN]))
    notes = (*(f"note: {note}" for note in one.notes), *_left_out(one))
    return VerdictLine(one.verdict, one.probability, group, one.pair_id, why, notes)


def _moved(driver: DriverAnswer) -> str:
    unit = "" if driver.unit in {"", "1"} else f" {driver.unit}"
    before, after = (
        "unknown" if value is None else f"{value:.4g}" for value in (driver.baseline, driver.target)
    )
    return f"{driver.metric} {before} \N{RIGHTWARDS ARROW} {after}{unit} ({driver.contribution:+.2g})"


def _notes(found: MatricesAnswer) -> Iterator[str]:
    """Tell what to know about single pairs, and which runs were left out."""
    told = [f'note: pair "{one.pair_id}": {note}' for one in found.verdicts for note in one.notes]
    yield from _first(told, "notes")
    yield from _first([run for one in found.verdicts for run in _left_out(one)], "runs left out")


def _left_out(one: MatrixVerdictAnswer) -> list[str]:
    return [f'left out: run "{run.run_id}": {run.reason}' for run in one.invalid_runs]


def _first(told: Sequence[str], what: str) -> Iterator[str]:
    yield from told[:TOLD]
    if len(told) > TOLD:
        yield f"... and {len(told) - TOLD} more {what}; --json has all"


def judge_matrices(source: Path, uri: str | None, wanted: Wanted, *, keep_going: bool) -> int:
    """Judge all pairs of matrices of `source`, and return the exit code."""
    reading = matrices_source.read(source, keep_going=keep_going)
    tell_skipped(reading.skipped)
    served = load(uri)
    try:
        found = judge(reading.tables, served, shown=True)
    except InputError as exc:
        raise exc.within(source) from exc
    told = PrintableJudgement(
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
