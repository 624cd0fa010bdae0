"""Features of co-runs: rates of a task and of its co-runners, and solo times (co-run paper, section 3).

Equation 1 uses the rates of the events of both solo runs. Further features use the solo times: the machine's
fixed cost as a share of a run (to start a program, to map its code), and the times of the same task on other
machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.corun.tables import AND, HOST_DTYPES, CorunTables, corunner_columns
from data.tables.specs import text_dtypes

#: Columns that identify an instance.
CORUN = ["task", "corunners", "machine"]
#: All columns of an instance but its features, with their types.
KEYS = text_dtypes("task", "corunners", "machine", "device", "families") | {
    "solo_seconds": "float64",
    "repetitions": "int64",
    "impact": "float64",
}
OWN, OTHERS, MOST = "own_", "others_", "most_"
#: Quantiles of a machine's solo times used to estimate its fixed cost.
QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5)
FIXED = 1

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Solo:
    """Measurements of tasks that ran alone."""

    #: Median solo time, one row per task, one column per machine; NaN where it never ran.
    seconds: pd.DataFrame
    rates: pd.DataFrame  # events per second, indexed by machine and task (equation 1)
    families: pd.Series  # the family of each task
    hosts: pd.DataFrame  # ``device, engine`` and the numbers that describe each machine, indexed by machine

    @classmethod
    def from_tables(cls, tables: CorunTables) -> Solo:
        """Return solo times and rates of `tables`, medians over the repetitions of solo runs."""
        runs = tables.tasks
        rates = runs[tables.events].div(runs["solo_seconds"], axis="index")
        by = [runs["machine"], runs["task"]]
        return cls(
            runs.groupby(["task", "machine"])["solo_seconds"].median().unstack("machine"),
            rates.groupby(by).median(),
            runs.groupby("task")["family"].first(),
            tables.hosts.drop_duplicates("machine").set_index("machine").drop(columns="note"),
        )

    @cached_property
    def fixed_cost(self) -> pd.DataFrame:
        """Low quantiles of the logarithms of a machine's solo times, one row per machine."""
        logs = np.log(self.seconds)
        return logs.quantile(list(QUANTILES)).T.set_axis([f"q{q * 100:02.0f}" for q in QUANTILES], axis=1)

    @cached_property
    def machine_by_engine(self) -> dict[str, dict[str, str]]:
        """The machine that has an engine on a device: ``machine_by_engine[engine][device]``."""
        engines: dict[str, dict[str, str]] = {}
        for machine, device, engine in self.hosts[["device", "engine"]].itertuples():
            if engine and machine in self.seconds.columns:
                engines.setdefault(str(engine), {})[str(device)] = str(machine)
        return dict(sorted(engines.items()))

    def log_seconds(self, machines: Sequence[str], tasks: Sequence[str]) -> Floats:
        """Return the logarithms of solo times, NaN where a task never ran on that machine.

        Logarithms of seconds, shape (n_rows,), for ``machines[i], tasks[i]`` in row i.
        """
        return self.run_times[self.rows_of_runs(machines, tasks), 0]

    @cached_property
    def row_by_run(self) -> dict[tuple[str, str], int]:
        """The number of each solo run (machine, task) in `run_rates` and `run_times`."""
        return {run: row for row, run in enumerate(self.rates.index)}

    def rows_of_runs(self, machines: Sequence[str], tasks: Sequence[str]) -> NDArray[np.intp]:
        """Return the row in `run_rates` and `run_times` of ``tasks[i]`` on ``machines[i]``, (n_rows,).

        A task that never ran alone on that machine has the last row, which is NaN.
        """
        row, unknown = self.row_by_run.get, len(self.row_by_run)
        return np.array([row(run, unknown) for run in zip(machines, tasks, strict=True)], np.intp)

    @cached_property
    def run_rates(self) -> Floats:
        """Events per second of each solo run, shape (n_runs + 1, n_events); the last row is NaN."""
        return _with_unknown(self.rates.to_numpy(np.float64))

    @cached_property
    def run_times(self) -> Floats:
        """The features of each solo run's time, shape (n_runs + 1, n_features); the last row is NaN.

        Columns are `time_names`.
        """
        machines, tasks = ([run[part] for run in self.row_by_run] for part in (0, 1))
        table = self.seconds.to_numpy(np.float64)
        place = {name: number for number, name in enumerate(self.seconds.columns)}
        row = self.seconds.index.get_indexer(pd.Index(tasks))

        def log_times(hosts: Sequence[str]) -> Floats:
            columns = np.array([place.get(host, -1) for host in hosts], np.intp)
            return np.where(columns < 0, np.nan, np.log(table[row, columns]))

        seconds, cost = log_times(machines), self.fixed_cost.reindex(machines).to_numpy(np.float64)
        logs = np.log1p(self.rates.to_numpy(np.float64))
        activity, has_rates = np.full(len(logs), np.nan), ~np.isnan(logs).all(axis=1)
        activity[has_rates] = np.nanmean(logs[has_rates], axis=1)
        share = np.exp(np.minimum(cost[:, FIXED] - seconds, 0))
        devices = self.hosts["device"].reindex(machines)
        siblings = [devices.map(on).fillna("").tolist() for on in self.machine_by_engine.values()]
        over_siblings = [seconds - log_times(hosts) for hosts in siblings]
        columns = [seconds, seconds[:, None] - cost, share, activity, *over_siblings]
        return _with_unknown(np.column_stack(columns))

    @cached_property
    def time_names(self) -> list[str]:
        """The names of the columns of `run_times`."""
        quantiles = (f"over_{name}" for name in self.fixed_cost)
        engines = (f"vs_{engine}" for engine in self.machine_by_engine)
        return ["seconds", *quantiles, "fixed_share", "activity", *engines]

    @cached_property
    def machine_features(self) -> pd.DataFrame:
        """The features of each machine, one row per machine.

        ``engine_<engine>`` (0 or 1), and with the prefix ``machine_`` its numeric properties and the
        logarithms of quantiles of its solo times (``q<n>``).
        """
        engines = {f"engine_{engine}": self.hosts["engine"].eq(engine) for engine in self.machine_by_engine}
        numbers = self.hosts.drop(columns=[c for c in HOST_DTYPES if c in self.hosts]).add_prefix("machine_")
        parts = [numbers, pd.DataFrame(engines, self.hosts.index), self.fixed_cost.add_prefix("machine_")]
        return pd.concat(parts, axis="columns").astype("float64")

    @cached_property
    def machine_rows(self) -> tuple[dict[str, int], Floats]:
        """The row of each machine, and `machine_features` with a last row of NaN for unknown machines."""
        rows = {machine: row for row, machine in enumerate(self.machine_features.index)}
        return rows, _with_unknown(self.machine_features.to_numpy(np.float64))


