"""Features of fingerprints: the matrix of rates, and the performance of applications.

A row is one run of the fingerprint on one machine, a column one stressor (fingerprint paper, section 5.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.fingerprints.params import Fingerprints
from data.fingerprints.tables import ALL_THREADS, CATEGORIES, FingerprintTables
from data.fingerprints.validity import FingerprintDecisions
from data.params import load
from data.paths import FamilyPaths
from data.tables.specs import Spec, Tables, text_dtypes

Threads = Literal["one", "all", "both"]
PLACES = FamilyPaths("fingerprints")
RUN = ["machine", "repetition"]
#: Suffix of the column of a stressor that ran on every thread.
EVERY_THREAD = "@all"
#: Applications whose logarithms correlate this much count as one application at several settings.
COPY = 0.99
#: Share of its mean below which the spread of a column is rounding.
_ROUNDING = 1e-12
#: ``cpu_model``, because ``cpu`` is a stressor.
KEYS = {"machine": "str", "repetition": "int64", "cpu_model": "str", "cores": "float64"}
_VALUE = {"repetition": "int64", "value": "float64"}
TARGETS = text_dtypes("application", "metric", "better", "machine") | _VALUE


@dataclass(frozen=True)
class Measured:
    """An application's performance, and the fingerprints of the machines that it ran on."""

    application: str
    metric: str
    better: str  # "lower" (a time) or "higher" (a rate)
    columns: tuple[str, ...]  # length n_columns: stressors; ``@all`` after those on every thread
    x: NDArray[np.float64]  # shape (n_rows, n_columns): bogo operations per second; NaN where unknown
    y: NDArray[np.float64]  # shape (n_rows,): the application's performance in its own unit; positive
    machines: NDArray[np.str_]  # shape (n_rows,)
    cpus: NDArray[np.str_]  # shape (n_rows,): CPU models, whose machines are held out together

    def select_rows(self, index: NDArray[np.int64] | NDArray[np.bool_]) -> Measured:
        """Return a copy with the rows `index`, a mask, shape (n_rows,), or indices, shape (n_selected,)."""
        rows = {name: getattr(self, name)[index] for name in ("x", "y", "machines", "cpus")}
        return replace(self, **rows)

    def select_columns(self, names: Sequence[str]) -> Measured:
        """Return a copy with the feature columns `names`, in that order; ValueError if one is missing."""
        return replace(self, columns=tuple(names), x=self.x[:, [self.columns.index(name) for name in names]])

    def by_machine(self) -> Measured:
        """Return one row per machine, sorted by name: geometric means of `x` and `y`.

        NaN is ignored; a mean without values is NaN.
        """
        names, first, rows = np.unique(self.machines, return_index=True, return_inverse=True)
        logs = np.log(np.column_stack([self.x, self.y]))
        if len(names) < len(rows) or np.isnan(logs).any():
            logs = pd.DataFrame(logs).groupby(rows).mean().to_numpy()
        else:
            # in the memory order of means, so that sums over it are rounded alike
            logs = np.asfortranarray(logs[first])
        x, y = np.exp(logs[:, :-1]), np.exp(logs[:, -1])
        return replace(self, x=x, y=y, machines=names, cpus=self.cpus[first])

    @property
    def log_speed(self) -> NDArray[np.float64]:
        """The logarithm of the performance, shape (n_rows,), negated where lower is better."""
        return np.log(self.y) if self.better == "higher" else -np.log(self.y)

    def performance_at(self, speed: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the performance, in the application's unit, at values of `log_speed` of any shape."""
        return np.exp(speed if self.better == "higher" else -speed)


@dataclass(frozen=True)
class FingerprintTable(Tables):
    """All runs of the fingerprint as a matrix, and the performance of all applications."""

    SPECS: ClassVar = {"runs": Spec(KEYS, file="features"), "targets": Spec(TARGETS)}

    runs: pd.DataFrame  # ``machine, repetition, cpu_model, cores``, then one column of rates per stressor
    #: ``application, metric, better, machine, repetition, value``, positive values only.
    targets: pd.DataFrame

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the rate columns: stressors, with the suffix ``@all`` if they ran on all threads."""
        return tuple(self.runs.columns.drop(list(KEYS)))

    @property
    def applications(self) -> tuple[str, ...]:
        """The applications, sorted."""
        return tuple(sorted(self.targets["application"].unique()))

    def measurements_of(self, application: str) -> Measured:
        """Return an application's measurements with fingerprints, sorted by machine, repetition and value.

        A measurement whose repetition also has a fingerprint on that machine is paired with that run; any
        other is paired with the median of the machine's runs. Machines without a fingerprint are left out.
        InputError if the application is unknown, or none of its machines has a fingerprint.
        """
        rows = self.targets[self.targets["application"] == application]
        if rows.empty:
            names = ", ".join(self.applications[:5])
            raise InputError(f"is not measured; expected one of: {names}, ...", place=f'"{application}"')
        columns = list(self.columns)
        with_run = rows.merge(self.runs, on=RUN, how="inner", validate="many_to_one")
        runs = pd.MultiIndex.from_frame(self.runs[RUN])
        without_run = rows[~pd.MultiIndex.from_frame(rows[RUN]).isin(runs)]
        hosts = self.runs.groupby("machine")
        medians = hosts[["cpu_model"]].first().join(hosts[columns].median())
        parts = [with_run, without_run.join(medians, on="machine", how="inner")]
        table = pd.concat(parts, ignore_index=True).sort_values([*RUN, "value"], ignore_index=True)
        if table.empty:
            raise InputError("is measured on no machine with a fingerprint", place=f'"{application}"')
        x, y = (table[names].to_numpy(np.float64) for names in (columns, "value"))
        machines, cpus = (table[name].to_numpy(str) for name in ("machine", "cpu_model"))
        metric, better = (str(rows[name].iloc[0]) for name in ("metric", "better"))
        return Measured(application, metric, better, self.columns, x, y, machines, cpus)

    def covering_applications(self, limit: int) -> tuple[str, ...]:
        """Return the sorted names of at most `limit` applications, on many machines, without near-copies.

        All applications if there are at most `limit`. Otherwise the kinds (the part of the name before the
        first colon; without colons, all are of one kind) take turns; each adds its application measured on
        most machines, first by name among equals. An application whose logarithm correlates by `COPY` or more
        with one already chosen is skipped, so that the result may be shorter.
        """
        if len(self.applications) <= limit:
            return self.applications
        logs = np.log(self.targets.groupby(["machine", "application"])["value"].median()).unstack()
        order = sorted(logs.columns, key=lambda name: (-int(logs[name].notna().sum()), name))
        kinds: dict[str, list[str]] = {}
        for name in order:
            kinds.setdefault(name.partition(":")[0] if ":" in name else "", []).append(name)
        correlations = logs.corr().abs()
        chosen: list[str] = []
        while len(chosen) < limit and any(kinds.values()):
            for queue in kinds.values():
                while queue and (correlations.loc[queue[0], chosen] >= COPY).any():
                    del queue[0]
                chosen += queue[:1]
                del queue[:1]
        return tuple(sorted(chosen[:limit]))

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Return the tables that the stage featurize wrote to `directory`; InputError if unreadable."""
        try:
            return cls(*(pd.read_parquet(directory / f"{name}.parquet") for name in ("features", "targets")))
        except (OSError, ValueError) as exc:
            raise InputError(f"cannot be read ({exc}); run featurize first", file=directory) from exc


def fingerprint_matrix(tables: FingerprintTables, threads: Threads = "both") -> FingerprintTable:
    """Return the rates of each fingerprint run, a column per stressor, and the performance of applications.

    The table ``runs`` has ``machine, repetition, cpu_model, cores``, then the rates; ``targets`` has
    ``application, metric, better, machine, repetition, value``. `threads` selects rates on one thread, on all
    threads (columns with the suffix ``@all``), or both. Runs are sorted by machine and repetition, columns of
    rates by name. Rates that are not above 0 become NaN; rows of performance whose value is not above 0 are
    left out. InputError if `threads` leaves no rates, ValueError if a run has a stressor twice.
    """
    wanted = {"one": [1], "all": [ALL_THREADS], "both": [1, ALL_THREADS]}[threads]
    rates = tables.machines[tables.machines["threads"].isin(wanted)]
    if rates.empty:
        raise InputError(f'fingerprints.threads="{threads}" leaves no rates', place="machines")
    suffix = np.where(rates["threads"] == ALL_THREADS, EVERY_THREAD, "")
    labelled = rates.assign(column=rates["stressor"] + suffix)
    matrix = labelled.pivot(index=RUN, columns="column", values="bogo_ops_per_second")
    matrix = matrix.where(matrix > 0).rename_axis(columns=None).reset_index()
    hosts = tables.hosts.drop_duplicates("machine").set_index("machine")
    hosts = hosts[["cpu", "cores"]].rename(columns={"cpu": "cpu_model"})
    runs = matrix[RUN].join(hosts, on="machine").join(matrix.drop(columns=RUN))
    targets = tables.applications[tables.applications["value"] > 0]
    return FingerprintTable(runs.astype(KEYS), targets[list(TARGETS)].reset_index(drop=True).astype(TARGETS))


def stressor_of(column: str) -> str:
    """Return the stressor of a column of rates: the column's name without its suffix ``@all``, if any."""
    return column.removesuffix(EVERY_THREAD)


def categories_of(column: str) -> tuple[str, ...]:
    """Return the categories of a column's stressor (the fingerprint paper, table 1); "other" beyond it."""
    return CATEGORIES.get(stressor_of(column), ("other",))


def columns_by_category(columns: tuple[str, ...]) -> dict[str, list[int]]:
    """Return the ascending indices of the columns of each category that has any, sorted by category name.

    A column is in each of its `categories_of`.
    """
    by_category: dict[str, list[int]] = {}
    for number, column in enumerate(columns):
        for category in categories_of(column):
            by_category.setdefault(category, []).append(number)
    return dict(sorted(by_category.items()))


def zscores(x: NDArray[np.float64], training_rows: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """Return (x - mean) / standard deviation by column, in the shape of `x` (fingerprint paper, section 5.2).

    x: shape (n_rows, n_columns), rates; NaN becomes 0, as do columns constant or NaN in the training rows.
    training_rows: indices of the rows that mean and population standard deviation are computed from; None:
    all.
    """
    rows = x if training_rows is None else x[training_rows]
    counts = np.maximum((~np.isnan(rows)).sum(axis=0), 1)
    mean = np.nansum(rows, axis=0) / counts
    spread = np.sqrt(np.nansum((rows - mean) ** 2, axis=0) / counts)
    # the mean of equal numbers may differ from them by rounding
    return np.nan_to_num((x - mean) / np.where(spread > _ROUNDING * abs(mean), spread, np.inf))


def featurize_stage() -> None:
    """Run stage featurize: write features.parquet (rates of valid runs) and targets.parquet (performance).

    The files are in ``data/processed/fingerprints``. The numbers of runs, rates and applications are printed.
    InputError if params.yaml or a table of an earlier stage is missing or invalid, or the setting ``threads``
    leaves no rates.
    """
    tables = FingerprintTables.read(PLACES.interim)
    valid_tables = FingerprintDecisions.read(PLACES.valid).select_kept(tables)
    table = fingerprint_matrix(valid_tables, load(Fingerprints).section.featurize.threads)
    table.write(PLACES.processed)
    counts = f"{len(table.runs)} runs of {len(table.columns)} rates, {len(table.applications)} applications"
    print(counts)  # noqa: T201
