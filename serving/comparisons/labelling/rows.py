"""What pages show of comparisons: lines of the contents, rows of a report, and one with its details."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.pair import counted
from data.comparisons.sides import Samples, Sides
from data.comparisons.tables import FIVE_NUMBERS
from serving.comparisons.judge import Judgement, Verdict
from serving.comparisons.labelling.offered import Ints, Offered, OfferedReport
from serving.comparisons.labelling.pool import HIDDEN, GivenVote, Reader
from serving.models import ModelRef
from serving.reports.verdict_lines import ANSWERS, Answer

#: From which share on a change has the next stronger colour.
_LEVELS = (0.01, 0.025, 0.05, 0.1)


class ChangeCell(NamedTuple):
    """What the median of one configuration did."""

    threads: int
    #: as a share of the baseline's median; negative is worse. None where it cannot be known.
    change: float | None

    @property
    def configuration(self) -> str:
        """In words."""
        return counted(self.threads, "thread")

    @property
    def told(self) -> str:
        """In percent, with its sign."""
        if self.change is None:
            return "\N{EN DASH}"
        rounded = round(100 * self.change, 1)
        digits = 1 if abs(rounded) < 100 else 0  # noqa: PLR2004 - of a number's digits, three count
        return f"{rounded:+.{digits}f}".replace("-", "\N{MINUS SIGN}") if rounded else "0.0"

    @property
    def level(self) -> str:
        """How strong its colour is: ``same``, or ``worse-1`` ... ``better-4``."""
        strength = sum(abs(self.change or 0.0) >= one for one in _LEVELS)
        side = "worse" if (self.change or 0.0) < 0 else "better"
        return f"{side}-{strength}" if strength else "same"


def changes(sides: Sides) -> Iterator[ChangeCell]:
    """Yield what every configuration did, in the order of the sides."""
    before, after = sides.baseline_five[:, 2], sides.target_five[:, 2]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        change = sides.sign * (after - before) / np.abs(before)
    for threads, one in zip(sides.threads.tolist(), change.tolist(), strict=True):
        yield ChangeCell(threads, one if np.isfinite(one) else None)


Floats = NDArray[np.float64]
#: Beyond so many interquartile ranges from its quartiles a box does not stretch the scale (J. Tukey).
_FAR = 1.5
#: Shares that the scale always holds, and the most that it does.
_LEAST, _MOST = 0.06, 3.0
_STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_TICKS = 7
#: Samples of a side that are drawn one by one.
_DOTS = 60
#: Numbers from here on have their thousands apart.
_GROUPED = 10_000
#: What stays free at both ends of a drawing, in percent of its width.
_MARGIN = 3.0


@dataclass(frozen=True)
class SideBox:
    """One side of a configuration; places are in percent of the drawing's width."""

    five: tuple[float, ...]  # Min, quartiles and max
    dots: tuple[float, ...]  # the samples, unless there are many
    told: str  # in words

    @property
    def left(self) -> float:
        """Where the box begins."""
        return min(self.five[1], self.five[3])

    @property
    def width(self) -> float:
        """How wide it is."""
        return abs(self.five[3] - self.five[1])


@dataclass(frozen=True)
class ConfigurationBoxes:
    """Baseline and target of a configuration, where they are known."""

    cell: ChangeCell
    baseline: SideBox | None
    target: SideBox | None
    medians: tuple[str, str]


@dataclass(frozen=True)
class BoxDrawing:
    """All configurations on one scale: the change against each one's baseline median, worse at the left."""

    pairs: Sequence[ConfigurationBoxes]
    ticks: Sequence[tuple[float, str]]  # where the scale has numbers, in percent of the width

    @classmethod
    def of(cls, sides: Sides) -> BoxDrawing:
        """Draw the sides of one comparison."""
        rows = range(len(sides.threads))
        relative = [_shares(sides, row, five[row]) for _, _, five in sides.both for row in rows]
        scale = _ShareScale.of(np.array(relative).reshape(-1, len(FIVE_NUMBERS)))
        pairs = []
        for row, cell in enumerate(changes(sides)):
            baseline, target = (_box(sides, row, side, scale) for side in sides.both)
            before, after = (number(five[row, 2]) for _, _, five in sides.both)
            pairs.append(ConfigurationBoxes(cell, baseline, target, (before, after)))
        return cls(pairs, scale.ticks)


