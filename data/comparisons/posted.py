"""Convert decoded requests to judge into the arrays of `Sides`, without building tables."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from data.comparisons.request import Comparison, Configuration, FiveNumbers
from data.comparisons.sides import (
    HISTORY_VERSIONS,
    LATER_VERSIONS,
    NamedSides,
    Samples,
    Sides,
    five_numbers,
    stated_of,
)
from data.comparisons.tables import FIVE_NUMBERS


def named_sides(comparisons: Sequence[Comparison]) -> NamedSides:
    """Return the sides of requested comparisons, equal to those of their tables."""
    return NamedSides(
        [one.comparison_id for one in comparisons],
        [one.benchmark for one in comparisons],
        [one.operation for one in comparisons],
        _SampleLists(comparisons).sides(stated_of([one.siblings_worse for one in comparisons])),
        lambda: [one.unit for one in comparisons],
    )


_FIVE = attrgetter(*FIVE_NUMBERS)
_BY_THREADS = attrgetter("threads")


class _SampleLists:
    """Collects the samples of comparisons in arrays.

    `versions` has the order and the number of samples of every version: earlier ones have orders below 0, the
    baseline 0, then follow the target and later ones. `configurations` has the row of the comparison, the
    threads, and the numbers of samples of history, baseline, target and later versions.
    """

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        self.n_comparisons = len(comparisons)
        self.values, self.signs = array("d"), array("d")
        self.versions, self.configurations = array("q"), array("q")
        self.summaries: list[tuple[int, int, tuple[float, ...]]] = []
        for row, comparison in enumerate(comparisons):
            sign = -1.0 if comparison.better == "lower" else 1.0
            for one in sorted(comparison.configurations, key=_BY_THREADS):
                if _is_measured(one.baseline) or _is_measured(one.target):
                    self._add(row, one)
                    self.signs.append(sign)

    def _add(self, row: int, one: Configuration) -> None:
        start, order = len(self.values), 0
        if one.history:
            history = _with_samples(one.history)[-HISTORY_VERSIONS:]
            self._add_versions(history, -len(history))
        stops = [len(self.values)]
        for place, side in enumerate((one.baseline, one.target)):
            versions: Sequence[list[float]] = ()
            if not isinstance(side, list):
                self.summaries.append((place, len(self.signs), _FIVE(side)))
            elif side:
                versions = _with_samples(side) if isinstance(side[0], list) else (side,)
                self._add_versions(versions, order)
            order += len(versions) or 1
            stops.append(len(self.values))
        if one.later:
            self._add_versions(_with_samples(one.later)[:LATER_VERSIONS], order)
        before, between, after = stops
        lengths = before - start, between - before, after - between, len(self.values) - after
        self.configurations.extend((row, one.threads, *lengths))

    def _add_versions(self, versions: Sequence[list[float]], first: int) -> None:
        """Append versions with consecutive orders from `first` on."""
        for order, samples in enumerate(versions, first):
            self.values.extend(samples)
            self.versions.extend((order, len(samples)))

    def sides(self, siblings_worse: np.ndarray[Any, Any] | None) -> Sides:
        versions = np.array(self.versions, np.int64).reshape(-1, 2)
        values, orders = np.array(self.values, np.float64), versions[:, 0].repeat(versions[:, 1])
        configurations = np.array(self.configurations, np.int64).reshape(-1, 6)
        stops = configurations[:, 2:].cumsum().reshape(-1, 4)
        starts = stops - configurations[:, 2:]
        lists = (Samples(values, orders, starts[:, at], stops[:, at]) for at in range(4))
        history, baseline, target, later = lists
        five = five_numbers(baseline.followed(target)).reshape(2, -1, len(FIVE_NUMBERS))
        for side, configuration, numbers in self.summaries:
            five[side, configuration] = numbers
        return Sides(
            configurations[:, 0], self.n_comparisons, configurations[:, 1], np.array(self.signs),
            baseline, target, history, later, five[0], five[1], siblings_worse=siblings_worse,
        )  # fmt: skip


def _is_measured(side: list[float] | list[list[float]] | FiveNumbers) -> bool:
    """Return whether a side is a summary or has at least one sample."""
    if not isinstance(side, list):
        return True
    return any(side) if side and isinstance(side[0], list) else bool(side)


def _with_samples(versions: Sequence[list[float] | FiveNumbers]) -> list[list[float]]:
    return [samples for samples in versions if samples and isinstance(samples, list)]
