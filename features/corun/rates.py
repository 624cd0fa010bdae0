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
        rows = self.seconds.index.get_indexer(pd.Index(tasks))
        columns = self.seconds.columns.get_indexer(pd.Index(machines))
        values = np.log(self.seconds.to_numpy(np.float64)[rows, columns])
        return np.where((rows < 0) | (columns < 0), np.nan, values)

    def rates_of(self, machines: Sequence[str], tasks: Sequence[str]) -> Floats:
        """Return events per second of ``tasks[i]`` on ``machines[i]``, shape (n_rows, n_events).

        NaN for a task that never ran alone on that machine.
        """
        rows = self.rates.index.get_indexer(pd.MultiIndex.from_arrays([machines, tasks]))
        return np.where(rows[:, None] < 0, np.nan, self.rates.to_numpy(np.float64)[rows])


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

    @cached_property
    def corunner_rows(self) -> tuple[NDArray[np.intp], list[str], list[str]]:
        """The row, the name and the machine of each co-runner, in the order of the rows."""
        owners = np.repeat(np.arange(len(self.tasks)), [len(names) for names in self.corunners])
        names = [name for names in self.corunners for name in names]
        return owners, names, [self.machines[owner] for owner in owners]

    @property
    def max_corunners(self) -> int:
        """The largest number of co-runners."""
        return max(map(len, self.corunners), default=0)


def rate_vectors(solo: Solo, placed: Placed) -> pd.DataFrame:
    """Return each task's rates, and the sum of its co-runners' (co-run paper, equation 1), one row per task.

    ``own_<event>`` and ``others_<event>`` in events per second; if a task has more than one co-runner, also
    ``most_<event>``, the largest single rate.
    """
    events = list(solo.rates.columns)
    owners, names, machines = placed.corunner_rows
    rates, count = solo.rates_of(machines, names), len(placed.tasks)
    parts = {OWN: solo.rates_of(placed.machines, placed.tasks), OTHERS: _sum_by_owner(rates, owners, count)}
    if placed.max_corunners > 1:
        largest = np.full((count, len(events)), -np.inf)
        np.maximum.at(largest, owners, rates)
        parts[MOST] = np.where(np.isneginf(largest), 0.0, largest)
    columns = [f"{prefix}{event}" for prefix in parts for event in events]
    return pd.DataFrame(np.hstack(list(parts.values())), columns=columns)


def time_vectors(solo: Solo, placed: Placed) -> pd.DataFrame:
    """Return features from the solo times of each task and its co-runners, one row per task.

    For the task (``own_``) and as the mean over its co-runners (``others_``): ``seconds``, the logarithm of
    the solo time; ``over_q<n>``, its difference from that quantile of the machine's solo times;
    ``fixed_share``, the machine's fixed cost as a share of it (the sum over co-runners); ``activity``, the
    mean of log(1 + rate); ``vs_<engine>``, its logarithm minus that of the same task under another engine of
    the same device. ``longer`` is the task's ``seconds`` minus the co-runners', ``both_fixed`` the product of
    the shares, ``twins`` the number of co-runners that are the same task, and ``beside`` the number of
    co-runners. NaN where a solo time is unknown.
    """
    owners, names, machines = placed.corunner_rows
    number = len(placed.tasks)
    counts = np.bincount(owners, minlength=number)
    task_times = _solo_times(solo, placed.machines, placed.tasks)
    corunner_times = _solo_times(solo, machines, names)
    means = _sum_by_owner(corunner_times.to_numpy(), owners, number) / np.maximum(counts, 1)[:, None]
    others = pd.DataFrame(means, columns=corunner_times.columns)
    others["fixed_share"] *= counts
    twins = [names.count(task) for task, names in zip(placed.tasks, placed.corunners, strict=True)]
    columns = pd.concat([task_times.add_prefix(OWN), others.add_prefix(OTHERS)], axis="columns")
    return columns.assign(
        longer=task_times["seconds"] - others["seconds"],
        both_fixed=task_times["fixed_share"] * others["fixed_share"],
        twins=np.array(twins, np.float64),
        beside=counts.astype(np.float64),
    )


def machine_vectors(solo: Solo, placed: Placed) -> pd.DataFrame:
    """Return features of the machine of each row of `placed`, one row per task.

    ``engine_<engine>`` (0 or 1), and with the prefix ``machine_`` its numeric properties and the logarithms
    of quantiles of its solo times (``q<n>``); NaN for unknown machines.
    """
    engines = {f"engine_{engine}": solo.hosts["engine"].eq(engine) for engine in solo.machine_by_engine}
    numbers = solo.hosts.drop(columns=[c for c in HOST_DTYPES if c in solo.hosts]).add_prefix("machine_")
    parts = [numbers, pd.DataFrame(engines, solo.hosts.index), solo.fixed_cost.add_prefix("machine_")]
    by_machine = pd.concat(parts, axis="columns").astype("float64")
    return by_machine.reindex(placed.machines).reset_index(drop=True)


def corun_vectors(solo: Solo, placed: Placed) -> pd.DataFrame:
    """Return the columns of `rate_vectors`, `time_vectors` and `machine_vectors`, one row per task."""
    made = (make(solo, placed) for make in (rate_vectors, time_vectors, machine_vectors))
    return pd.concat(made, axis="columns")


def _solo_times(solo: Solo, machines: Sequence[str], tasks: Sequence[str]) -> pd.DataFrame:
    # each pair of machine and task is computed once
    machine, hosts = pd.factorize(np.asarray(machines, object))
    task, names = pd.factorize(np.asarray(tasks, object))
    codes, place = np.unique(machine * len(names) + task, return_inverse=True)
    machine, task = np.divmod(codes, max(len(names), 1))
    machines, tasks = hosts[machine].tolist(), names[task].tolist()
    seconds = solo.log_seconds(machines, tasks)
    cost = solo.fixed_cost.reindex(machines)
    low = cost.iloc[:, FIXED].to_numpy(np.float64)
    logs = np.log1p(solo.rates_of(machines, tasks))
    activity, has_rates = np.full(len(logs), np.nan), ~np.isnan(logs).all(axis=1)
    activity[has_rates] = np.nanmean(logs[has_rates], axis=1)
    columns = {
        "seconds": seconds,
        **{f"over_{name}": seconds - cost[name].to_numpy(np.float64) for name in cost},
        "fixed_share": np.exp(np.minimum(low - seconds, 0)),
        "activity": activity,
    }
    devices = solo.hosts["device"].reindex(machines)
    for engine, on in solo.machine_by_engine.items():
        sibling = devices.map(on).fillna("").tolist()
        columns[f"vs_{engine}"] = seconds - solo.log_seconds(sibling, tasks)
    return pd.DataFrame(columns, dtype=np.float64).take(place).reset_index(drop=True)


def _sum_by_owner(values: Floats, owners: NDArray[np.intp], rows: int) -> Floats:
    total = np.zeros((rows, values.shape[1]))
    np.add.at(total, owners, values)
    return total
