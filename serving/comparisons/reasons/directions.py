"""What worse and better are called: slower, less throughput, more memory, by the unit."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from data.comparisons.units import Unit, is_told


class Direction(NamedTuple):
    """What is said of a change, and of samples, that are worse or better."""

    worse: str
    better: str
    sample_worse: str
    sample_better: str

    @property
    def compares(self) -> bool:
        """Whether a median may be called so, as in "were slower"; else it is "with less"."""
        return self.worse == self.sample_worse


_PLAIN = Direction("worse", "better", "worse", "better")
_TIME = Direction("slower", "faster", "slower", "faster")
_LOW = Direction("lower", "higher", "lower", "higher")
_HIGH = Direction("higher", "lower", "higher", "lower")


@cache
def direction(unit: str, sign: float) -> Direction:
    """Return the words for a unit, where `sign` is -1 if lower values are better.

    Examples
    --------
    >>> direction("ms", -1).worse, direction("ops/s", 1).worse, direction("MiB", -1).worse
    ('slower', 'less throughput', 'more memory')
    """
    if not is_told(unit):
        return _PLAIN
    kind, lower = Unit.of(unit).kind, sign < 0
    if lower and kind.split("/")[0] == "ps":
        return _TIME
    if not lower and kind.endswith("/ps"):
        return Direction("less throughput", "more throughput", *_LOW[:2])
    if lower and kind == "bit" and unit.casefold().endswith(("b", "byte", "bytes")):
        return Direction("more memory", "less memory", *_HIGH[:2])
    return _HIGH if lower else _LOW
