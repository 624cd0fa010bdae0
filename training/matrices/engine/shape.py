"""Conversion of tables to classifier cases; engines with equal settings can share the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.tables import MatrixTables
from features.matrices.forms import (
    FORMS,
    NOISE_FORMS,
    PAIR_FORMS,
    MetricStatistics,
    Rows,
    concat_rows,
    training_statistics,
)
from features.matrices.projection import Projection
from training.matrices.engine.grouping import Grouping
from training.matrices.engine.judges import Cases

Flags = NDArray[np.bool_]
Whole = NDArray[np.intp]

#: The cause of normal cases, and of those whose cause is unknown.
NONE = ""


@dataclass(frozen=True)
class CaseSplit:
    """Flags of training cases and test cases, shape (n_cases,) each."""

    train: Flags
    test: Flags


@dataclass(frozen=True)
class CausedCases:
    """Test case, cause and label of each case, shape (n_cases,) each; an unknown cause is empty."""

    workload: NDArray[Any]
    cause: NDArray[Any]
    abnormal: Flags

    def split_cases(self, part: Whole, seed: int) -> list[CaseSplit]:
        """Return training and test masks that share neither a cause nor a test case.

        Each cause is dealt to one part. A test case goes to the part of its causes where they share one, else
        to the part that `part`, shape (n_cases,), has for it. A part is tested on the normal cases of its
        test cases, and on those of their abnormal cases whose cause is in the part, too. Parts without both
        labels are left out; the list is empty where fewer than two remain.
        """
        parts = int(part.max(initial=0)) + 1
        part_of = self._parts_of_causes(parts, seed)
        cause_part = np.array([part_of.get(str(cause), -1) for cause in self.cause], np.intp)
        workload = np.unique(self.workload.astype(str), return_inverse=True)[1]
        has_cause, workloads = cause_part >= 0, int(workload.max(initial=-1)) + 1
        first, last = np.full(workloads, np.iinfo(np.intp).max), np.full(workloads, -1)
        np.minimum.at(first, workload[has_cause], cause_part[has_cause])
        np.maximum.at(last, workload[has_cause], cause_part[has_cause])
        case_part = np.where((first == last)[workload], last[workload], part)
        splits = []
        for number in range(parts):
            test = (case_part == number) & np.where(self.abnormal, cause_part == number, True)
            train = (case_part != number) & (cause_part != number)
            if all(len(np.unique(self.abnormal[rows])) > 1 for rows in (test, train)):
                splits.append(CaseSplit(train, test))
        return splits if len(splits) > 1 else []

    def _parts_of_causes(self, parts: int, seed: int) -> dict[str, int]:
        """Return the part of each cause; the most frequent causes are dealt first."""
        has_cause = self.abnormal & (self.cause != NONE)
        names, counts = np.unique(self.cause[has_cause].astype(str), return_counts=True)
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
        metrics = (
            tables.summary_metrics if self.metrics == "summary" else tables.raw_metrics
        ) or tables.raw_metrics
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


@dataclass(frozen=True)
class PreparedCases:
    """Training cases, with the rows and the projection that they were made from."""

    shaped: TrainingRows
    projection: Projection
    cases: Cases


def make_test_rows(form: str, scales: MetricStatistics, grouping: Grouping, tables: MatrixTables) -> Rows:
    """Return the feature rows of the pairs in `tables` that have a baseline and a target.

    `form` is "flattened" (a row per run), "concatenated" or "subtracted" (per target run), "contrasted",
    "medians" or "joined" (per pair); else KeyError. `scales` and `grouping` were learned from training pairs.
    """
    return FORMS[form](grouping.assign_groups(with_both_sides(tables)), scales)


def with_both_sides(tables: MatrixTables) -> MatrixTables:
    """Return the tables with only those pairs that have runs of both sides; `tables` itself if all have."""
    run_places = tables.pair_sides
    pair, pairs = run_places.pair, len(run_places.names)
    baseline, target = (
        np.bincount(pair[side], minlength=pairs) > 0 for side in (~run_places.target, run_places.target)
    )
    whole = baseline & target
    return tables if whole.all() else tables.select_runs(whole[pair])


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
