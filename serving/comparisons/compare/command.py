"""The command ``perfjudge compare``: read, judge, confirm, excuse and print."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from data.comparisons.pair import TwoRuns, matched_operations
from data.comparisons.params import Measure
from data.comparisons.tables import versions
from data.errors import InputError
from data.tables.problems import Problems
from serving.answering import write
from serving.comparisons.compare.acknowledging import (
    EXCUSABLE,
    Acknowledgements,
    Revision,
    head_commit,
    read_acknowledged,
)
from serving.comparisons.compare.reading import ComparedRun, ComparedRuns, Confirming, RunReader
from serving.comparisons.compare.rows import (
    ComparedSides,
    add_to_page,
    annotated,
    as_answer,
    as_cases,
    as_comment,
    as_table,
    rows_of,
)
from serving.comparisons.compare.weighing import Weighed, weigh
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


@dataclass(frozen=True, kw_only=True)
class Comparing:
    """The runs to compare, and how; without a target, two operations of the baseline are compared."""

    baseline: Sequence[Path]
    target: Sequence[Path]
    history: Sequence[Path]
    served: Judge
    measure: Measure
    #: assumed standard deviation between runs; see `features.comparisons.between_run_variation.offsets`
    assumed: float
    kind: str | None  # the format of all runs; None: detected from the content
    confirming: Confirming | None
    acknowledged: Path | None  # None: the default file, if it exists
    commits: tuple[str | None, str | None]  # of baseline and target; None: unknown, and the checked-out one
    matched: Sequence[str]  # as of `data.comparisons.pair.matched_operations`

    def compared(self) -> ComparedSides:
        """Compare both sides.

        Raises InputError if an input cannot be read, the sides have nothing in common or cannot be compared,
        or a confirmation command fails.
        """
        reader = RunReader(Problems(), self.measure, self.kind)
        runs = self._read_runs(reader)
        acknowledgements = self._acknowledgements(runs)
        runs = replace(runs, earlier=tuple(_current_runs(runs.earlier, acknowledgements)))
        pair = runs.paired()
        weighed, spans = self._weigh_pair(pair, reader), versions(pair.tables)
        if self.confirming is not None:
            excuses = acknowledgements.excuses(weighed.judgement.verdicts)
            doubted = np.isin(weighed.judgement.answers, EXCUSABLE) & [excuse is None for excuse in excuses]
            if doubted.any():
                runs = self.confirming.again(runs, pair.tables, doubted, reader)
                pair = replace(runs.paired(), missing=pair.missing, notes=pair.notes)
                weighed = weighed.beside(self._weigh_pair(pair, reader), doubted)
                spans = np.where(doubted, versions(pair.tables), spans).tolist()
        verdicts = weighed.judgement.verdicts
        rows = rows_of(weighed, pair.tables, spans, acknowledgements.excuses(verdicts), runs.matched)
        notes = (*weighed.judgement.notes, *acknowledgements.notes(verdicts))
        return ComparedSides(
            rows=tuple(rows),
            weighed=weighed,
            tables=pair.tables,
            missing=pair.missing,
            sides=runs.names,
            notes=notes,
        )

    def _read_runs(self, reader: RunReader) -> ComparedRuns:
        baseline = reader.runs(self.baseline)
        target = reader.runs(self.target) if self.target else baseline
        taken = {run.path.resolve() for run in (*baseline, *target)}
        earlier = (run for run in reader.history(self.history) if run.path.resolve() not in taken)
        runs = ComparedRuns(baseline, target, tuple(earlier))
        if self.matched:
            before, after = (pd.concat([run.results for run in side]) for side in (baseline, target))
            renamed = matched_operations(self.matched, before, after, runs.names)
            return runs.matching(renamed, reader.problems.note)
        if self.target:
            return runs
        if len(baseline) > 1:
            raise InputError("holds several runs; expected TARGET", file=self.baseline[0])
        return runs.matching(reader.two_commands(baseline[0]), reader.problems.note)

    def _acknowledgements(self, runs: ComparedRuns) -> Acknowledgements:
        directory = Path.cwd()
        commits = self.commits[0], self.commits[1] or head_commit(directory)
        baseline, target = (
            Revision((*dict.fromkeys(run.version for run in side), *filter(None, [commit])), directory)
            for side, commit in zip((runs.baseline, runs.target), commits, strict=True)
        )
        today = datetime.now(UTC).astimezone().date()
        return Acknowledgements(*read_acknowledged(self.acknowledged), baseline, target, today)

    def _weigh_pair(self, pair: TwoRuns, reader: RunReader) -> Weighed:
        return weigh(pair.tables, self.served, self.assumed, (*reader.problems.notes, *pair.notes))


def compare_runs(comparing: Comparing, outputs: Outputs, failing: Collection[str]) -> int:
    """Compare and print; return 1 if a row has an outcome that is `failing`, else 0.

    `failing`: outcomes, or "missing" for operations of only one side.
    Raises as `Comparing.compared`.
    """
    compared = comparing.compared()
    for form, path in outputs.files.items():
        if path is not None:
            write(_rendered(compared, form, outputs.name), path)
    if outputs.step_summary:
        add_to_page(as_comment(compared, outputs.name))
    if outputs.annotations:
        sys.stderr.writelines(annotated(compared))
    terminal = outputs.output is None and sys.stdout.isatty()
    content = _rendered(compared, outputs.shown, outputs.name, terminal=terminal)
    write(content, outputs.output, styled=terminal and outputs.shown == "table")
    present = {*compared.counts, *(["missing"] if compared.missing else [])}
    return 1 if present.intersection(failing) else 0


def _rendered(compared: ComparedSides, form: str, name: str, *, terminal: bool = False) -> str | bytes:
    match form:
        case "markdown":
            return as_comment(compared, name)
        case "junit":
            return as_cases(compared)
        case "json":
            return as_answer(compared)
        case "xml":
            return as_xml(compared.weighed.judgement, compared.tables)
    return as_table(compared, terminal=terminal)


def _current_runs(
    earlier: Sequence[ComparedRun], acknowledgements: Acknowledgements
) -> Iterator[ComparedRun]:
    """Yield earlier runs without results from before an accepted change."""
    for run in earlier:
        names = run.results[["benchmark", "operation"]]
        operations = list(names.drop_duplicates().itertuples(index=False, name=None))
        stale = acknowledgements.stale(operations, Revision((run.version,), acknowledgements.target.where))
        current = ~pd.MultiIndex.from_frame(names).isin(stale) if stale else np.ones(len(names), bool)
        if current.any():
            yield replace(run, results=run.results[current])
