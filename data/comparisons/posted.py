"""Convert decoded requests to judge into the arrays of `Sides`, without building tables."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from data.comparisons.request import Comparison, Configuration, FiveNumbers, version_orders
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

_FIVE = attrgetter(*FIVE_NUMBERS)
_BY_THREADS = attrgetter("threads")


def named_sides(comparisons: Sequence[Comparison]) -> NamedSides:
    """Return ids, names, units and samples (as arrays) of decoded comparisons, in the order of `comparisons`.

    The result equals `NamedSides.from_tables` of the comparisons' tables, but here the first version of the
    baseline always has the order 0. Versions without samples do not count.
    """
    worse = stated_of([comparison.siblings_worse for comparison in comparisons])
    return NamedSides(
        [comparison.comparison_id for comparison in comparisons],
        [comparison.benchmark for comparison in comparisons],
        [comparison.operation for comparison in comparisons],
        _SampleLists(comparisons).build_sides(worse),
        lambda: [comparison.unit for comparison in comparisons],
    )


def version_ranges(comparisons: Sequence[Comparison]) -> list[str]:
    """Return per comparison a text with the orders of baseline and target, ``2..4 -> 5``; 0 is the oldest."""

    def range_of(first: int, stop: int) -> str:
        return f"{first}" if stop == first + 1 else f"{first}..{stop - 1}"

    orders = map(version_orders, comparisons)
    return [f"{range_of(start, end)} -> {range_of(end, later)}" for start, end, later, _ in orders]


def repeat_names(comparisons: Sequence[Comparison]) -> bool:
    """Return whether two comparisons have the same id, or one has two configurations with equal threads."""
    lists = [[comparison.comparison_id for comparison in comparisons]]
    lists += [list(map(_BY_THREADS, comparison.configurations)) for comparison in comparisons]
    return any(len({*names}) < len(names) for names in lists)


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
            for configuration in sorted(comparison.configurations, key=_BY_THREADS):
                if _is_measured(configuration.baseline) or _is_measured(configuration.target):
                    self._add_configuration(row, configuration)
                    self.signs.append(sign)

    def _add_configuration(self, row: int, configuration: Configuration) -> None:
        start, order = len(self.values), 0
        if configuration.history:
            history = _with_samples(configuration.history)[-HISTORY_VERSIONS:]
            self._add_versions(history, -len(history))
        stops = [len(self.values)]
        for place, side in enumerate((configuration.baseline, configuration.target)):
            versions: Sequence[list[float]] = ()
            if not isinstance(side, list):
                self.summaries.append((place, len(self.signs), _FIVE(side)))
            elif side:
                versions = _with_samples(side) if isinstance(side[0], list) else (side,)
                self._add_versions(versions, order)
            order += len(versions) or 1
            stops.append(len(self.values))
        if configuration.later:
            self._add_versions(_with_samples(configuration.later)[:LATER_VERSIONS], order)
        before, between, after = stops
        lengths = before - start, between - before, after - between, len(self.values) - after
        self.configurations.extend((row, configuration.threads, *lengths))

    def _add_versions(self, versions: Sequence[list[float]], first: int) -> None:
        for order, samples in enumerate(versions, first):
            self.values.extend(samples)
            self.versions.extend((order, len(samples)))

    def build_sides(self, siblings_worse: np.ndarray[Any, Any] | None) -> Sides:
        versions = np.array(self.versions, np.int64).reshape(-1, 2)
        values, orders = np.array(self.values, np.float64), versions[:, 0].repeat(versions[:, 1])
        configurations = np.array(self.configurations, np.int64).reshape(-1, 6)
        stops = configurations[:, 2:].cumsum().reshape(-1, 4)
        starts = stops - configurations[:, 2:]
        lists = (Samples(values, orders, starts[:, at], stops[:, at]) for at in range(4))
        history, baseline, target, later = lists
        five = five_numbers(baseline.followed_by(target)).reshape(2, -1, len(FIVE_NUMBERS))
        for side, configuration, numbers in self.summaries:
            five[side, configuration] = numbers
        return Sides(
            configurations[:, 0], self.n_comparisons, configurations[:, 1], np.array(self.signs),
            baseline, target, history, later, five[0], five[1], siblings_worse=siblings_worse,
        )  # fmt: skip


def _is_measured(side: list[float] | list[list[float]] | FiveNumbers) -> bool:
    if not isinstance(side, list):
        return True
    return any(side) if side and isinstance(side[0], list) else bool(side)


def _with_samples(versions: Sequence[list[float] | FiveNumbers]) -> list[list[float]]:
    return [samples for samples in versions if samples and isinstance(samples, list)]
