"""What pages show of comparisons: lines of the contents, rows of a report, and one with its details."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from serving.comparisons.judge import Judgement, Verdict
from serving.comparisons.labelling.boxes import BoxDrawing
from serving.comparisons.labelling.cells import ChangeCell, changes
from serving.comparisons.labelling.given import GivenVote, LabelsGiven
from serving.comparisons.labelling.offered import Ints, Offered, OfferedReport
from serving.comparisons.labelling.opinions import Opinions
from serving.models import ModelRef
from serving.pages.verdict_lines import ANSWERS, Answer


@dataclass(frozen=True)
class ContentsLine:
    """A report as the contents list it.

    Attributes
    ----------
    report : OfferedReport
    benchmarks : sequence of str
    fails, unsure : int or None
        By the model; None while it is not known.
    labelled : int
        Comparisons that somebody has labelled, here or in the source.
    open : int
        Those that fail or are unsure and that nobody has labelled.
    """

    report: OfferedReport
    benchmarks: Sequence[str]
    fails: int | None
    unsure: int | None
    labelled: int
    open: int

    @classmethod
    def of(
        cls, offered: Offered, report: OfferedReport, opinions: Opinions | None, given: LabelsGiven
    ) -> ContentsLine:
        """Count what is in a report."""
        rows, named = report.rows.tolist(), offered.named
        free = [
            row
            for row in rows
            if named.identifiers[row] not in given.votes and named.identifiers[row] not in offered.labels
        ]
        answers = opinions.answers if opinions is not None else ()
        fails, unsure = (
            sum(answers[row] == said for row in rows) if answers else None for said in ("fail", "unsure")
        )
        wanted = sum(answers[row] in {"fail", "unsure"} for row in free) if answers else 0
        benchmarks = sorted({named.benchmarks[row] for row in rows})
        return cls(report, benchmarks, fails, unsure, len(rows) - len(free), wanted)


@dataclass(frozen=True)
class ReportRow:
    """A comparison as a row of figure 6.2 of seed 000.

    Attributes
    ----------
    key, comparison_id, benchmark, operation : str
    cells : mapping
        By the number of threads.
    verdict : Answer or None
        The model's.
    votes : sequence of GivenVote
    own : str
        What the source's labels say; empty if nothing.
    """

    key: str
    comparison_id: str
    benchmark: str
    operation: str
    cells: Mapping[int, ChangeCell]
    verdict: Answer | None
    probability: float | None
    votes: Sequence[GivenVote]
    own: str

    @property
    def urgency(self) -> int:
        """How soon the verdict wants attention, from 0."""
        return len(ANSWERS) if self.verdict is None else ANSWERS.index(self.verdict)


def rows_of(
    offered: Offered, rows: Ints, judgement: Judgement | None, given: LabelsGiven
) -> Iterator[ReportRow]:
    """Yield some comparisons as rows of a report."""
    named, sides = offered.named, offered.part(rows).sides
    cells = list(changes(sides))
    stops = np.cumsum(sides.per_comparison)
    verdicts = [None] * len(rows) if judgement is None else judgement.verdicts
    for row, stop, many, verdict in zip(
        rows.tolist(), stops.tolist(), sides.per_comparison.tolist(), verdicts, strict=True
    ):
        name = named.identifiers[row]
        yield ReportRow(
            offered.keys[row],
            name,
            named.benchmarks[row],
            named.operations[row],
            {cell.threads: cell for cell in cells[stop - many : stop]},
            None if verdict is None else verdict.verdict,
            None if verdict is None else verdict.probability,
            given.votes.get(name, ()),
            offered.labels.get(name, ""),
        )


@dataclass(frozen=True)
class ShownComparison:
    """One comparison with all that helps to decide.

    Attributes
    ----------
    row : ReportRow
    report : OfferedReport
    unit, better : str
    drawing : BoxDrawing
    told : Verdict or None
        The model's verdict with its reasons; None without a model.
    model : ModelRef or None
    """

    row: ReportRow
    report: OfferedReport
    unit: str
    better: str
    drawing: BoxDrawing
    told: Verdict | None
    model: ModelRef | None

    @classmethod
    def of(
        cls, offered: Offered, place: int, judgement: Judgement | None, given: LabelsGiven
    ) -> ShownComparison:
        """Show the comparison of a row; the judgement is of it alone."""
        only = np.array([place])
        sides = offered.part(only).sides
        better = "lower" if len(sides.sign) and sides.sign[0] < 0 else "higher"
        return cls(
            next(rows_of(offered, only, judgement, given)),
            offered.report_of(place),
            offered.units[place],
            better,
            BoxDrawing.of(sides),
            None if judgement is None else judgement.verdicts[0],
            None if judgement is None else judgement.model,
        )
