"""Conversion of tables to classifier cases; engines with equal settings can share the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.tables import Flags, MatrixTables, Whole
from features.matrices.forms import (
    FORMS,
    NOISE_FORMS,
    PAIR_FORMS,
    MetricStatistics,
    Rows,
    concat_rows,
    training_statistics,
)
from training.matrices.engine.grouping import Grouping

#: The cause of normal cases, and of those whose cause is unknown.
NONE = ""


def split_by_causes(
    workload: NDArray[Any], cause: NDArray[Any], abnormal: Flags, part: Whole, seed: int
) -> list[tuple[Flags, Flags]]:
    """Return masks of training cases and of test cases that share neither a cause nor a test case.

    Arrays and masks have shape (n_cases,); an unknown cause is empty. Each cause is dealt to one part. A test
    case goes to the part of its causes where they share one, else to the part that `part` has for it. A part
    is tested on the normal cases of its test cases, and on those of their abnormal cases whose cause is in
    the part, too. Parts without both labels are left out; the list is empty where fewer than two remain.
    """
    parts = int(part.max(initial=0)) + 1
    part_of = _parts_of_causes(cause[abnormal & (cause != NONE)], parts, seed)
    cause_part = np.array([part_of.get(str(name), -1) for name in cause], np.intp)
    case = np.unique(workload.astype(str), return_inverse=True)[1]
    has_cause, n_cases = cause_part >= 0, int(case.max(initial=-1)) + 1
    first, last = np.full(n_cases, np.iinfo(np.intp).max), np.full(n_cases, -1)
    np.minimum.at(first, case[has_cause], cause_part[has_cause])
    np.maximum.at(last, case[has_cause], cause_part[has_cause])
    case_part = np.where((first == last)[case], last[case], part)
    splits = []
    for number in range(parts):
        test = (case_part == number) & np.where(abnormal, cause_part == number, True)
        train = (case_part != number) & (cause_part != number)
        if all(len(np.unique(abnormal[rows])) > 1 for rows in (test, train)):
            splits.append((train, test))
    return splits if len(splits) > 1 else []


def _parts_of_causes(causes: NDArray[Any], parts: int, seed: int) -> dict[str, int]:
    """Return the part of each of `causes`, one per case; the most frequent are dealt first."""
    names, counts = np.unique(causes.astype(str), return_counts=True)
    shuffled = np.random.default_rng(seed).permutation(len(names))
    sizes, part_of = np.zeros(parts), {}
    for place in shuffled[np.argsort(-counts[shuffled], kind="stable")]:
        part_of[str(names[place])] = int(sizes.argmin())
        sizes[sizes.argmin()] += counts[place]
    return part_of


def pair_causes(tables: MatrixTables) -> dict[str, str]:
    """Return by ``pair_id`` the first known cause, in the order of ``tables.causes``, of its abnormal runs.

    Pairs without one are left out.
    """
    caused_runs = tables.causes[tables.causes["cause"].fillna(NONE) != NONE]
    if caused_runs.empty:
        return {}
    pairs = tables.runs.loc[tables.runs["abnormal"].fillna(value=False).astype(bool), ["run_id", "pair_id"]]
    of_pairs = caused_runs[["run_id", "cause"]].merge(pairs, on="run_id").drop_duplicates("pair_id")
    return of_pairs.astype("str").set_index("pair_id")["cause"].to_dict()


#: Number of parts of the test cases; the noise of each is learned from the others.
PARTS = 5
#: Largest number of rows for forms of single runs, spaced evenly over all matrices.
ROWS = 6_000


@dataclass(frozen=True)
class RowSettings:
    """The settings of an engine that decide how tables become rows; see `Scheme`."""

    metrics: str
    form: str
    prune: bool
    grouping: str
    seed: int

    def make_rows(self, tables: MatrixTables) -> TrainingRows:
        """Return training rows; raise InputError if the remaining runs are all normal or all abnormal."""
        if self.prune:
            tables = drop_invalid_runs(tables)
        else:
            # a run without a label takes that of the other runs of its matrix
            runs = tables.runs
            of_matrix = runs.groupby(["pair_id", "side"])["abnormal"].transform("max")
            labelled = runs.assign(abnormal=runs["abnormal"].fillna(of_matrix))
            tables = MatrixTables(labelled, tables.causes, tables.metrics)
        metrics = tables.summary_metrics if self.metrics == "summary" else []
        metrics = metrics or tables.raw_metrics
        grouping = Grouping.from_tables(self.grouping, tables, metrics, self.seed)
        grouped = grouping.assign_groups(tables)
        learned = training_statistics(grouped, metrics)
        rows = self._training_rows(grouped, learned)
        rows = rows.select_rows(~np.isnan(rows.y))
        require_both_labels(int(rows.y.sum()), len(rows.y))
        if self.form not in PAIR_FORMS:
            rows = _thin_rows(rows)
        return TrainingRows(self.form, learned, grouping, rows, pair_causes(tables))

    def _training_rows(self, tables: MatrixTables, learned: MetricStatistics) -> Rows:
        """Return training rows; a pair is scaled by noise learned without its test case, like a new pair."""
        workload = tables.runs["workload"].to_numpy(object)
        if self.form not in NOISE_FORMS or len(set(workload)) < PARTS:
            return FORMS[self.form](tables, learned)
        part = deal_to_parts(tables.runs.drop_duplicates("workload"), self.seed).reindex(workload).to_numpy()
        parts = []
        for number in range(PARTS):
            others = training_statistics(tables.select_runs(part != number), learned.metrics)
            # the medians that fill gaps are those of all training pairs, as for a new pair
            others = replace(others, middles=learned.middles)
            parts.append(FORMS[self.form](tables.select_runs(part == number), others))
        return concat_rows(parts)


def require_both_labels(abnormal: int, rows: int) -> None:
    """Raise InputError unless some, but not all, of the `rows` training rows are abnormal."""
    if abnormal in {0, rows}:
        only = "abnormal" if abnormal else "normal"
        raise InputError(f"all training rows are {only}; expected normal and abnormal ones", place="runs")


@dataclass(frozen=True)
class TrainingRows:
    """Training rows, the scales and groups that they were made with, and the known causes by pair."""

    form: str
    scales: MetricStatistics
    grouping: Grouping
    rows: Rows
    causes: Mapping[str, str]


def make_test_rows(form: str, scales: MetricStatistics, grouping: Grouping, tables: MatrixTables) -> Rows:
    """Return the feature rows of the pairs in `tables` that have a baseline and a target.

    `form` is "flattened" (a row per run), "concatenated" or "subtracted" (per target run), "contrasted",
    "medians" or "joined" (per pair); else KeyError. `scales` and `grouping` were learned from training pairs.
    """
    return FORMS[form](grouping.assign_groups(with_both_sides(tables)), scales)


def with_both_sides(tables: MatrixTables) -> MatrixTables:
    """Return the tables with only those pairs that have runs of both sides; `tables` itself if all have."""
    has_both = np.asarray(tables.pair_sides.count_runs().all(axis=1))
    return tables if has_both.all() else tables.select_runs(has_both[tables.pair_sides.pair])


def drop_invalid_runs(tables: MatrixTables) -> MatrixTables:
    """Return the tables without the runs that are flagged invalid, and without their causes."""
    return tables.select_runs(tables.runs["valid"].fillna(True).to_numpy(bool))


def _thin_rows(rows: Rows) -> Rows:
    """Return evenly spaced rows of both labels where there are more than `ROWS`."""
    if len(rows.y) <= ROWS:
        return rows
    kinds = [np.flatnonzero(rows.y == label) for label in (0, 1)]
    counts = [-(-len(kind) * ROWS // len(rows.y)) for kind in kinds]
    chosen = [kind[np.arange(count) * len(kind) // count] for kind, count in zip(kinds, counts, strict=True)]
    return rows.select_rows(np.sort(np.concatenate(chosen)))


def deal_to_parts(cases: pd.DataFrame, seed: int) -> pd.Series:
    """Return by ``workload`` the part, from 0 to 4 (`PARTS` - 1), of each test case, at random by `seed`.

    `cases` has ``workload, group``, a row per test case. The cases of each group are spread evenly over the
    parts; the result is sorted by group.
    """
    of_group = cases.sample(frac=1, random_state=seed)
    order = of_group.sort_values("group", kind="stable")["workload"]
    return pd.Series(np.arange(len(order)) % PARTS, order)
