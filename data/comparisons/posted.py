"""Requests to judge as they mostly come: whole and right, so that they are read in one go, into arrays.

What is refused here may still be right (`data.comparisons.formats.comparison_json` has the last word, and
says what is wrong); what is read here is always right.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Annotated, Literal

import msgspec
import numpy as np

from data.comparisons.request import MAX_THREADS, Comparison
from data.comparisons.sides import HISTORY_VERSIONS, LATER_VERSIONS, Samples, Sides, five_numbers
from data.comparisons.tables import FIVE_NUMBERS, ComparisonTables, units


class Posted(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A part of a request. Names and bounds are those of `data.comparisons.request`."""


class PostedFive(Posted):
    """A summary in place of samples."""

    min: float
    q1: float
    median: float
    q3: float
    max: float
    mean: float = 0.0
    stdev: float = 0.0


PostedSamples = list[float] | PostedFive


class PostedConfiguration(Posted):
    """The samples of both sides at one number of threads."""

    baseline: PostedSamples
    target: PostedSamples
    threads: Annotated[int, msgspec.Meta(ge=1, le=MAX_THREADS)] = 1
    history: list[PostedSamples] = []
    later: list[PostedSamples] = []


class PostedComparison(Posted):
    """One operation, measured before and after."""

    comparison_id: str
    operation: str
    better: Literal["lower", "higher"]
    configurations: list[PostedConfiguration]
    benchmark: str = "unknown"
    machine: str = "unknown"
    unit: str = "unknown"

    @property
    def is_sound(self) -> bool:
        """Whether every name has something written in it."""
        names = (self.comparison_id, self.operation, self.benchmark, self.machine, self.unit)
        return all(map(str.strip, names))


_Cost = Annotated[float, msgspec.Meta(gt=0)]
_Wished = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class PostedCosts(Posted):
    """What mistakes and looks cost."""

    miss: _Cost
    false_alarm: _Cost
    look: _Cost


class PostedRequest(Posted):
    """Comparisons to be judged, and what the verdicts are to keep."""

    comparisons: Annotated[list[PostedComparison], msgspec.Meta(min_length=1)]
    missed: _Wished | None = None
    false_alarms: _Wished | None = None
    costs: PostedCosts | None = None


_REQUESTS = msgspec.json.Decoder(PostedRequest)


def read(body: bytes) -> list[PostedComparison] | None:
    """Return the comparisons of a request; None if anything may be wrong with it."""
    try:
        found = _REQUESTS.decode(body).comparisons
    except ValueError:
        return None
    return found if all(one.is_sound for one in found) else None


def posted(comparison: Comparison) -> PostedComparison:
    """Return the same of a comparison that was checked elsewhere, without what people say of it."""
    return msgspec.convert(comparison.model_dump(exclude_unset=True, exclude={"labels"}), PostedComparison)


@dataclass(frozen=True)
class NamedSides:
    """Comparisons by what they are called, and their sides.

    Attributes
    ----------
    identifiers, benchmarks, operations : sequence of str
        One of each per comparison.
    sides : Sides
    units : callable
        Returns the unit of each; only those who write for people ask.
    """

    identifiers: Sequence[str]
    benchmarks: Sequence[str]
    operations: Sequence[str]
    sides: Sides
    units: Callable[[], Sequence[str]]

    @classmethod
    def of(cls, tables: ComparisonTables) -> NamedSides:
        """Name and gather the comparisons of `tables`."""
        identifiers, benchmarks, operations = (
            tables.comparisons[name].tolist() for name in ("comparison_id", "benchmark", "operation")
        )
        return cls(identifiers, benchmarks, operations, Sides.of(tables), partial(units, tables))

    @classmethod
    def posted(cls, comparisons: Sequence[PostedComparison]) -> NamedSides:
        """Gather comparisons of requests: the sides that their tables would have."""
        lists = _Lists()
        for row, comparison in enumerate(comparisons):
            lists.add(row, comparison)
        return cls(
            [one.comparison_id for one in comparisons],
            [one.benchmark for one in comparisons],
            [one.operation for one in comparisons],
            lists.sides(len(comparisons)),
            lambda: [one.unit for one in comparisons],
        )


_FIVE = attrgetter(*FIVE_NUMBERS)
_BY_THREADS = attrgetter("threads")


@dataclass
class _Lists:
    """Lists of samples on their way into arrays.

    Attributes
    ----------
    values : array of float
    versions : array of int
        The order and the number of samples of every version: earlier ones below 0, the baseline's 0, the
        target's 1, later ones above.
    configurations : array of int
        Of each: its comparison's row, its threads, and how many samples its history, its sides and its later
        versions have.
    signs : array of float
    given : list
        Five numbers: of which side (0 or 1), of which configuration.
    """

    values: array[float] = field(default_factory=lambda: array("d"))
    versions: array[int] = field(default_factory=lambda: array("q"))
    configurations: array[int] = field(default_factory=lambda: array("q"))
    signs: array[float] = field(default_factory=lambda: array("d"))
    given: list[tuple[int, int, tuple[float, ...]]] = field(default_factory=list)

    def add(self, row: int, comparison: PostedComparison) -> None:
        """Add a comparison: its configurations by their threads."""
        sign = -1.0 if comparison.better == "lower" else 1.0
        for one in sorted(comparison.configurations, key=_BY_THREADS):
            if one.baseline or one.target:
                self._add(row, one)
                self.signs.append(sign)

    def _add(self, row: int, one: PostedConfiguration) -> None:
        past = self._versions(one.history, slice(-HISTORY_VERSIONS, None)) if one.history else 0
        lengths = []
        for side, samples in enumerate((one.baseline, one.target)):
            if isinstance(samples, list):
                self.values.extend(samples)
                self.versions.extend((side, len(samples)))
                lengths.append(len(samples))
            else:
                self.given.append((side, len(self.signs), _FIVE(samples)))
                lengths.append(0)
        later = self._versions(one.later, slice(LATER_VERSIONS), 2) if one.later else 0
        self.configurations.extend((row, one.threads, past, *lengths, later))

    def _versions(self, given: list[PostedSamples], kept: slice, first: int | None = None) -> int:
        """Add those of the versions with samples that are `kept`; return how many samples they have.

        Their orders begin with `first`; without it they end with -1.
        """
        start = len(self.values)
        versions = [samples for samples in given if samples and isinstance(samples, list)][kept]
        for order, samples in enumerate(versions, -len(versions) if first is None else first):
            self.values.extend(samples)
            self.versions.extend((order, len(samples)))
        return len(self.values) - start

    def sides(self, n_comparisons: int) -> Sides:
        """Return what was added."""
        versions = np.array(self.versions, np.int64).reshape(-1, 2)
        values, orders = np.array(self.values, np.float64), versions[:, 0].repeat(versions[:, 1])
        configurations = np.array(self.configurations, np.int64).reshape(-1, 6)
        stops = configurations[:, 2:].cumsum().reshape(-1, 4)
        starts = stops - configurations[:, 2:]
        lists = [Samples(values, orders, starts[:, at], stops[:, at]) for at in range(4)]
        history, baseline, target, later = lists
        five = five_numbers(baseline.followed(target)).reshape(2, -1, len(FIVE_NUMBERS))
        for side, configuration, numbers in self.given:
            five[side, configuration] = numbers
        owners, threads = configurations[:, 0], configurations[:, 1]
        signs = np.array(self.signs)
        samples = baseline, target, history, later
        return Sides(owners, n_comparisons, threads, signs, *samples, five[0], five[1])
