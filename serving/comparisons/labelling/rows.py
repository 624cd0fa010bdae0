"""What pages show of comparisons: lines of the contents, rows of a report, and one with its details."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from serving.comparisons.judge import Judgement, Verdict
from serving.comparisons.labelling.boxes import BoxDrawing
from serving.comparisons.labelling.cells import ChangeCell, changes
from serving.comparisons.labelling.given import HIDDEN, GivenVote, Reader
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
    title, machine : str
    benchmarks : sequence of str
        Without what gives answers away, unless the reader has answered all of the report.
    fails, unsure : int or None
        By the model; None while it is not known, or the reader does not see everything.
    labelled : int
        Comparisons of which somebody says pass or fail, here or in the source.
    undecided : int
        Other comparisons of which somebody says that they cannot tell.
    open : int
        Those to label: not labelled, and not passed by the model where the reader sees everything.
    """

    report: OfferedReport
    title: str
    machine: str
    benchmarks: Sequence[str]
    fails: int | None
    unsure: int | None
    labelled: int
    undecided: int
    open: int

    @classmethod
    def of(
        cls, offered: Offered, report: OfferedReport, opinions: Opinions | None, reader: Reader
    ) -> ContentsLine:
        """Count what is in a report."""
        rows, given = report.rows.tolist(), reader.given
        names = {row: offered.named.identifiers[row] for row in rows}
        free = [
            row for row, name in names.items() if not given.is_decided(name) and name not in offered.labels
        ]
        answers = opinions.answers if opinions is not None else ()
        fails, unsure = (
            sum(answers[row] == said for row in rows) if answers else None for said in ("fail", "unsure")
        )
        wanted = sum(answers[row] in {"fail", "unsure"} for row in free) if answers else len(free)
        heading = Heading.of(offered, report, reader)
        return cls(
            report,
            heading.title,
            heading.machine,
            heading.benchmarks,
            fails,
            unsure,
            len(rows) - len(free),
            sum(names[row] in given.votes for row in free),
            wanted,
        )

    def has(self, text: str, operations: Iterable[str]) -> bool:
        """Return whether a text stands, in any case, in the line or in the name of an operation."""
        wanted = text.casefold()
        return any(
            wanted in one.casefold() for one in (self.title, self.machine, *self.benchmarks, *operations)
        )


@dataclass(frozen=True)
class Heading:
    """The names of a report, as far as they may be shown: its versions only if all of it may be."""

    title: str
    machine: str
    benchmarks: Sequence[str]
    shown: bool

    @classmethod
    def of(cls, offered: Offered, report: OfferedReport, reader: Reader) -> Heading:
        """Return the heading of a report for a reader."""
        rows, named = report.rows.tolist(), offered.named
        shown = all(reader.sees(named.identifiers[row]) for row in rows)
        machine, benchmarks = report.machine, {named.benchmarks[row] for row in rows}
        if not shown:
            machine = offered.masked(machine, rows[0])
            benchmarks = {offered.masked(one, rows[0]) for one in benchmarks}
        return cls(report.title(shown=shown), machine, sorted(benchmarks), shown)


@dataclass(frozen=True)
class ReportRow:
    """A comparison as a row of figure 6.2 of seed 000.

    Attributes
    ----------
    key, benchmark, operation : str
    cells : mapping
        By the number of threads.
    shown : bool
        Whether the reader may see what follows; without it there is neither a verdict nor a probability.
    verdict : Answer or None
        The model's.
    votes : sequence of GivenVote
        Where they may not be shown, their status is `HIDDEN`.
    source : str
        What the source's labels say, or `HIDDEN`; empty if nothing.
    answer : str
        What the reader says; empty if nothing.
    """

    key: str
    benchmark: str
    operation: str
    cells: Mapping[int, ChangeCell]
    shown: bool
    verdict: Answer | None
    probability: float | None
    votes: Sequence[GivenVote]
    source: str
    answer: str

    @property
    def urgency(self) -> int:
        """How soon the verdict wants attention, from 0."""
        return len(ANSWERS) if self.verdict is None else ANSWERS.index(self.verdict)


def rows_of(
    offered: Offered, rows: Ints, verdicts: Mapping[int, Verdict], reader: Reader
) -> Iterator[ReportRow]:
    """Yield some comparisons as rows of a report.

    Parameters
    ----------
    offered : Offered
    rows : ndarray of int
    verdicts : mapping
        The model's, by row, of those that the reader may see.
    reader : Reader
    """
    named, sides = offered.named, offered.part(rows).sides
    cells = list(changes(sides))
    stops = np.cumsum(sides.per_comparison)
    for row, stop, many in zip(rows.tolist(), stops.tolist(), sides.per_comparison.tolist(), strict=True):
        name = named.identifiers[row]
        shown, verdict = reader.sees(name), verdicts.get(row)
        benchmark, operation = named.benchmarks[row], named.operations[row]
        if not shown:
            benchmark, operation = (offered.masked(one, row) for one in (benchmark, operation))
        source = offered.labels.get(name, "")
        yield ReportRow(
            offered.keys[row],
            benchmark,
            operation,
            {cell.threads: cell for cell in cells[stop - many : stop]},
            shown,
            None if verdict is None else verdict.verdict,
            None if verdict is None else verdict.probability,
            reader.votes(name),
            source if shown or not source else HIDDEN,
            reader.answer(name),
        )


@dataclass(frozen=True)
class ShownComparison:
    """One comparison with all that helps to decide.

    Attributes
    ----------
    row : ReportRow
    report : OfferedReport
    title, machine : str
        The versions, or what stands for them while they are hidden; the machine.
    unit, better : str
    drawing : BoxDrawing
    told : Verdict or None
        The model's verdict with its reasons; None without a model, or where it may not be shown.
    model : ModelRef or None
    """

    row: ReportRow
    report: OfferedReport
    title: str
    machine: str
    unit: str
    better: str
    drawing: BoxDrawing
    told: Verdict | None
    model: ModelRef | None

    @classmethod
    def of(
        cls, offered: Offered, place: int, judgement: Judgement | None, reader: Reader, *, versions: bool
    ) -> ShownComparison:
        """Show the comparison of a row.

        Parameters
        ----------
        offered : Offered
        place : int
        judgement : Judgement or None
            Of this comparison alone; None where it may not be shown, or without a model.
        reader : Reader
        versions : bool
            Whether to name the versions.
        """
        only = np.array([place])
        sides, report = offered.part(only).sides, offered.report_of(place)
        better = "lower" if len(sides.sign) and sides.sign[0] < 0 else "higher"
        told = None if judgement is None else judgement.verdicts[0]
        return cls(
            next(rows_of(offered, only, {} if told is None else {place: told}, reader)),
            report,
            report.title(shown=versions),
            report.machine if versions else offered.masked(report.machine, place),
            offered.units[place],
            better,
            BoxDrawing.of(sides),
            told,
            None if judgement is None else judgement.model,
        )
