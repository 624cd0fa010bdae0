"""The command ``perfjudge compare``: read, judge, confirm, excuse and print."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from data.comparisons.pair import TwoRuns, matched_operations, number_with_noun
from data.comparisons.params import Measure
from data.comparisons.tables import version_ranges
from data.errors import InputError
from data.tables.problems import Problems
from features.comparisons.between_run_variation import ASSUMED
from serving.answering import write_output
from serving.comparisons.compare.acknowledging import (
    DEFAULT,
    AcknowledgedFile,
    Acknowledgements,
    Revision,
    head_commit,
)
from serving.comparisons.compare.reading import ComparedRun, ComparedRuns, ConfirmationRuns, RunReader
from serving.comparisons.compare.rows import (
    ComparedSides,
    append_step_summary,
    as_comment,
    as_compare_json,
    as_junit_xml,
    as_table,
    compared_rows,
    github_annotations,
)
from serving.comparisons.compare.weighing import AdjustedJudgement, judge_runs
from serving.comparisons.model import Judge
from serving.comparisons.xml.report import as_xml


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Forms and destinations of the answer."""

    shown: str  # table, json, xml, markdown or junit; to `output`, or to standard output
    output: Path | None
    files: Mapping[str, Path | None]  # additional files, by form
    annotations: bool  # write GitHub's annotations to standard error
    step_summary: bool  # append Markdown to the summary of GitHub's step
    name: str  # distinguishes this comment from those of other comparisons
    explain: bool  # a table has the details of rows that need attention


@dataclass(frozen=True, kw_only=True)
class CompareRequest:
    """The runs to compare, and how; without a target, two operations of the baseline are compared."""

    baseline: Sequence[Path]
    target: Sequence[Path]
    history: Sequence[Path] = ()
    served: Judge
    measure: Measure = field(default_factory=Measure)
    #: assumed standard deviation between runs; see `features.comparisons.run_shifts.RunShifts.from_sides`
    assumed: float = ASSUMED
    kind: str | None = None  # the format of all runs; None: detected from the content
    confirming: ConfirmationRuns = field(default_factory=ConfirmationRuns)
    #: the file of reviewed exceptions and its content
    acknowledged: tuple[Path, AcknowledgedFile] = (DEFAULT, AcknowledgedFile())
    #: commits of baseline and target; None: unknown, and the checked-out one
    commits: tuple[str | None, str | None] = (None, None)
    matched: Sequence[str] = ()  # as of `data.comparisons.pair.matched_operations`

    def compare_sides(self) -> ComparedSides:
        """Read and judge the runs, measure doubtful operations again if requested, and return the results.

        Raises InputError if an input cannot be read, the sides have nothing in common or cannot be compared,
        or a confirmation command fails.
        """
        reader = RunReader(Problems(), self.measure, self.kind)
        runs = self._read_runs(reader)
        acknowledgements = self._read_acknowledgements(runs)
        runs = replace(runs, earlier=tuple(_current_runs(runs.earlier, acknowledgements)))
        pair = runs.pair_runs()
        weighed, spans = self._weigh_pair(pair, reader), version_ranges(pair.tables)
        for number in range(1, self.confirming.times + 1):
            excuses = acknowledgements.find_excuses(weighed.judgement.verdicts)
            doubted = weighed.in_doubt(is_first=number == 1) & [excuse is None for excuse in excuses]
            if not doubted.any():
                break
            runs = self.confirming.measure_again(number, runs, pair.tables, doubted, reader)
            pair = replace(runs.pair_runs(), missing=pair.missing, notes=pair.notes)
            weighed = weighed.replace_rows(self._weigh_pair(pair, reader), doubted)
            spans = np.where(doubted, version_ranges(pair.tables), spans).tolist()
        verdicts = weighed.judgement.verdicts
        rows = compared_rows(
            weighed, pair.tables, spans, acknowledgements.find_excuses(verdicts), runs.matched
        )
        notes = (*weighed.judgement.notes, *acknowledgements.entry_notes(verdicts))
        return ComparedSides(
            rows=tuple(rows),
            weighed=weighed,
            tables=pair.tables,
            missing=pair.missing,
            sides=runs.side_names,
            notes=notes,
        )

    def _read_runs(self, reader: RunReader) -> ComparedRuns:
        baseline = reader.read_runs(self.baseline)
        target = reader.read_runs(self.target) if self.target else baseline
        runs = ComparedRuns(baseline, target, reader.read_history(self.history, (*baseline, *target)))
        if self.matched:
            before, after = (pd.concat([run.results for run in side]) for side in (baseline, target))
            renamed = matched_operations(self.matched, before, after, runs.side_names)
            return runs.match_operations(renamed, reader.problems.add_note)
        if self.target:
            return runs
        if len(baseline) > 1:
            raise InputError("holds several runs; expected TARGET", file=self.baseline[0])
        return runs.match_operations(reader.two_commands(baseline[0]), reader.problems.add_note)

    def _read_acknowledgements(self, runs: ComparedRuns) -> Acknowledgements:
        directory, (path, content) = Path.cwd(), self.acknowledged
        # only entries need the commit
        checked_out = head_commit(directory) if content != AcknowledgedFile() else None
        commits = self.commits[0], self.commits[1] or checked_out
        baseline, target = (
            Revision((*dict.fromkeys(run.version for run in side), *filter(None, [commit])), directory)
            for side, commit in zip((runs.baseline, runs.target), commits, strict=True)
        )
        today = datetime.now(UTC).astimezone().date()
        every_run = (*runs.baseline, *runs.target, *runs.earlier)
        measured = {name for run in every_run for name in run.results["operation"].unique()}
        return Acknowledgements(path, content, baseline, target, today, measured)

    def _weigh_pair(self, pair: TwoRuns, reader: RunReader) -> AdjustedJudgement:
        return judge_runs(pair.tables, self.served, self.assumed, (*reader.problems.notes, *pair.notes))


