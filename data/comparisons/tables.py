"""The three tables into which comparisons of all formats are read, and their construction."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

import numpy as np

from data.comparisons.units import MAX_THREADS
from data.deferred import pd
from data.errors import InputError
from data.tables.problems import Problems
from data.tables.specs import Rule, Spec, Tables, one_of, text_dtypes

RESULT_DTYPES = text_dtypes("series_id", "group", "benchmark", "operation", "machine", "unit", "better") | {
    "threads": "int64",
    "version": "str",
    "order": "int64",
    "measured_at": "datetime64[us, UTC]",
    "value": "float64",
    "stat": "str",
}
#: Columns with the first and the last order of each side.
_ORDERS = ("baseline_from", "baseline_to", "target_from", "target_to")
COMPARISON_DTYPES = {
    **text_dtypes("comparison_id", "benchmark", "operation", "machine"),
    **dict.fromkeys(_ORDERS, "int64"),
    "later_to": "Int64",
    "source": "str",
    "siblings_worse": "float64",
}
LABEL_DTYPES = text_dtypes("comparison_id", "status", "labelled_by") | {
    "labelled_at": "datetime64[us, UTC]",
    "annotator": "str",
}
#: The answer of an annotator who cannot decide; stored like a label, but never counted as pass or fail.
CANNOT_TELL = "cannot_tell"
#: Possible values of a label's status.
LABEL_STATUSES = ("pass", "fail", CANNOT_TELL)
#: Columns that identify an operation, which has several configurations and versions.
OPERATION = ["benchmark", "operation", "machine"]
STATS = ("min", "q1", "median", "q3", "max", "mean", "stdev")
FIVE_NUMBERS = STATS[:5]
#: Maximum absolute value of a version's order.
MAX_ORDER = 2**31 - 2


def _between_rule(column: str, low: int, high: int, *, gaps: bool = False) -> Rule:
    return Rule(column, f"between {low} and {high}", lambda values: values.between(low, high), gaps)


@dataclass(frozen=True)
class ComparisonTables(Tables):
    """Results, comparisons and labels.

    Attributes
    ----------
    results : DataFrame
        Columns `RESULT_DTYPES` and any others: a row per sample (``stat`` missing) or per statistic of
        `STATS`. ``order`` sorts the versions of an operation, oldest first.
    comparisons : DataFrame
        Columns `COMPARISON_DTYPES`. ``baseline_from`` to ``target_to`` are the first and last orders of both
        sides (inclusive); ``later_to`` is the last order after the target's that may be used in hindsight;
        ``source`` is ``file:line``, for messages; ``siblings_worse`` is missing where the results of other
        operations are in the table.
    labels : DataFrame
        Columns `LABEL_DTYPES`: settled labels have no ``annotator``.
    """

    SPECS: ClassVar = {
        "results": Spec(
            RESULT_DTYPES,
            optional=("stat", "measured_at", "version"),
            rules=(
                one_of("better", "lower", "higher"),
                Rule("threads", "1 or more", lambda threads: threads >= 1),
                Rule("threads", f"at most {MAX_THREADS}", lambda threads: threads <= MAX_THREADS),
                _between_rule("order", -MAX_ORDER, MAX_ORDER),
                Rule("value"),
                one_of("stat", *STATS, gaps=True),
            ),
        ),
        "comparisons": Spec(
            COMPARISON_DTYPES,
            optional=("later_to", "source", "siblings_worse"),
            rules=(
                *map(Rule, ("comparison_id", "benchmark", "operation")),
                *(_between_rule(column, -MAX_ORDER, MAX_ORDER) for column in _ORDERS),
                _between_rule("later_to", -MAX_ORDER, MAX_ORDER, gaps=True),
                _between_rule("siblings_worse", 0, 1, gaps=True),
            ),
        ),
        "labels": Spec(
            LABEL_DTYPES,
            optional=("labelled_by", "labelled_at", "annotator"),
            rules=(Rule("comparison_id"), one_of("status", *LABEL_STATUSES)),
        ),
    }

    results: pd.DataFrame
    comparisons: pd.DataFrame
    labels: pd.DataFrame

    def without_flaws(self, problems: Problems) -> ComparisonTables:
        """Return the tables without rows that break a rule, such as a target before its baseline.

        `problems` receives an InputError per dropped row; it is raised unless ``problems.keep_going``.
        """
        tables = super().without_flaws(problems)
        comparisons = tables.comparisons
        first, last, begin, end = (comparisons[name] for name in _ORDERS)
        later = comparisons["later_to"].fillna(end)
        ordered = ((first <= last) & (last < begin) & (begin <= end) & (end <= later)).to_numpy(bool)
        for row in np.flatnonzero(~ordered):
            rule = "must satisfy baseline_from <= baseline_to < target_from <= target_to <= later_to"
            problems.add(InputError(rule, place=f"comparisons row {row}"))
        return replace(tables, comparisons=comparisons[ordered].reset_index(drop=True))

    def describe_counts(self) -> str:
        """Return a text such as "100 comparisons, 40 labels"."""
        return f"{len(self.comparisons)} comparisons, {len(self.labels)} labels"


def comparison_units(tables: ComparisonTables) -> list[str]:
    """Return the unit of every comparison, in order: that of the first result of its operation, else "".

    If all results have one unit, comparisons without results get this unit, too.
    """
    distinct = tables.results["unit"].dropna().unique()
    if len(distinct) == 1 and tables.results["unit"].notna().all():
        return [str(distinct[0])] * len(tables.comparisons)
    by_operation = tables.results.drop_duplicates(OPERATION)[[*OPERATION, "unit"]]
    merged = tables.comparisons[OPERATION].merge(by_operation, on=OPERATION, how="left")
    return merged["unit"].fillna("").tolist()


def version_ranges(tables: ComparisonTables) -> list[str]:
    """Return the versions of every comparison as text: ``v1 -> v2``, or ``v1..v3 -> v4`` for a range.

    In the order of ``tables.comparisons``; the baseline comes first. Instead of a version that the results do
    not name, its number in the column ``order`` is written, such as ``3``.
    """
    keys, comparisons = [*OPERATION, "order"], tables.comparisons
    names = tables.results[[*keys, "version"]].drop_duplicates(keys).set_index(keys)["version"]

    def names_of(order: str) -> list[str]:
        wanted = pd.MultiIndex.from_frame(comparisons[[*OPERATION, order]])
        return names.reindex(wanted).fillna(comparisons[order].astype(str).set_axis(wanted)).tolist()

    def ranges_of(side: str) -> list[str]:
        ends = zip(names_of(f"{side}_from"), names_of(f"{side}_to"), strict=True)
        return [first if first == last else f"{first}..{last}" for first, last in ends]

    sides = zip(ranges_of("baseline"), ranges_of("target"), strict=True)
    return [f"{baseline} -> {target}" for baseline, target in sides]


#: Rows of results in a chunk.
CHUNK_ROWS = 50_000
#: The code of samples among indices of `STATS`: -1 as a byte.
_RAW = b"\xff"


class Series(NamedTuple):
    """The values of columns that all results of one series share: an operation with a number of threads."""

    series_id: str
    group: str
    benchmark: str
    operation: str
    machine: str
    unit: str
    better: str
    threads: int


class LabelRow(NamedTuple):
    """One label: an annotator's, or without annotator one that the source has settled."""

    comparison_id: str
    status: str
    labelled_by: str
    annotator: str | None = None
    labelled_at: datetime | None = None


