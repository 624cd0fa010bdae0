"""Requests to judge as they mostly come: whole and right, so that they are read in one go, into arrays.

What is refused here may still be right (`data.comparisons.formats.comparison_json` has the last word, and
says what is wrong); what is read here is always right.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from data.comparisons.request import JudgeRequest
from data.comparisons.sides import HISTORY_VERSIONS, LATER_VERSIONS, Samples, Sides, five_numbers, stated_of
from data.comparisons.tables import FIVE_NUMBERS, ComparisonTables, units
from data.comparisons.units import MAX_THREADS
from data.errors import InputError
from data.tables.documents import require_unique_keys


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
#: A list of samples, or one list per version.
PostedSide = list[float | list[float]] | PostedFive


class PostedConfiguration(Posted):
    """The samples of both sides at one number of threads."""

    baseline: PostedSide
    target: PostedSide
    threads: Annotated[int, msgspec.Meta(ge=1, le=MAX_THREADS)] = 1
    history: list[PostedSamples] = []
    later: list[PostedSamples] = []

    @property
    def is_sound(self) -> bool:
        """Whether each side holds either samples or lists of samples."""
        sides = (self.baseline, self.target)
        return all(len(set(map(type, one))) < 2 for one in sides if isinstance(one, list))  # noqa: PLR2004


class PostedComparison(Posted):
    """One operation, measured before and after."""

    comparison_id: str
    operation: str
    better: Literal["lower", "higher"]
    configurations: list[PostedConfiguration]
    benchmark: str = "unknown"
    machine: str = "unknown"
    unit: str = "unknown"
    siblings_worse: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None

    @property
    def is_sound(self) -> bool:
        """Whether every name has something written in it, and every configuration is sound."""
        names = (self.comparison_id, self.operation, self.benchmark, self.machine, self.unit)
        return all(map(str.strip, names)) and all(one.is_sound for one in self.configurations)


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

    @property
    def wishes(self) -> bool:
        """Whether the request says what its verdicts are to keep."""
        return (self.missed, self.false_alarms, self.costs) != (None, None, None)


_REQUESTS = msgspec.json.Decoder(PostedRequest)


def read(body: bytes) -> PostedRequest | None:
    """Return a request; None if anything may be wrong with it."""
    try:
        found = _REQUESTS.decode(body)
        require_unique_keys(body)
    except (ValueError, InputError):
        return None
    return found if all(one.is_sound for one in found.comparisons) else None


def posted_request(request: JudgeRequest) -> PostedRequest:
    """Return a request that was checked elsewhere, without the labels of its comparisons."""
    content = request.model_dump(exclude_unset=True, exclude={"comparisons"})
    comparisons = [one.model_dump(exclude_unset=True, exclude={"labels"}) for one in request.comparisons]
    return msgspec.convert(content | {"comparisons": comparisons}, PostedRequest)


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
        stated = stated_of([one.siblings_worse for one in comparisons])
        return cls(
            [one.comparison_id for one in comparisons],
            [one.benchmark for one in comparisons],
            [one.operation for one in comparisons],
            replace(lists.sides(len(comparisons)), siblings_worse=stated),
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
            sides = [_versions_of(one.baseline), _versions_of(one.target)]
            if any(sides) or isinstance(one.baseline, PostedFive) or isinstance(one.target, PostedFive):
                self._add(row, one, sides)
                self.signs.append(sign)

    def _add(self, row: int, one: PostedConfiguration, sides: list[list[list[float]]]) -> None:
        history = _with_samples(one.history)[-HISTORY_VERSIONS:]
        past, lengths, order = self._versions(history, -len(history)), [], 0
        for side, (samples, versions) in enumerate(zip((one.baseline, one.target), sides, strict=True)):
            if isinstance(samples, PostedFive):
                self.given.append((side, len(self.signs), _FIVE(samples)))
            lengths.append(self._versions(versions, order))
            order += max(len(versions), 1)
        later = self._versions(_with_samples(one.later)[:LATER_VERSIONS], order)
        self.configurations.extend((row, one.threads, past, *lengths, later))

    def _versions(self, versions: list[list[float]], order: int) -> int:
        """Add versions, the first at `order`; return how many samples they have."""
        start = len(self.values)
        for following, samples in enumerate(versions, order):
            self.values.extend(samples)
            self.versions.extend((following, len(samples)))
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


def _versions_of(side: PostedSide) -> list[list[float]]:
    """Return the versions of a side that have samples; five numbers have none."""
    if not isinstance(side, list) or not side:
        return []
    versions: Any = side if isinstance(side[0], list) else [side]
    return _with_samples(versions)


def _with_samples(versions: Sequence[PostedSamples]) -> list[list[float]]:
    return [samples for samples in versions if samples and isinstance(samples, list)]