@dataclass(frozen=True)
class Placed:
    """Tasks with their co-runners; each list has length n_rows."""

    tasks: list[str]
    corunners: list[tuple[str, ...]]  # the order of co-runners does not matter
    machines: list[str]

    @classmethod
    def from_pairs(cls, pairs: pd.DataFrame) -> Placed:
        """Return the tasks, their sorted co-runners and their machines, one per row of a table of pairs."""
        corunners = [
            tuple(sorted(name for name in names if isinstance(name, str)))
            for names in pairs[corunner_columns(pairs)].itertuples(index=False, name=None)
        ]
        return cls(pairs["task"].tolist(), corunners, pairs["machine"].tolist())

    @property
    def as_columns(self) -> pd.DataFrame:
        """A table with ``task, corunners`` (joined names) and ``machine``, one row per task."""
        joined = [AND.join(names) for names in self.corunners]
        return pd.DataFrame(dict(zip(CORUN, (self.tasks, joined, self.machines), strict=True)))

    @property
    def max_corunners(self) -> int:
        """The largest number of co-runners."""
        return max(map(len, self.corunners), default=0)


def corun_vectors(solo: Solo, placed: Placed) -> pd.DataFrame:
    """Return the features of co-runs as a table, one row per task of `placed`, in its order.

    The values are those of `corun_matrix`, the columns those of `corun_columns`; NaN where a solo run is
    unknown.
    """
    columns = corun_columns(solo, several=placed.max_corunners > 1)
    return pd.DataFrame(corun_matrix(solo, placed), columns=list(columns))


