"""The content of labelling pages: entries of the contents, rows of a report, and one comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from serving.comparisons.boxes import BoxDrawing, ChangeCell, change_cells
from serving.comparisons.judge import Judgement, Verdict
from serving.comparisons.labelling.offered import Ints, OfferedComparisons, OfferedReport
from serving.comparisons.labelling.pool import HIDDEN, GivenVote, Reader
from serving.models import ModelRef
from serving.reports.verdict_lines import ANSWERS, Answer


@dataclass(frozen=True)
class Heading:
    """The names of a report; versions are masked unless the reader may see all its comparisons."""

    title: str
    machine: str
    benchmarks: Sequence[str]
    shown: bool

    @classmethod
    def from_report(cls, offered: OfferedComparisons, report: OfferedReport, reader: Reader) -> Heading:
        """Return the names of a report, with versions masked unless `reader` may see all its comparisons."""
        rows, named = report.rows.tolist(), offered.named
        shown = all(reader.may_see(named.identifiers[row]) for row in rows)
        machine, benchmarks = report.machine, {named.benchmarks[row] for row in rows}
        if not shown:
            machine = offered.mask_name(machine, rows[0])
            benchmarks = {offered.mask_name(benchmark, rows[0]) for benchmark in benchmarks}
        return cls(report.report_title(shown=shown), machine, sorted(benchmarks), shown)


@dataclass(frozen=True, kw_only=True)
class ContentsLine:
    """A report in the contents."""

    report: OfferedReport
    heading: Heading
    #: fails, unsure: number by the model; None while unknown, or if the reader may not see everything
    fails: int | None
    unsure: int | None
    labelled: int  # comparisons labelled pass or fail, here or in the source
    undecided: int  # other comparisons labelled "cannot tell"
    open: int  # unlabelled comparisons; if the reader sees everything, without those that the model passes

    @classmethod
    def from_report(
        cls,
        offered: OfferedComparisons,
        report: OfferedReport,
        answers: Sequence[Answer] | None,
        reader: Reader,
    ) -> ContentsLine:
        """Return the entry of a report; `answers`: the verdicts on all comparisons, None if unknown."""
        rows, labels = report.rows.tolist(), reader.labels
        names = {row: offered.named.identifiers[row] for row in rows}
        unlabelled = [
            row for row, name in names.items() if not labels.is_decided(name) and name not in offered.labels
        ]
        fails, unsure = (
            sum(answers[row] == answer for row in rows) if answers else None for answer in ("fail", "unsure")
        )
        return cls(
            report=report,
            heading=Heading.from_report(offered, report, reader),
            fails=fails,
            unsure=unsure,
            labelled=len(rows) - len(unlabelled),
            undecided=sum(names[row] in labels.votes for row in unlabelled),
            open=sum(not answers or answers[row] in {"fail", "unsure"} for row in unlabelled),
        )

    def contains_text(self, text: str, operations: Iterable[str]) -> bool:
        """Return whether a text occurs in the entry's names or in `operations`, ignoring case."""
        names = (self.heading.title, self.heading.machine, *self.heading.benchmarks, *operations)
        return any(text.casefold() in name.casefold() for name in names)


@dataclass(frozen=True, kw_only=True)
class ReportRow:
    """A comparison as a row of a report (scheduler thesis, figure 6.2)."""

    key: str
    benchmark: str
    operation: str
    cells: Mapping[int, ChangeCell]  # by the number of threads
    shown: bool  # whether the reader may see verdict and probability
    verdict: Answer | None  # the model's
    probability: float | None
    votes: Sequence[GivenVote]  # with the status `HIDDEN` where it may not be shown
    source: str  # the label in the source, or `HIDDEN`; empty without one
    answer: str  # the reader's label; empty without one

    @property
    def urgency(self) -> int:
        """The rank of the verdict by urgency: 0 for fail, 4 without a verdict."""
        return len(ANSWERS) if self.verdict is None else ANSWERS.index(self.verdict)


def report_rows(
    offered: OfferedComparisons, rows: Ints, verdicts: Mapping[int, Verdict], reader: Reader
) -> Iterator[ReportRow]:
    """Yield the comparisons with the indices `rows`, in this order, as rows of a report.

    Where `reader` may not see a comparison, versions in names become an ellipsis, and labels `HIDDEN`.
    `verdicts`: the model's verdicts to show, by index, whatever `reader` may see; others are None.
    """
    named, sides = offered.named, offered.select_comparisons(rows).sides
    cells = change_cells(sides)
    for row, count in zip(rows.tolist(), sides.per_comparison.tolist(), strict=True):
        name = named.identifiers[row]
        shown, verdict = reader.may_see(name), verdicts.get(row)
        benchmark, operation = named.benchmarks[row], named.operations[row]
        if not shown:
            benchmark, operation = (offered.mask_name(text, row) for text in (benchmark, operation))
        source = offered.labels.get(name, "")
        yield ReportRow(
            key=offered.keys[row],
            benchmark=benchmark,
            operation=operation,
            cells={cell.threads: cell for cell in islice(cells, count)},
            shown=shown,
            verdict=None if verdict is None else verdict.verdict,
            probability=None if verdict is None else verdict.probability,
            votes=reader.visible_votes(name),
            source=source if shown or not source else HIDDEN,
            answer=reader.reader_label(name),
        )


@dataclass(frozen=True, kw_only=True)
class ShownComparison:
    """One comparison with all details for its annotator."""

    row: ReportRow
    report: OfferedReport
    title: str  # title, machine: masked while the versions are hidden
    machine: str
    unit: str
    better: str
    drawing: BoxDrawing
    #: verdict, model: of the model; None without one, or if they may not be shown
    verdict: Verdict | None
    model: ModelRef | None

    @classmethod
    def from_row(
        cls,
        offered: OfferedComparisons,
        place: int,
        judgement: Judgement | None,
        reader: Reader,
        *,
        versions: bool,
    ) -> ShownComparison:
        """Return the details of the comparison in row `place`.

        `judgement`: of this comparison; None if it may not be shown, or without a model.
        `versions`: whether the versions may be shown.
        """
        rows = np.array([place])
        sides, report = offered.select_comparisons(rows).sides, offered.report_of(place)
        verdict = None if judgement is None else judgement.verdicts[0]
        return cls(
            row=next(report_rows(offered, rows, {} if verdict is None else {place: verdict}, reader)),
            report=report,
            title=report.report_title(shown=versions),
            machine=report.machine if versions else offered.mask_name(report.machine, place),
            unit=offered.units[place],
            better="lower" if len(sides.sign) and sides.sign[0] < 0 else "higher",
            drawing=BoxDrawing.from_sides(sides),
            verdict=verdict,
            model=None if judgement is None else judgement.model,
        )
