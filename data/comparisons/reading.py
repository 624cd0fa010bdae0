"""What a reader gives: pieces of tables as it goes, results kept so that a row costs a few bytes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from data.comparisons.tables import COMPARISON_DTYPES, LABEL_DTYPES, RESULT_DTYPES, STATS, ComparisonTables
from data.tables.specs import typed

#: Rows of results in a piece.
PIECE = 50_000
#: How a sample that is no summary statistic is marked: -1 as a byte.
_RAW = b"\xff"


class Series(NamedTuple):
    """What all results of one series have in common."""

    series_id: str
    group: str
    benchmark: str
    operation: str
    machine: str
    unit: str
    better: str
    threads: int


class LabelRow(NamedTuple):
    """One label: a person's, if it names an annotator, otherwise one that the source has settled."""

    comparison_id: str
    status: str
    labelled_by: str
    annotator: str | None = None
    labelled_at: datetime | None = None


class Results:
    """Lists of values, each of one series at one version.

    Parameters
    ----------
    further : sequence of str
        Names of further columns of numbers that every list comes with.
    """

    def __init__(self, further: Sequence[str] = ()) -> None:
        self._further = tuple(further)
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._series: dict[Series, int] = {}
        self._versions: dict[str, int] = {}
        self._lists = array("q")
        self._values = array("d")
        self._stats = array("b")
        self._columns = {name: array("d") for name in self._further}

    def __len__(self) -> int:
        return len(self._values)

    def samples(
        self,
        series: Series,
        order: int,
        version: str | None,
        values: Sequence[float],
        *further: Sequence[float],
    ) -> None:
        """Add raw samples, and what else was measured with each."""
        length = len(values)
        self._values.extend(values)
        self._stats.frombytes(_RAW * length)
        if further or self._columns:
            for column, numbers in zip(self._columns.values(), further, strict=True):
                column.extend(numbers)
        self._list(series, order, version, length)

    def summary(self, series: Series, order: int, version: str | None, numbers: Mapping[str, float]) -> None:
        """Add summary statistics by their names in `STATS`."""
        self._values.extend(numbers.values())
        self._stats.extend(map(STATS.index, numbers))
        for column in self._columns.values():
            column.extend((np.nan,) * len(numbers))
        self._list(series, order, version, len(numbers))

    def frame(self) -> pd.DataFrame:
        """Return the table of results."""
        *lists, length = np.array(self._lists, np.int64).reshape(-1, 4).T
        series, order, version = (np.repeat(numbers, length) for numbers in lists)
        transposed = zip(*self._series, strict=True) if self._series else ((),) * len(Series._fields)
        common = zip(Series._fields, transposed, strict=True)
        columns: dict[str, Any] = {
            name: np.asarray(values, np.int64)[series] if name == "threads" else strings(values, series)
            for name, values in common
        }
        columns["version"] = strings(self._versions, version)
        columns["order"] = order
        columns["measured_at"] = np.full(len(order), np.datetime64("NaT"), "datetime64[us]")
        columns["value"] = np.array(self._values, np.float64)
        columns["stat"] = strings(STATS, np.asarray(self._stats, np.int64))
        columns |= {name: np.array(numbers, np.float64) for name, numbers in self._columns.items()}
        frame = pd.DataFrame(columns)
        frame["measured_at"] = frame["measured_at"].dt.tz_localize("UTC")
        return frame[[*RESULT_DTYPES, *self._further]]

    def _list(self, series: Series, order: int, version: str | None, length: int) -> None:
        self._lists.append(self._series.setdefault(series, len(self._series)))
        self._lists.append(order)
        named = -1 if version is None else self._versions.setdefault(version, len(self._versions))
        self._lists.append(named)
        self._lists.append(length)


class Builder:
    """The three tables on their way.

    Parameters
    ----------
    piece : int or None
        Rows of results after which `is_full`; None: never.
    further_results, further_comparisons : sequence of str
        Columns beyond those of the contract.

    Attributes
    ----------
    results : Results
    comparisons : list of tuple
        In the order of the contract's columns, then the further ones.
    labels : list of LabelRow
    """

    def __init__(
        self,
        piece: int | None = None,
        *,
        further_results: Sequence[str] = (),
        further_comparisons: Sequence[str] = (),
    ) -> None:
        self._piece = piece
        self._names = (*COMPARISON_DTYPES, *further_comparisons)
        self.results = Results(further_results)
        self.comparisons: list[tuple[Any, ...]] = []
        self.labels: list[LabelRow] = []

    @property
    def is_full(self) -> bool:
        """Whether it is time to `take` a piece."""
        return self._piece is not None and len(self.results) >= self._piece

    def take(self) -> ComparisonTables:
        """Return what is there as tables, and begin anew."""
        tables = ComparisonTables(
            self.results.frame(),
            typed(pd.DataFrame(self.comparisons, columns=self._names), COMPARISON_DTYPES),
            typed(pd.DataFrame(self.labels, columns=LabelRow._fields), LABEL_DTYPES),
        )
        for part in (self.results, self.comparisons, self.labels):
            part.clear()
        return tables


def strings(levels: Iterable[str], codes: Any) -> Any:
    """Return the level that each code names; -1 names none."""
    array, codes = pd.array(list(levels), dtype="str"), np.asarray(codes)
    if not len(array):
        array = pd.array([None], dtype="str")
    if len(codes) and codes[0] >= 0 and (codes == codes[0]).all():
        # the same everywhere, as units mostly are: one text is repeated faster than it is looked up
        return pd.array(pa.repeat(pa.scalar(array[codes[0]], pa.large_string()), len(codes)), dtype="str")
    return array.take(codes, allow_fill=True)