def corun_columns(solo: Solo, *, several: bool) -> tuple[str, ...]:
    """Return the column names of `corun_matrix`; `several`: whether any task has more than one co-runner.

    They are ``own_<event>, others_<event>``, if `several` ``most_<event>``; the features of solo times, with
    ``own_``, then ``others_``; ``longer, both_fixed, twins, beside``; those of the machine.
    """
    prefixes = (OWN, OTHERS, MOST) if several else (OWN, OTHERS)
    return (
        *(f"{prefix}{event}" for prefix in prefixes for event in solo.rates.columns),
        *(f"{prefix}{name}" for prefix in (OWN, OTHERS) for name in solo.time_names),
        *("longer", "both_fixed", "twins", "beside"),
        *solo.machine_features.columns,
    )


def corun_matrix(solo: Solo, placed: Placed) -> Floats:
    """Return the features of co-runs, shape (n_rows, n_features); the columns are `corun_columns`.

    Rates (co-run paper, equation 1), in events per second: ``own_<event>`` of the task, ``others_<event>``
    the sum over its co-runners, and if any task has more than one also ``most_<event>``, the largest.

    Features of solo times, for the task (``own_``) and as the mean over its co-runners (``others_``):
    ``seconds``, the natural logarithm of the solo time; ``over_q<n>`` (<n>: 01 to 50), ``seconds`` minus the
    <n> % quantile of ``seconds`` on the machine; ``fixed_share``, the machine's fixed cost (the solo time at
    the 5 % quantile) as a share of the solo time, at most 1 (for co-runners the sum); ``activity``, the mean
    of log(1 + rate) over all events; ``vs_<engine>``, ``seconds`` minus that of the same task under this
    engine on the same device (0 for the machine's own engine). ``longer`` is the task's ``seconds`` minus the
    co-runners', ``both_fixed`` the product of ``own_fixed_share`` and ``others_fixed_share``, ``twins`` the
    number of co-runners that are the same task, and ``beside`` the number of co-runners. NaN where a needed
    solo run is unknown, for ``vs_<engine>`` also that under the engine. Without co-runners, all features of
    the co-runners are 0, and ``longer`` equals ``own_seconds``.

    The features of the machine are `Solo.machine_features`; NaN for unknown machines.
    """
    number, counts = len(placed.tasks), np.array([len(names) for names in placed.corunners], np.intp)
    owners = np.repeat(np.arange(number), counts)
    corunners = [name for names in placed.corunners for name in names]
    own = solo.rows_of_runs(placed.machines, placed.tasks)
    others = solo.rows_of_runs([placed.machines[owner] for owner in owners], corunners)
    other_rates = solo.run_rates[others]
    parts = [solo.run_rates[own], _sum_by_owner(other_rates, owners, number)]
    if placed.max_corunners > 1:
        largest = np.full((number, other_rates.shape[1]), -np.inf)
        np.maximum.at(largest, owners, other_rates)
        parts.append(np.where(np.isneginf(largest), 0.0, largest))
    fixed = solo.time_names.index("fixed_share")
    own_times = solo.run_times[own]
    other_times = _sum_by_owner(solo.run_times[others], owners, number) / np.maximum(counts, 1)[:, None]
    other_times[:, fixed] *= counts
    twins = [names.count(task) for task, names in zip(placed.tasks, placed.corunners, strict=True)]
    place, properties = solo.machine_rows
    here = np.array([place.get(machine, -1) for machine in placed.machines], np.intp)
    longer, both_fixed = own_times[:, 0] - other_times[:, 0], own_times[:, fixed] * other_times[:, fixed]
    combined = np.column_stack([longer, both_fixed, twins, counts])
    return np.hstack([*parts, own_times, other_times, combined, properties[here]])


def _with_unknown(values: Floats) -> Floats:
    return np.vstack([values, np.full((1, values.shape[1]), np.nan)])


def _sum_by_owner(values: Floats, owners: NDArray[np.intp], rows: int) -> Floats:
    total = np.zeros((rows, values.shape[1]))
    np.add.at(total, owners, values)
    return total