def compare_runs(comparing: CompareRequest, outputs: Outputs, failing: Collection[str]) -> int:
    """Compare both sides, write all `outputs`, and return 1 if the outcome of a row is in `failing`, else 0.

    `failing`: outcomes such as "regression"; "missing" stands for a machine, an operation or a configuration
    that only one side has. The main output goes to ``outputs.output``, or to stdout if that is None.
    InputError after all outputs if every row is invalid; before them if an input cannot be read, the sides
    have nothing in common or cannot be compared, a confirmation command fails, the directory of an output
    does not exist, or the step summary cannot be written; OSError if another output cannot be written;
    ModelError if the model computes a number that is not finite.
    """
    compared = comparing.compare_sides()
    for form, path in outputs.files.items():
        if path is not None:
            write_output(_render_form(compared, form, outputs.name), path)
    if outputs.step_summary:
        append_step_summary(as_comment(compared, outputs.name))
    if outputs.annotations:
        sys.stderr.writelines(github_annotations(compared))
    terminal = outputs.output is None and sys.stdout.isatty()
    if outputs.shown == "table":
        content: str | bytes = as_table(compared, terminal=terminal, explain=outputs.explain)
    else:
        content = _render_form(compared, outputs.shown, outputs.name)
    write_output(content, outputs.output, styled=terminal and outputs.shown == "table")
    if compared.outcome_counts.keys() == {"invalid"}:
        number = number_with_noun(len(compared.rows), "operation")
        first = compared.rows[0]
        problem = f"nothing can be judged: {number} invalid; {first.full_name}: {first.reason}"
        raise InputError(problem, file=" and ".join(compared.sides))
    present = {*compared.outcome_counts, *(["missing"] if compared.missing else [])}
    return 1 if present.intersection(failing) else 0


def _render_form(compared: ComparedSides, form: str, name: str) -> str | bytes:
    match form:
        case "markdown":
            return as_comment(compared, name)
        case "junit":
            return as_junit_xml(compared)
        case "json":
            return as_compare_json(compared)
        case "html":
            from serving.comparisons.compare.page import as_page

            return as_page(compared, name)
    return as_xml(compared.weighed.judgement, compared.tables)


def _current_runs(
    earlier: Sequence[ComparedRun], acknowledgements: Acknowledgements
) -> Iterator[ComparedRun]:
    for run in earlier:
        names = run.results[["benchmark", "operation"]]
        operations = list(names.drop_duplicates().itertuples(index=False, name=None))
        stale = acknowledgements.stale_operations(
            operations, Revision((run.version,), acknowledgements.target.directory)
        )
        current = ~pd.MultiIndex.from_frame(names).isin(stale) if stale else np.ones(len(names), bool)
        if current.any():
            yield replace(run, results=run.results[current])
