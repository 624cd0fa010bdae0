"""Matrices in ``perfjudge judge``, ``import`` and ``matrices fit``: read, judge, print."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import data.matrices.formats as matrix_formats
from data.errors import InputError, escape_invisible
from data.matrices.params import Matrices
from data.matrices.tables import select_workloads
from serving.answering import OutputOptions, PrintableJudgement, print_skipped, write_judgement
from serving.matrices.request import judge_tables, load, read_source
from serving.matrices.schemas import DriverAnswer, MatricesAnswer, MatrixVerdictAnswer
from serving.plugins import Counts
from serving.reports.verdict_lines import VerdictLine, VerdictTable
from training.matrices.chunks import LargeRecipe
from training.matrices.engine.judges import FALLBACK
from training.matrices.schemes import LARGE, Cell
from training.registry.champions import project_params


def fit_model(source: Path, output: Path, model: str, trials: int | None, work: Path | None) -> int:
    """Train on the runs of `source` in chunks, write the model to the directory `output`, and return 0.

    `source` is a Parquet file of runs or a directory of such files, `model` the name of a classifier,
    `trials` the number of search trials (None: as in params.yaml). Temporary files go to `work`, by default
    next to the model. InputError if the source cannot be read, the classifier is unknown or takes pairs of
    runs, the runs are malformed, or all have the same label.
    """
    params = project_params(Matrices)
    evaluate = params.section.evaluate
    cell = Cell(model, replace(LARGE, components=evaluate.max_components))
    trials = evaluate.n_trials if trials is None else trials
    missing = params.section.checks.max_missing_fraction
    recipe = LargeRecipe(cell, trials, params.seed, missing, params.compute)
    place = output.parent if work is None else work
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".chunks-", dir=place) as directory:
        trained = recipe.train(source, Path(directory))
    trained.write(output)
    groups = f"{len(trained.card.own)} of {len(trained.card.groups)} groups have their own classifier"
    sys.stderr.write(f"{trained.card.entry} -> {output}: {groups}\n")
    return 0


def as_xml(answer: MatricesAnswer) -> bytes:
    """Return the XML document ``matrix_results`` as UTF-8 bytes, without attributes for unknown values.

    It has a ``matrix_result`` per pair, with ``driver, invalid_run, note``, then ``note`` and
    ``risk_guarantee``. Control and invisible characters become visible escapes.
    """
    from lxml import etree

    ref = {"model": answer.model.name} | answer.model.model_dump(exclude={"name"})
    root = etree.Element("matrix_results", _xml_attributes(ref))
    for verdict in answer.verdicts:
        node = etree.SubElement(root, "matrix_result", _xml_attributes(verdict))
        for driver in verdict.attributions:
            etree.SubElement(node, "driver", _xml_attributes(driver))
        for run in verdict.invalid_runs:
            etree.SubElement(node, "invalid_run", _xml_attributes(run))
        for note in verdict.notes:
            etree.SubElement(node, "note").text = escape_invisible(note)
    for note in answer.notes:
        etree.SubElement(root, "note").text = escape_invisible(note)
    if answer.risk_guarantee is not None:
        etree.SubElement(root, "risk_guarantee", _xml_attributes(answer.risk_guarantee))
    written: bytes = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return written


def _xml_attributes(fields: Mapping[str, Any] | BaseModel) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else escape_invisible(str(value))
        for name, value in dict(fields).items()
        if value is not None and not isinstance(value, list)
    }


#: Maximal number of raw metrics in a line; ``--json`` has all drivers.
SHOWN = 3
#: Maximal numbers of notes and of invalid runs that are listed.
TOLD = 20


def verdict_table(answer: MatricesAnswer) -> VerdictTable:
    """Return a table with one line per pair, in the given order, and notes.

    Notes on the answer come first, then at most 20 on pairs and 20 on invalid runs, each with a line on the
    number of further ones.
    """
    general = tuple(f"note: {note}" for note in answer.notes)
    notes = [f'note: pair "{pair.pair_id}": {note}' for pair in answer.verdicts for note in pair.notes]
    invalid_runs = [line for pair in answer.verdicts for line in _invalid_run_notes(pair)]
    all_notes = (*general, *_first_lines(notes, "notes"), *_first_lines(invalid_runs, "runs left out"))
    rows, summary = [*map(_verdict_line, answer.verdicts)], verdict_summary(answer)
    return VerdictTable(rows, ("group", "pair", "reason"), summary, all_notes, general)


def verdict_summary(answer: MatricesAnswer) -> str:
    """Return one line without line break: ``3 pairs: 1 fail, 2 pass, 0 invalid (model NAME VERSION)``.

    A risk guarantee is added within the brackets.
    """
    counts = (f"{answer.count_verdicts(verdict)} {verdict}" for verdict in ("fail", "pass", "invalid"))
    counted, number, ref = ", ".join(counts), len(answer.verdicts), answer.model
    promised = f"; {answer.risk_guarantee.guarantee_text}" if answer.risk_guarantee else ""
    return f"{number} pair{'' if number == 1 else 's'}: {counted} (model {ref.name} {ref.version}{promised})"


def _verdict_line(pair: MatrixVerdictAnswer) -> VerdictLine:
    # a group without a separate model, where others have one
    group = f"{pair.group} (fallback)" if pair.group_used == FALLBACK else pair.group
    reason = pair.invalid_reason or ", ".join(map(_driver_text, pair.attributions[:SHOWN]))
    notes = (*(f"note: {note}" for note in pair.notes), *_invalid_run_notes(pair))
    return VerdictLine(pair.verdict, pair.probability, group, pair.pair_id, reason, notes)


def _driver_text(driver: DriverAnswer) -> str:
    unit = "" if driver.unit in {"", "1"} else f" {driver.unit}"
    values = ("unknown" if value is None else f"{value:.4g}" for value in (driver.baseline, driver.target))
    before, after = values
    return f"{driver.metric} {before} \N{RIGHTWARDS ARROW} {after}{unit} ({driver.contribution:+.2g})"


def _invalid_run_notes(pair: MatrixVerdictAnswer) -> list[str]:
    return [f'left out: run "{run.run_id}": {run.reason}' for run in pair.invalid_runs]


def _first_lines(texts: Sequence[str], kind: str) -> list[str]:
    more = [f"... and {len(texts) - TOLD} more {kind}; --json has all"] if len(texts) > TOLD else []
    return [*texts[:TOLD], *more]


def judge_matrices(source: Path, uri: str | None, wanted: OutputOptions, *, keep_going: bool) -> int:
    """Judge all pairs of matrices of `source`, write the verdicts, and return the exit code.

    `wanted` has the form and the file (None: standard output). The exit code is 1 if a verdict is ``fail``
    and `wanted` has ``fail_on_regression``, else 0. InputError if the source or the model at `uri` (None: the
    champion) cannot be read, the source has too few of the model's metrics, the directory of the output file
    is missing, or a run is wrong; with `keep_going`, wrong runs are skipped, and reported on stderr.
    ModelError if the model fails, OSError if writing fails.
    """
    reading = read_source(source, keep_going=keep_going)
    print_skipped(reading.skipped)
    served = load(uri)
    try:
        answer = judge_tables(reading.tables, served, show_progress=True)
    except InputError as exc:
        raise exc.with_file(source) from exc
    answer.notes += reading.notes
    printable = PrintableJudgement(
        answer.count_verdicts("fail"),
        lambda: verdict_table(answer),
        lambda: f"{answer.model_dump_json(indent=1)}\n",
        lambda: as_xml(answer),
    )
    return write_judgement(printable, wanted)


def imported(
    kind: str,
    sources: list[Path],
    directory: Path,
    *,
    keep_going: bool,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Counts:
    """Write matrices of `sources`, of the format `kind`, to `directory`; return counts and errors.

    The result has ``rows``, with the numbers of ``groups, workloads, pairs, runs, raw_metrics,
    summary_metrics``, and ``skipped``. Older tables are replaced. `include` and `exclude` are case-sensitive
    shell patterns of workloads; `exclude` wins, and a pair is written if the workloads of both its sides are
    chosen. InputError if `kind` is unknown, a source cannot be read, a pattern matches no workload or no pair
    is left; without `keep_going`, also at the first wrong run.
    """
    reading = matrix_formats.read(kind, sources, keep_going=keep_going)
    tables = select_workloads(reading.tables, include, exclude) if include or exclude else reading.tables
    tables.write(directory)
    return Counts(tables.counts, reading.skipped, reading.notes)