@dataclass(frozen=True)
class _ShareScale:
    low: float
    high: float

    @classmethod
    def of(cls, five: Floats) -> _ShareScale:
        """Hold all boxes, and of their whiskers what is not far out."""
        known = np.sort(five[np.isfinite(five).all(axis=1)], axis=1)
        if not len(known):
            return cls(-_LEAST, _LEAST)
        reach = _FAR * (known[:, 3] - known[:, 1])
        low = np.maximum(known[:, 0], known[:, 1] - reach).min()
        high = np.minimum(known[:, 4], known[:, 3] + reach).max()
        return cls(max(-_MOST, min(low, -_LEAST)), min(_MOST, max(high, _LEAST)))

    def place(self, share: float) -> float:
        """Return where a change stands; what is beyond the ends stands at the end."""
        inside = min(max(share, self.low), self.high)
        return round(_MARGIN + (100 - 2 * _MARGIN) * (inside - self.low) / (self.high - self.low), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers, `_TICKS` at most."""
        step = next((one for one in _STEPS if (self.high - self.low) / one < _TICKS), _STEPS[-1])
        numbers = range(int(np.ceil(self.low / step)), int(np.floor(self.high / step)) + 1)
        return [(self.place(one * step), _percent(one * step)) for one in numbers]


def _percent(share: float) -> str:
    return f"{100 * share:+.3g} %".replace("-", "\N{MINUS SIGN}") if share else "0"


def _shares(sides: Sides, row: int, values: Floats) -> Floats:
    """Return values of a configuration as changes of its baseline's median; negative is worse."""
    middle = sides.baseline_five[row, 2]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.asarray(sides.sign[row] * (values - middle) / np.abs(middle))


def _box(sides: Sides, row: int, side: tuple[str, Samples, Floats], scale: _ShareScale) -> SideBox | None:
    name, samples, numbers = side[0], side[1].at(row), side[2][row]
    relative = _shares(sides, row, numbers)
    if not np.isfinite(relative).all():
        return None
    drawn = _shares(sides, row, samples) if len(samples) <= _DOTS else np.zeros(0)
    low, q1, median, q3, high = map(number, numbers)
    many = f", {len(samples)} samples" if len(samples) else ""
    told = f"{name}: median {median}, quartiles {q1} and {q3}, from {low} to {high}{many}"
    five, dots = (tuple(map(scale.place, found.tolist())) for found in (relative, drawn))
    return SideBox(five, dots, told)


def number(value: float) -> str:
    """Write a measured value with five digits, thousands apart."""
    if not np.isfinite(value):
        return "\N{EN DASH}"
    digits = f"{value:.5g}"
    return f"{float(digits):,.0f}" if "e+" in digits or abs(value) >= _GROUPED else digits


@dataclass(frozen=True)
class ContentsLine:
    """A report as the contents list it."""

    report: OfferedReport
    title: str
    machine: str
    #: without what gives answers away, unless the reader has answered all of the report
    benchmarks: Sequence[str]
    #: fails, unsure: by the model; None while it is not known, or the reader does not see everything
    fails: int | None
    unsure: int | None
    labelled: int  # comparisons of which somebody says pass or fail, here or in the source
    undecided: int  # other comparisons of which somebody says that they cannot tell
    open: int  # those to label: not labelled, and not passed by the model where the reader sees everything

    @classmethod
    def of(
        cls, offered: Offered, report: OfferedReport, answers: Sequence[Answer] | None, reader: Reader
    ) -> ContentsLine:
        """Count what is in a report."""
        rows, given = report.rows.tolist(), reader.given
        names = {row: offered.named.identifiers[row] for row in rows}
        free = [
            row for row, name in names.items() if not given.is_decided(name) and name not in offered.labels
        ]
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
    """A comparison as a row of figure 6.2 of seed 000."""

    key: str
    benchmark: str
    operation: str
    cells: Mapping[int, ChangeCell]  # by the number of threads
    #: whether the reader may see what follows; without it there is neither a verdict nor a probability
    shown: bool
    verdict: Answer | None  # the model's
    probability: float | None
    votes: Sequence[GivenVote]  # where they may not be shown, their status is `HIDDEN`
    source: str  # what the source's labels say, or `HIDDEN`; empty if nothing
    answer: str  # what the reader says; empty if nothing

    @property
    def urgency(self) -> int:
        """How soon the verdict wants attention, from 0."""
        return len(ANSWERS) if self.verdict is None else ANSWERS.index(self.verdict)


def rows_of(
    offered: Offered, rows: Ints, verdicts: Mapping[int, Verdict], reader: Reader
) -> Iterator[ReportRow]:
    """Yield some comparisons as rows of a report.

    `verdicts`: the model's, by row, of those that the reader may see.
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
    """One comparison with all that helps to decide."""

    row: ReportRow
    report: OfferedReport
    title: str  # title, machine: the versions, or what stands for them while they are hidden; the machine
    machine: str
    unit: str
    better: str
    drawing: BoxDrawing
    #: the model's verdict with its reasons; None without a model, or where it may not be shown
    told: Verdict | None
    model: ModelRef | None

    @classmethod
    def of(
        cls, offered: Offered, place: int, judgement: Judgement | None, reader: Reader, *, versions: bool
    ) -> ShownComparison:
        """Show the comparison of a row.

        `judgement`: of this comparison alone; None where it may not be shown, or without a model.
        `versions`: whether to name the versions.
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
