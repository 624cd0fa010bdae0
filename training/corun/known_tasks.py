"""The tasks that a static model knows: their solo runs, which lie beside the model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from data.corun.tables import HOST_DTYPES, PAIR_DTYPES, SAMPLE_DTYPES, TASK_DTYPES, CorunTables
from data.tables.files import replacing
from data.tables.specs import as_number, read_table, typed
from features.corun.rates import MOST, OTHERS, Placed, Solo, vectors
from training.registry.stored import beside_model

TASKS, HOSTS = "tasks.parquet", "hosts.parquet"


@dataclass(frozen=True)
class KnownTasks:
    """Solo runs and the machines they ran on.

    Attributes
    ----------
    tasks, hosts : DataFrame
        As in `CorunTables`.
    """

    tasks: pd.DataFrame
    hosts: pd.DataFrame

    @classmethod
    def of(cls, tables: CorunTables) -> KnownTasks:
        """Take them from tables of co-runs."""
        return cls(tables.tasks, tables.hosts)

    @classmethod
    def read(cls, directory: Path) -> KnownTasks:
        """Read what `write` wrote beside a model.

        Raises
        ------
        InputError
            If a file is missing or lacks a column.
        """
        return cls(
            read_table(beside_model(directory, TASKS), TASK_DTYPES, further=as_number),
            read_table(beside_model(directory, HOSTS), HOST_DTYPES, further=as_number),
        )

    def write(self, directory: Path) -> None:
        """Write ``tasks.parquet`` and ``hosts.parquet`` to `directory`."""
        for name, table in ((TASKS, self.tasks), (HOSTS, self.hosts)):
            with replacing(directory / name) as path:
                table.to_parquet(path, index=False, compression="zstd")

    def with_others(self, others: KnownTasks) -> KnownTasks:
        """Add solo runs from elsewhere; where both have a task on a machine, theirs count."""
        theirs = pd.MultiIndex.from_frame(others.tasks[["machine", "task"]])
        ours = self.tasks[~pd.MultiIndex.from_frame(self.tasks[["machine", "task"]]).isin(theirs)]
        joined = CorunTables.joined([_tables(ours, self.hosts), _tables(others.tasks, others.hosts)])
        return KnownTasks(joined.tasks, joined.hosts.drop_duplicates("machine"))

    @cached_property
    def solo(self) -> Solo:
        """Medians over repetitions, from which vectors are made."""
        return Solo.of(_tables(self.tasks, self.hosts))

    @cached_property
    def on(self) -> dict[str, frozenset[str]]:
        """The tasks that ran alone on each machine."""
        return {
            str(machine): frozenset(names)
            for machine, names in self.tasks.groupby("machine", sort=True)["task"].unique().items()
        }

    def seconds(self, machine: str, task: str) -> float:
        """Return the median solo time; NaN where the task never ran there."""
        return float(np.exp(self.solo.log_seconds([machine], [task])[0]))

    def rows(self, placed: Placed, columns: tuple[str, ...]) -> pd.DataFrame:
        """Return the vectors of co-runs as models take them: ``task, corunners, machine`` and `columns`.

        What the known tasks cannot say (an event that they lack) is NaN.
        """
        made = vectors(self.solo, placed)
        # beside one other, the largest rate is the only one
        largest = {name: made[f"{OTHERS}{name.removeprefix(MOST)}"] for name in _missing(columns, made)}
        names = pd.DataFrame(
            {
                "task": placed.tasks,
                "corunners": ["+".join(beside) for beside in placed.corunners],
                "machine": placed.machines,
            }
        )
        known = pd.concat([made, pd.DataFrame(largest, index=made.index)], axis="columns")
        return pd.concat([names, known.reindex(columns=list(columns))], axis="columns")


def _missing(columns: tuple[str, ...], made: pd.DataFrame) -> list[str]:
    return [
        name
        for name in columns
        if name.startswith(MOST)
        and name not in made.columns
        and f"{OTHERS}{name.removeprefix(MOST)}" in made.columns
    ]


def _tables(tasks: pd.DataFrame, hosts: pd.DataFrame) -> CorunTables:
    return CorunTables(tasks, typed(None, PAIR_DTYPES), typed(None, SAMPLE_DTYPES), hosts)
