"""The content of labelling pages: entries of the contents, rows of a report, and one comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.comparisons.pair import number_with_noun
from data.comparisons.sides import Samples, Sides
from data.comparisons.tables import FIVE_NUMBERS
from serving.comparisons.judge import Judgement, Verdict
from serving.comparisons.labelling.offered import Ints, OfferedComparisons, OfferedReport
from serving.comparisons.labelling.pool import HIDDEN, GivenVote, Reader
from serving.models import ModelRef
from serving.reports.verdict_lines import ANSWERS, Answer

Floats = NDArray[np.float64]
#: Lower bounds of changes with the next stronger colour.
_LEVELS = (0.01, 0.025, 0.05, 0.1)
#: Whiskers longer than so many interquartile ranges do not stretch the scale (J. Tukey).
_FAR = 1.5
#: Least and largest half-width of the scale, as shares.
_LEAST, _MOST = 0.06, 3.0
_STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_TICKS = 7
#: Most samples of a side that are drawn as dots.
_DOTS = 60
#: Larger numbers have separated thousands.
_GROUPED = 10_000
#: Free space at both ends of a drawing, in percent of its width.
_MARGIN = 3.0


class ChangeCell(NamedTuple):
    """The change of the median of one configuration."""

    threads: int
    change: float | None  # as a share of the baseline's median; negative is worse, None is unknown

    @property
    def configuration(self) -> str:
        """The configuration in words, such as ``4 threads``."""
        return number_with_noun(self.threads, "thread")

    @property
    def text(self) -> str:
        """The change in percent with its sign, without a unit; a dash if unknown."""
        if self.change is None:
            return "\N{EN DASH}"
        rounded = round(100 * self.change, 1)
        digits = 1 if abs(rounded) < 100 else 0  # noqa: PLR2004 - three significant digits
        return f"{rounded:+.{digits}f}".replace("-", "\N{MINUS SIGN}") if rounded else "0.0"

    @property
    def level(self) -> str:
        """The class of its colour: ``same``, or ``worse-1`` ... ``better-4``."""
        strength = sum(abs(self.change or 0.0) >= bound for bound in _LEVELS)
        side = "worse" if (self.change or 0.0) < 0 else "better"
        return f"{side}-{strength}" if strength else "same"


def change_cells(sides: Sides) -> Iterator[ChangeCell]:
    """Yield the change of the median of every configuration, in the order of `sides`; negative is worse."""
    before, after = sides.baseline_five[:, 2], sides.target_five[:, 2]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        shares = sides.sign * (after - before) / np.abs(before)
    for threads, share in zip(sides.threads.tolist(), shares.tolist(), strict=True):
        yield ChangeCell(threads, share if np.isfinite(share) else None)


@dataclass(frozen=True)
class SideBox:
    """The box of one side of a configuration; positions are in percent of the drawing's width."""

    five: tuple[float, ...]  # minimum, quartiles and maximum
    dots: tuple[float, ...]  # the samples; empty if there are too many
    words: str  # the numbers in words

    @property
    def left(self) -> float:
        """The left end of the box."""
        return min(self.five[1], self.five[3])

    @property
    def width(self) -> float:
        """The width of the box."""
        return abs(self.five[3] - self.five[1])


@dataclass(frozen=True)
class ConfigurationBoxes:
    """The boxes of a configuration; None for a side without finite numbers."""

    cell: ChangeCell
    baseline: SideBox | None
    target: SideBox | None
    medians: tuple[str, str]


@dataclass(frozen=True)
class BoxDrawing:
    """All configurations on one scale: changes of each baseline's median, worse at the left."""

    pairs: Sequence[ConfigurationBoxes]
    ticks: Sequence[tuple[float, str]]  # positions and numbers of the scale, in percent of the width

    @classmethod
    def from_sides(cls, sides: Sides) -> BoxDrawing:
        """Return the boxes of one comparison, whose configurations are all in `sides`."""
        rows = range(len(sides.threads))
        shares = [_shares_of_median(sides, row, five[row]) for _, _, five in sides.both_sides for row in rows]
        scale = _ShareScale.from_boxes(np.array(shares).reshape(-1, len(FIVE_NUMBERS)))
        pairs = []
        for row, cell in enumerate(change_cells(sides)):
            baseline, target = (_side_box(sides, row, side, scale) for side in sides.both_sides)
            before, after = (format_number(five[row, 2]) for _, _, five in sides.both_sides)
            pairs.append(ConfigurationBoxes(cell, baseline, target, (before, after)))
        step = next((step for step in _STEPS if (scale.high - scale.low) / step < _TICKS), _STEPS[-1])
        numbers = range(int(np.ceil(scale.low / step)), int(np.floor(scale.high / step)) + 1)
        ticks = [(scale.scale_position(count * step), _percent_text(count * step)) for count in numbers]
        return cls(pairs, ticks)


class _ShareScale(NamedTuple):
    low: float
    high: float

    @classmethod
    def from_boxes(cls, five: Floats) -> _ShareScale:
        """Return a scale for all boxes, shape (n_boxes, 5), and for their whiskers unless these are long."""
        finite = np.sort(five[np.isfinite(five).all(axis=1)], axis=1)
        if not len(finite):
            return cls(-_LEAST, _LEAST)
        reach = _FAR * (finite[:, 3] - finite[:, 1])
        low = np.maximum(finite[:, 0], finite[:, 1] - reach).min()
        high = np.minimum(finite[:, 4], finite[:, 3] + reach).max()
        return cls(max(-_MOST, min(low, -_LEAST)), min(_MOST, max(high, _LEAST)))

    def scale_position(self, share: float) -> float:
        """Return the position of a change in percent of the width; outside of the scale, that of its end."""
        inside = min(max(share, self.low), self.high)
        return round(_MARGIN + (100 - 2 * _MARGIN) * (inside - self.low) / (self.high - self.low), 2)


def _percent_text(share: float) -> str:
    return f"{100 * share:+.3g} %".replace("-", "\N{MINUS SIGN}") if share else "0"


def _shares_of_median(sides: Sides, row: int, values: Floats) -> Floats:
    """Return values as changes of the baseline's median of a configuration; negative is worse."""
    median = sides.baseline_five[row, 2]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.asarray(sides.sign[row] * (values - median) / np.abs(median))


def _side_box(
    sides: Sides, row: int, side: tuple[str, Samples, Floats], scale: _ShareScale
) -> SideBox | None:
    name, samples, numbers = side[0], side[1].samples_of_row(row), side[2][row]
    shares = _shares_of_median(sides, row, numbers)
    if not np.isfinite(shares).all():
        return None
    dots = _shares_of_median(sides, row, samples) if len(samples) <= _DOTS else np.zeros(0)
    low, q1, median, q3, high = map(format_number, numbers)
    count = f", {len(samples)} samples" if len(samples) else ""
    words = f"{name}: median {median}, quartiles {q1} and {q3}, from {low} to {high}{count}"
    five, positions = (tuple(map(scale.scale_position, values.tolist())) for values in (shares, dots))
    return SideBox(five, positions, words)


def format_number(value: float) -> str:
    """Return a measured value with five significant digits and separated thousands; a dash if not finite."""
    if not np.isfinite(value):
        return "\N{EN DASH}"
    digits = f"{value:.5g}"
    return f"{float(digits):,.0f}" if "e+" in digits or abs(value) >= _GROUPED else digits


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
    """Yield the comparisons `rows` as rows of a report; names that `reader` may not see are masked.

    `verdicts`: the model's verdicts that the reader may see, by row.
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