class Results:
    """Compact rows of the results under construction; `extra_columns` names additional columns of numbers."""

    def __init__(self, extra_columns: Sequence[str] = ()) -> None:
        self._extra_columns = extra_columns
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self._series: dict[Series, int] = {}
        self._versions: dict[str, int] = {}
        self._lists, self._values, self._stats = array("q"), array("d"), array("b")
        self._columns = {name: array("d") for name in self._extra_columns}

    def __len__(self) -> int:
        return len(self._values)

    def add_values(
        self,
        series: Series,
        order: int,
        version: str | None,
        values: Sequence[float] | dict[str, float],
        *extra_values: Sequence[float],
    ) -> None:
        """Add the samples of one series at one version, or its statistics by their names in `STATS`.

        `order` sorts the versions of an operation. `extra_values` has a list as long as `values` for each of
        the `extra_columns`; without them, these are NaN.
        """
        if isinstance(values, dict):
            self._values.extend(values.values())
            self._stats.extend(map(STATS.index, values))
        else:
            self._values.extend(values)
            self._stats.frombytes(_RAW * len(values))
        series_code = self._series.setdefault(series, len(self._series))
        version_code = -1 if version is None else self._versions.setdefault(version, len(self._versions))
        self._lists.extend((series_code, order, version_code, len(values)))
        if self._columns:
            unknown = [(np.nan,) * len(values)] * len(self._columns)
            for column, numbers in zip(self._columns.values(), extra_values or unknown, strict=True):
                column.extend(numbers)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a table with columns `RESULT_DTYPES`, then the additional ones."""
        *lists, length = np.array(self._lists, np.int64).reshape(-1, 4).T
        series, order, version = (np.repeat(numbers, length) for numbers in lists)
        columns = series_columns(self._series, series)
        columns["version"] = text_array(self._versions, version)
        columns["order"] = order
        unknown = pd.DatetimeIndex([None], dtype=RESULT_DTYPES["measured_at"])
        columns["measured_at"] = unknown.repeat(len(order))
        columns["value"] = np.array(self._values, np.float64)
        columns["stat"] = text_array(STATS, np.asarray(self._stats, np.int64))
        columns |= {name: np.array(numbers, np.float64) for name, numbers in self._columns.items()}
        return pd.DataFrame(columns, columns=[*RESULT_DTYPES, *self._extra_columns], copy=False)


class Builder:
    """The three tables under construction; `is_full` after `chunk_rows` rows of results (None: never).

    `comparisons` are tuples in the order of `COMPARISON_DTYPES`, then of the additional columns.
    """

    def __init__(
        self,
        chunk_rows: int | None = None,
        *,
        extra_result_columns: Sequence[str] = (),
        extra_comparison_columns: Sequence[str] = (),
    ) -> None:
        self._chunk_rows = chunk_rows
        self._names = (*COMPARISON_DTYPES, *extra_comparison_columns)
        self.results = Results(extra_result_columns)
        self.comparisons: list[tuple[Any, ...]] = []
        self.labels: list[LabelRow] = []

    @property
    def is_full(self) -> bool:
        """Whether `results` has at least `chunk_rows` rows; False without `chunk_rows`."""
        return self._chunk_rows is not None and len(self.results) >= self._chunk_rows

    def take_tables(self) -> ComparisonTables:
        """Return the rows so far as tables, with all declared columns even if empty, and remove the rows."""
        tables = ComparisonTables(
            self.results.to_frame(),
            _frame_of_rows(self.comparisons, self._names, COMPARISON_DTYPES),
            _frame_of_rows(self.labels, LabelRow._fields, LABEL_DTYPES),
        )
        for rows in (self.results, self.comparisons, self.labels):
            rows.clear()
        return tables


def _frame_of_rows(
    rows: Sequence[tuple[Any, ...]], names: Sequence[str], dtypes: Mapping[str, str]
) -> pd.DataFrame:
    # typed columns are faster than `with_dtypes`, for which pandas guesses the types first
    columns = [*zip(*rows, strict=True)] or [()] * len(names)
    typed = {
        name: pd.array([*values], dtype=dtypes[name]) if name in dtypes else [*values]
        for name, values in zip(names, columns, strict=True)
    }
    return pd.DataFrame(typed, columns=[*dict.fromkeys([*dtypes, *names])], copy=False)


def series_columns(series: Collection[Series], codes: Any) -> dict[str, Any]:
    """Return an array per field of `Series`, by name, with the field of ``series[code]`` for each of `codes`.

    The names are ``series_id, group, benchmark, operation, machine, unit, better``, with pandas arrays of
    text, and ``threads``, with int64.
    """
    fields = zip(*series, strict=True) if series else ((),) * len(Series._fields)
    return {
        name: np.asarray(values, np.int64)[codes] if name == "threads" else text_array(values, codes)
        for name, values in zip(Series._fields, fields, strict=True)
    }


def text_array(levels: Iterable[str], codes: Any) -> Any:
    """Return a pandas array of the text ``levels[code]`` for each of `codes`; missing for the code -1."""
    levels, codes = list(levels) or [""], np.asarray(codes)
    if len(set(levels)) == 1:
        levels, codes = levels[:1], np.minimum(codes, 0)
    array = pd.array(levels, dtype="str")
    if array.dtype.storage == "pyarrow" and len(codes) and (codes == codes[0]).all():
        import pyarrow as pa

        # repeating a single text, such as a unit, is faster than looking it up
        text = None if codes[0] < 0 else array[codes[0]]
        return pd.array(pa.repeat(pa.scalar(text, pa.large_string()), len(codes)), dtype="str")
    return array.take(codes, allow_fill=True)
