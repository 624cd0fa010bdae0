"""What was measured of all versions of a timeline, in arrays that judging and drawing take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Ints, Samples, five_numbers
from data.comparisons.timelines.chosen import ChosenRuns
from data.comparisons.timelines.runs import RunSeries, TimelineRun
from data.comparisons.units import factor, is_told
from data.errors import InputError
from data.tables.problems import Problems

#: Fewer samples than this of a version say little of it: windows of versions stand for it.
FEW = 3
#: Windows take at least so many versions.
FEWEST_VERSIONS = 12


@dataclass(frozen=True)
class MeasuredOperation:
    """One operation.

    Attributes
    ----------
    threads : tuple of int
        Its configurations, ascending.
    first : int
        The row of the first configuration; the others follow.
    """

    benchmark: str
    operation: str
    unit: str
    better: str
    threads: tuple[int, ...]
    first: int

    @property
    def sign(self) -> float:
        """1 where higher is better, -1 where lower is."""
        return -1.0 if self.better == "lower" else 1.0

    @property
    def rows(self) -> slice:
        """The rows of its configurations."""
        return slice(self.first, self.first + len(self.threads))


@dataclass(frozen=True)
class MeasuredVersions:
    """All operations over all versions.

    Attributes
    ----------
    operations : tuple of MeasuredOperation
    values : ndarray of shape (n_samples,)
        A configuration after the other, a version after the other.
    edges : ndarray of shape (n_configurations, n_versions + 1)
        Version ``v`` of configuration ``i`` has the samples ``values[edges[i, v]:edges[i, v + 1]]``.
    five : ndarray of shape (n_configurations, n_versions, 5)
        Minimum, quartiles, maximum: of samples, or as given; NaN where nothing was measured.
    notes : tuple of str
    """

    operations: tuple[MeasuredOperation, ...]
    values: Floats
    edges: Ints
    five: Floats
    notes: tuple[str, ...] = ()

    @cached_property
    def counts(self) -> Ints:
        """How many samples there are, shape (n_configurations, n_versions)."""
        return np.diff(self.edges, axis=1)

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """What was measured, shape (n_configurations, n_versions)."""
        return np.isfinite(self.five[..., 2])

    @cached_property
    def alone(self) -> NDArray[np.bool_]:
        """Of which configurations single versions are compared, shape (n_configurations,).

        Those with at least `FEW` samples of most versions; and those with summaries only, of fewer versions
        than windows take. All configurations of an operation are alike.
        """
        few = np.where(self.known, self.counts, -1)
        usual = np.array([np.median(row[row >= 0]) if (row >= 0).any() else 0 for row in few])
        summaries = (self.counts.sum(axis=1) == 0) & (self.known.sum(axis=1) < FEWEST_VERSIONS)
        found = (usual >= FEW) | summaries
        for one in self.operations:
            found[one.rows] = found[one.rows].all()
        return np.asarray(found)


class _Cells:
    """Every series of every run on its way into a row and a column."""

    def __init__(self, chosen: ChosenRuns, problems: Problems) -> None:
        self.chosen, self.problems = chosen, problems
        self.firsts: dict[tuple[str, str], tuple[str, str, str]] = {}
        self.rows: dict[tuple[str, str, int], int] = {}
        self.kept: dict[RunSeries, tuple[int, float]] = {}
        self.notes: dict[str, None] = {}
        self._names = self._accepted()

    def _accepted(self) -> set[str]:
        runs = (run for found in self.chosen.runs.values() for run in found)
        names = {series.operation for run in runs for series in run.series}
        for rule in self.chosen.operations:
            names = rule.matching(names)
        return names

    def of(self, run: TimelineRun) -> Iterator[tuple[int, int, float]]:
        """Yield the place in the run, the row and the scale of every series that is shown."""
        for place, series in enumerate(run.series):
            if series not in self.kept:
                self.kept[series] = self._row(run, series)
            row, scale = self.kept[series]
            if row >= 0:
                yield place, row, scale

    def _row(self, run: TimelineRun, series: RunSeries) -> tuple[int, float]:
        if series.operation not in self._names:
            return -1, 1.0
        operation = series.benchmark, series.operation
        unit, better, source = self.firsts.setdefault(operation, (series.unit, series.better, run.source))
        place = f'operation "{series.operation}"'
        if series.better != better:
            problem = f'better="{series.better}" is not "{better}" as in {source}'
            self.problems.add(InputError(problem, file=run.source, place=place))
            return -1, 1.0
        told = is_told(unit) and is_told(series.unit)
        scale = factor(series.unit, unit) if told else Fraction(1)
        if scale is None:
            problem = f'unit "{series.unit}" cannot be converted to "{unit}" of {source}'
            self.problems.add(InputError(problem, file=run.source, place=place))
            return -1, 1.0
        if scale != 1:
            self.notes[f"{run.source}: {place} in {series.unit}, converted to {unit}"] = None
        return self.rows.setdefault((*operation, series.threads), len(self.rows)), float(scale)


def measured(chosen: ChosenRuns, problems: Problems) -> MeasuredVersions:
    """Put the runs of a timeline into arrays.

    Where an operation was measured twice of one version, the newest counts.

    Raises
    ------
    InputError
        If an operation was measured in opposite directions or in units of different kinds, unless
        ``problems.keep_going``; and if no operation is left.
    """
    cells = _Cells(chosen, problems)
    parts = list(_parts(chosen, cells))
    if not cells.rows:
        raise InputError("no operation is left", place=f'rules "{chosen.rules.title}"')
    order, operations = _operations(cells)
    width = len(chosen.versions)
    cell, lengths, five, values, notes = _latest(parts, order, width)
    place = np.argsort(cell, kind="stable")
    starts = np.cumsum(lengths) - lengths
    counts = np.zeros(len(order) * width, np.int64)
    counts[cell] = lengths
    edges = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(edges[-1]) - np.repeat(edges[:-1][cell[place]], lengths[place])
    taken = values[np.repeat(starts[place], lengths[place]) + within]
    rows = np.arange(len(order))[:, None] * width + np.arange(width + 1)
    boxes = np.full((len(counts), 5), np.nan)
    boxes[cell] = five
    sampled = five_numbers(Samples(taken, np.zeros(len(taken), np.int64), edges[:-1], edges[1:]))
    boxes = np.where(counts[:, None] > 0, sampled, boxes)
    shaped = boxes.reshape(len(order), width, 5)
    return MeasuredVersions(operations, taken, edges[rows], shaped, (*cells.notes, *notes))


@dataclass(frozen=True)
class _Part:
    """The series of one run: rows and their column, lengths, samples and summaries."""

    column: int
    rows: Ints
    lengths: Ints
    values: Floats
    five: Floats


def _parts(chosen: ChosenRuns, cells: _Cells) -> Iterator[_Part]:
    for column, version in enumerate(chosen.versions):
        for run in chosen.runs[version]:
            found = list(cells.of(run))
            if not found:
                continue
            places, rows, scales = (np.array(one) for one in zip(*found, strict=True))
            lengths = run.lengths[places]
            starts = (np.cumsum(run.lengths) - run.lengths)[places]
            within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            values = run.values[np.repeat(starts, lengths) + within] * np.repeat(scales, lengths)
            yield _Part(column, rows.astype(np.int64), lengths, values, run.five[places] * scales[:, None])


def _latest(
    parts: list[_Part], order: Ints, width: int
) -> tuple[Ints, Ints, Floats, Floats, tuple[str, ...]]:
    """Return cells, lengths, summaries and samples; of what stands twice, the last is not empty."""
    cell = np.concatenate([order[part.rows] * width + part.column for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    five = np.concatenate([part.five for part in parts])
    values = np.concatenate([part.values for part in parts])
    _, last = np.unique(cell[::-1], return_index=True)
    kept = np.zeros(len(cell), bool)
    kept[len(cell) - 1 - last] = True
    if kept.all():
        return cell, lengths, five, values, ()
    values = values[np.repeat(kept, lengths)]
    note = f"{int((~kept).sum())} configurations were measured again of the same version: the newest counts"
    return cell[kept], lengths[kept], five[kept], values, (note,)


def _operations(cells: _Cells) -> tuple[Ints, tuple[MeasuredOperation, ...]]:
    """Return where every row goes, by operations as they were met and by threads; and the operations."""
    names = {name: place for place, name in enumerate(cells.firsts)}
    keys = sorted(cells.rows, key=lambda key: (names[key[:2]], key[2]))
    order = np.empty(len(keys), np.int64)
    order[[cells.rows[key] for key in keys]] = np.arange(len(keys))
    threads: dict[tuple[str, str], list[int]] = {}
    for key in keys:
        threads.setdefault(key[:2], []).append(key[2])
    found, first = list[MeasuredOperation](), 0
    for name, own in threads.items():
        unit, better, _ = cells.firsts[name]
        found.append(MeasuredOperation(*name, unit, better, tuple(own), first))
        first += len(own)
    return order, tuple(found)
