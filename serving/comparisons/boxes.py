"""Box plots of comparisons on a page: changes of the medians, boxes of both sides, and their scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from data.comparisons.pair import number_with_noun
from data.comparisons.sides import Floats, Samples, Sides

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
#: All configurations.
ALL = slice(None)


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
        """The change in percent with its sign, positive is worse, without a unit; a dash if unknown."""
        if self.change is None:
            return "\N{EN DASH}"
        rounded = -round(100 * self.change, 1)
        digits = 1 if abs(rounded) < 100 else 0  # noqa: PLR2004 - three significant digits
        return f"{rounded:+.{digits}f}".replace("-", "\N{MINUS SIGN}") if rounded else "0.0"

    @property
    def level(self) -> str:
        """The class of its colour: ``same``, or ``worse-1`` ... ``better-4``."""
        strength = sum(abs(self.change or 0.0) >= bound for bound in _LEVELS)
        side = "worse" if (self.change or 0.0) < 0 else "better"
        return f"{side}-{strength}" if strength else "same"


def change_cells(sides: Sides, rows: slice = ALL) -> Iterator[ChangeCell]:
    """Yield the number of threads and the change of the median of each configuration in `rows`, in order.

    The fields are ``threads`` and ``change``. The change is a share of the baseline's median, negative is
    worse; None if a side has no numbers or the baseline's median is 0.
    """
    before, after = sides.baseline_five[rows, 2], sides.target_five[rows, 2]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        shares = sides.sign[rows] * (after - before) / np.abs(before)
    for threads, share in zip(sides.threads[rows].tolist(), shares.tolist(), strict=True):
        yield ChangeCell(threads, share if np.isfinite(share) else None)


@dataclass(frozen=True)
class SideBox:
    """The box of one side of a configuration; positions are in percent of the drawing's width."""

    five: tuple[float, ...]  # minimum, quartiles and maximum
    dots: tuple[float, ...]  # the samples; empty if there are too many
    words: str  # the numbers in words


@dataclass(frozen=True)
class ConfigurationBoxes:
    """The boxes of a configuration; None for a side without finite numbers."""

    cell: ChangeCell
    baseline: SideBox | None
    target: SideBox | None
    medians: tuple[str, str]


@dataclass(frozen=True)
class BoxDrawing:
    """All configurations on one scale: changes of each baseline's median, worse at the right."""

    pairs: Sequence[ConfigurationBoxes]
    ticks: Sequence[tuple[float, str]]  # positions and numbers of the scale, in percent of the width

    @classmethod
    def from_sides(cls, sides: Sides, rows: slice = ALL) -> BoxDrawing:
        """Return the boxes of one comparison, whose configurations are `rows` of `sides`."""
        shares = [_shares_of_median(sides, rows, five[rows]) for _, _, five in sides.both_sides]
        scale = _ShareScale.from_boxes(np.concatenate(shares))
        pairs = []
        for row, cell in zip(range(len(sides.threads))[rows], change_cells(sides, rows), strict=True):
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


def _shares_of_median(sides: Sides, rows: int | slice, values: Floats) -> Floats:
    """Return values as changes of the baseline's median of their configurations; positive is worse."""
    median = sides.baseline_five[rows, 2, None]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.asarray(-sides.sign[rows, None] * (values - median) / np.abs(median))


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
    """Return a value with at most five significant digits, such as ``123,460``; an en dash if not finite.

    Thousands are separated from 10,000 on. Values below 0.0001 have an exponent, such as ``1.2346e-05``.
    """
    if not np.isfinite(value):
        return "\N{EN DASH}"
    digits = f"{value:.5g}"
    return f"{float(digits):,.0f}" if "e+" in digits or abs(float(digits)) >= _GROUPED else digits
