"""What ``perfjudge compare`` does: read, judge, weigh, run again what is in doubt, excuse, and tell."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from data.comparisons.pair import TwoRuns, matched_operations, paired_runs
from data.comparisons.params import Measure
from data.comparisons.tables import versions
from data.errors import InputError
from data.tables.problems import Problems
from serving.answering import write
from serving.comparisons.compare.acknowledging import Acknowledgements, Revision, head, read_acknowledged
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


@dataclass(frozen=True)
class Failing:
    """What makes the exit code 1."""

    regression: bool
    missing: bool
    unsure: bool


@dataclass(frozen=True)
class Outputs:
    """Where the answer goes."""

    shown: str  # table, json, xml, markdown or junit; to `output`, or to standard output
    output: Path | None
    markdown: Path | None = None  # markdown, junit, json: further files
    junit: Path | None = None
    json: Path | None = None
    #: annotations, page: whether GitHub's annotations are written to standard error, and Markdown to the page
    #: of its step
    annotations: bool = False
    page: bool = False
    name: str = ""  # what tells this comment from those of other comparisons


@dataclass(frozen=True)
class ComparedPaths:
    """Files or directories of runs; without a target, two operations of the baseline are compared."""

    baseline: Sequence[Path]
    target: Sequence[Path]
    history: Sequence[Path] = ()


@dataclass(frozen=True)
class Comparing:
    """How two sides are compared."""

    served: Judge
    measure: Measure
    #: by how much runs differ where nothing tells; see `features.comparisons.between_run_variation.offsets`
    assumed: float
    kind: str | None = None  # the format of all runs; None: what their content says
    confirming: Confirming | None = None
    acknowledged: Path | None = None  # None: the default file, if it is there
    #: those of baseline and target; by default the target's is what is checked out
    commits: tuple[str | None, str | None] = (None, None)
    matched: Sequence[str] = ()  # as of `data.comparisons.pair.matched_operations`

    def compared(self, paths: ComparedPaths) -> ComparedSides:
        """Compare what both sides measured.

        Raises InputError if something cannot be read, the sides have nothing in common or cannot be
        compared, or a command that is to confirm fails.
        """
        reader = RunReader(Problems(), self.measure, self.kind)
        runs, told = self._read(paths, reader), read_acknowledged(self.acknowledged)
        baseline, target = self._revisions(runs)
        says = Acknowledgements(*told, baseline, target, datetime.now(UTC).astimezone().date())
        runs = replace(runs, earlier=tuple(_current(runs.earlier, says)))
        pair = _paired(runs)
        weighed, spans = self._weighed(pair, reader), versions(pair.tables)
        if self.confirming is not None:
            doubted = np.array([_doubted(weighed, row, says) for row in range(len(weighed.judged))], bool)
            if doubted.any():
                runs = self.confirming.again(runs, pair.tables, doubted, reader)
                then = replace(_paired(runs), missing=pair.missing, notes=pair.notes)
                weighed, pair = weighed.beside(self._weighed(then, reader), doubted), then
                spans = np.where(doubted, versions(pair.tables), spans).tolist()
        return _told(weighed, pair, spans, says, runs)

    def _read(self, paths: ComparedPaths, reader: RunReader) -> ComparedRuns:
        runs = _read(paths, reader)
        if self.matched:
            before, after = (
                pd.concat([run.results for run in side]) for side in (runs.baseline, runs.target)
            )
            renamed = matched_operations(self.matched, before, after, runs.names)
            return runs.matching(renamed, reader.problems.note)
        if paths.target:
            return runs
        if len(runs.baseline) > 1:
            raise InputError("holds several runs; expected TARGET", file=paths.baseline[0])
        return runs.matching(reader.two_commands(runs.baseline[0]), reader.problems.note)

    def _revisions(self, runs: ComparedRuns) -> Iterator[Revision]:
        here = Path.cwd()
        commits = self.commits[0], self.commits[1] or head(here)
        for side, commit in zip((runs.baseline, runs.target), commits, strict=True):
            names = dict.fromkeys(run.version for run in side)
            yield Revision((*names, *([commit] if commit else [])), here)

    def _weighed(self, pair: TwoRuns, reader: RunReader) -> Weighed:
        return weigh(pair.tables, self.served, self.assumed, (*reader.problems.notes, *pair.notes))


def compare_runs(comparing: Comparing, paths: ComparedPaths, outputs: Outputs, failing: Failing) -> int:
    """Compare, tell, and return the exit code; raises as `Comparing.compared`."""
    compared = comparing.compared(paths)
    _give(compared, outputs)
    fails = (
        failing.regression and compared.counts["regression"],
        failing.unsure and compared.counts["unsure"],
        failing.missing and compared.missing,
    )
    return 1 if any(fails) else 0


def _give(compared: ComparedSides, outputs: Outputs) -> None:
    """Write the answer wherever it is wanted."""
    for path, form in ((outputs.markdown, "markdown"), (outputs.junit, "junit"), (outputs.json, "json")):
        if path is not None:
            write(_shown(compared, replace(outputs, shown=form)), path)
    if outputs.page:
        add_to_page(as_comment(compared, outputs.name))
    if outputs.annotations:
        sys.stderr.writelines(annotated(compared))
    styled = outputs.shown == "table" and outputs.output is None and sys.stdout.isatty()
    write(_shown(compared, outputs), outputs.output, styled=styled)


def _shown(compared: ComparedSides, outputs: Outputs) -> str | bytes:
    match outputs.shown:
        case "markdown":
            return as_comment(compared, outputs.name)
        case "junit":
            return as_cases(compared)
        case "json":
            return as_answer(compared)
        case "xml":
            return as_xml(compared.weighed.judgement, compared.tables)
    return as_table(compared, terminal=outputs.output is None and sys.stdout.isatty())


def _read(paths: ComparedPaths, reader: RunReader) -> ComparedRuns:
    baseline = reader.runs(paths.baseline)
    target = reader.runs(paths.target) if paths.target else baseline
    taken = {run.path.resolve() for run in (*baseline, *target)}
    earlier = (run for run in reader.history(paths.history) if run.path.resolve() not in taken)
    return ComparedRuns(baseline, target, tuple(earlier))


def _paired(runs: ComparedRuns) -> TwoRuns:
    baseline, target, earlier = (
        [run.results for run in side] for side in (runs.baseline, runs.target, runs.earlier)
    )
    return paired_runs(baseline, target, earlier, runs.names)


def _current(earlier: Sequence[ComparedRun], says: Acknowledgements) -> Iterator[ComparedRun]:
    """Yield earlier runs without what was measured before a change that was meant."""
    for run in earlier:
        named = run.results[["benchmark", "operation"]]
        different = list(named.drop_duplicates().itertuples(index=False, name=None))
        stale = says.stale(different, Revision((run.version,), says.target.where))
        gone = {names for names, one in zip(different, stale, strict=True) if one}
        kept = ~pd.MultiIndex.from_frame(named).isin(gone) if gone else np.ones(len(named), bool)
        if kept.any():
            yield replace(run, results=run.results[kept])


def _doubted(weighed: Weighed, row: int, says: Acknowledgements) -> bool:
    """Tell whether a comparison is worth further runs."""
    verdict = weighed.judgement.verdicts[row]
    return verdict.verdict in {"fail", "unsure"} and says.excuse(verdict) is None


def _told(
    weighed: Weighed, pair: TwoRuns, spans: Sequence[str], says: Acknowledgements, runs: ComparedRuns
) -> ComparedSides:
    verdicts = weighed.judgement.verdicts
    excuses = [says.excuse(one) if one.verdict in {"fail", "unsure"} else None for one in verdicts]
    notes = (*weighed.judgement.notes, *says.notes(verdicts))
    rows = tuple(rows_of(weighed, pair.tables, spans, excuses, runs.matched))
    return ComparedSides(rows, weighed, pair.tables, pair.missing, runs.names, notes)
