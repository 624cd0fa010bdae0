"""Baseline and target of one comparison as small box plots, one pair a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Samples, Sides
from data.comparisons.tables import FIVE_NUMBERS
from serving.comparisons.labelling.cells import ChangeCell, changes

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
    """One side of a configuration; places are in percent of the drawing's width.

    Attributes
    ----------
    five : tuple of float
        Min, quartiles and max.
    dots : tuple of float
        The samples, unless there are many.
    told : str
        In words.
    """

    five: tuple[float, ...]
    dots: tuple[float, ...]
    told: str

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
    """All configurations on one scale: the change against each one's baseline median, worse at the left.

    Attributes
    ----------
    pairs : sequence of ConfigurationBoxes
    ticks : sequence of (float, str)
        Where the scale has numbers, in percent of the width.
    """

    pairs: Sequence[ConfigurationBoxes]
    ticks: Sequence[tuple[float, str]]

    @classmethod
    def of(cls, sides: Sides) -> BoxDrawing:
        """Draw the sides of one comparison."""
        rows = range(len(sides.threads))
        relative = [_shares(sides, row, five[row]) for _, _, five in sides.both for row in rows]
        scale = _ShareScale.of(np.array(relative).reshape(-1, len(FIVE_NUMBERS)))
        pairs = [_pair(sides, row, cell, scale) for row, cell in enumerate(changes(sides))]
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


def _pair(sides: Sides, row: int, cell: ChangeCell, scale: _ShareScale) -> ConfigurationBoxes:
    baseline, target = (_box(sides, row, side, scale) for side in sides.both)
    before, after = (number(five[row, 2]) for _, _, five in sides.both)
    return ConfigurationBoxes(cell, baseline, target, (before, after))


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
