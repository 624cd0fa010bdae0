"""The three tables that every source of comparisons is read into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from data.comparisons.units import MAX_THREADS
from data.errors import InputError
from data.tables.problems import Problems
from data.tables.specs import Rule, Spec, Tables, one_of

RESULT_DTYPES = {
    "series_id": "str",
    "group": "str",
    "benchmark": "str",
    "operation": "str",
    "machine": "str",
    "unit": "str",
    "better": "str",
    "threads": "int64",
    "version": "str",
    "order": "int64",
    "measured_at": "datetime64[us, UTC]",
    "value": "float64",
    "stat": "str",
}
COMPARISON_DTYPES = {
    "comparison_id": "str",
    "benchmark": "str",
    "operation": "str",
    "machine": "str",
    "baseline_from": "int64",
    "baseline_to": "int64",
    "target_from": "int64",
    "target_to": "int64",
    "later_to": "Int64",
    "source": "str",
    "siblings_worse": "float64",
}
LABEL_DTYPES = {
    "comparison_id": "str",
    "status": "str",
    "labelled_by": "str",
    "labelled_at": "datetime64[us, UTC]",
    "annotator": "str",
}
#: The answer of an annotator who cannot decide. It is kept like a label, but never counts as pass or fail.
CANNOT_TELL = "cannot_tell"
#: What the status of a row of labels may be.
LABEL_STATUSES = ("pass", "fail", CANNOT_TELL)
#: What is measured at several numbers of threads, and in several versions.
OPERATION = ["benchmark", "operation", "machine"]
STATS = ("min", "q1", "median", "q3", "max", "mean", "stdev")
FIVE_NUMBERS = STATS[:5]
#: Orders of versions lie between minus this and this.
MAX_ORDER = 2**31 - 2


def _order(column: str, *, gaps: bool = False) -> Rule:
    """Return the rule of an order of versions."""
    bound = lambda found: found.between(-MAX_ORDER, MAX_ORDER)  # noqa: E731
    return Rule(column, f"between {-MAX_ORDER} and {MAX_ORDER}", bound, gaps)


@dataclass(frozen=True)
class ComparisonTables(Tables):
    """Results, comparisons and labels, as the contracts of the design name them.

    Attributes
    ----------
    results : DataFrame
        One row per sample (``stat`` missing) or per summary statistic (``stat`` one of `STATS`),
        with the columns of `RESULT_DTYPES`, and any further columns.
    comparisons : DataFrame
        One row per comparison, with the columns of `COMPARISON_DTYPES`. ``later_to`` is the last order
        after the target's that may be looked at in hindsight, missing where none may; ``source`` is
        ``file:line``, for messages. ``siblings_worse`` is the share of other operations that got worse at the
        target's version (`features.comparisons.history`), missing where their results are in the table.
    labels : DataFrame
        With the columns of `LABEL_DTYPES`: a row per label as such, whose ``annotator`` is missing, and a row
        per person's verdict; see `data.comparisons.labels`.
    """

    SPECS: ClassVar = {
        "results": Spec(
            RESULT_DTYPES,
            optional=("stat", "measured_at", "version"),
            rules=(
                one_of("better", "lower", "higher"),
                Rule("threads", "1 or more", lambda found: found >= 1),
                Rule("threads", f"at most {MAX_THREADS}", lambda found: found <= MAX_THREADS),
                _order("order"),
                Rule("value"),
                one_of("stat", *STATS, gaps=True),
            ),
        ),
        "comparisons": Spec(
            COMPARISON_DTYPES,
            optional=("later_to", "source", "siblings_worse"),
            rules=(
                Rule("comparison_id"),
                Rule("benchmark"),
                Rule("operation"),
                *map(_order, ("baseline_from", "baseline_to", "target_from", "target_to")),
                _order("later_to", gaps=True),
                Rule("siblings_worse", "between 0 and 1", lambda found: found.between(0, 1), gaps=True),
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
        """Tell `problems` which rows cannot be used as they stand; return the tables without them.

        Raises
        ------
        InputError
            At the first of them, unless ``problems.keep_going``; and if a column is missing or of another
            type.
        """
        found = super().without_flaws(problems)
        comparisons = found.comparisons
        later = comparisons["later_to"].fillna(comparisons["target_to"])
        ordered = (
            (comparisons["baseline_from"] <= comparisons["baseline_to"])
            & (comparisons["baseline_to"] < comparisons["target_from"])
            & (comparisons["target_from"] <= comparisons["target_to"])
            & (comparisons["target_to"] <= later)
        ).to_numpy(bool)
        for row in np.flatnonzero(~ordered):
            told = "must satisfy baseline_from <= baseline_to < target_from <= target_to <= later_to"
            problems.add(InputError(told, place=f"comparisons row {row}"))
        return replace(found, comparisons=comparisons[ordered].reset_index(drop=True))

    def counted(self) -> str:
        """Say how much is in the tables."""
        return f"{len(self.comparisons)} comparisons, {len(self.labels)} labels"


def units(tables: ComparisonTables) -> list[str]:
    """Return the unit of every comparison; empty where none is known."""
    known = tables.results["unit"].unique()
    if len(known) <= 1:
        return [str(known[0]) if len(known) and not pd.isna(known[0]) else ""] * len(tables.comparisons)
    named = tables.results.drop_duplicates(OPERATION)[[*OPERATION, "unit"]]
    return tables.comparisons[OPERATION].merge(named, on=OPERATION, how="left")["unit"].fillna("").tolist()


def versions(tables: ComparisonTables) -> list[str]:
    """Return for every comparison its versions, such as ``v1 -> v2`` or ``v1..v3 -> v4``.

    Where the results don't name a version, its order does.
    """
    keys = [*OPERATION, "order"]
    names = tables.results[[*keys, "version"]].drop_duplicates(keys).set_index(keys)["version"]
    spans = (_spans(names, tables.comparisons, side) for side in ("baseline", "target"))
    return [f"{before} -> {after}" for before, after in zip(*spans, strict=True)]


def _spans(names: pd.Series, comparisons: pd.DataFrame, side: str) -> list[str]:
    ends = (_at(names, comparisons, f"{side}_{end}") for end in ("from", "to"))
    return [first if first == last else f"{first}..{last}" for first, last in zip(*ends, strict=True)]


def _at(names: pd.Series, comparisons: pd.DataFrame, order: str) -> list[str]:
    wanted = pd.MultiIndex.from_frame(comparisons[[*OPERATION, order]])
    return names.reindex(wanted).fillna(comparisons[order].astype(str).set_axis(wanted)).tolist()
