"""The tasks that a static model knows: their solo runs, which lie beside the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.corun.tables import HOST_DTYPES, PAIR_DTYPES, SAMPLE_DTYPES, TASK_DTYPES, CorunTables
from data.tables.specs import Spec, Tables, as_number, typed
from features.corun.rates import MOST, OTHERS, Placed, Solo, vectors
from training.registry.stored import beside_model

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class KnownTasks(Tables):
    """Solo runs and the machines they ran on.

    Attributes
    ----------
    tasks, hosts : DataFrame
        As in `CorunTables`.
    """

    SPECS: ClassVar = {
        "tasks": Spec(TASK_DTYPES, further=as_number),
        "hosts": Spec(HOST_DTYPES, further=as_number),
    }

    tasks: pd.DataFrame
    hosts: pd.DataFrame

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read what `write` wrote beside a model.

        Raises
        ------
        InputError
            If a file is missing or lacks a column.
        """
        files = {name: beside_model(directory, f"{name}.parquet") for name in cls.SPECS}
        return cls(**{name: cls.SPECS[name].read(path) for name, path in files.items()})

    def with_others(self, others: CorunTables) -> KnownTasks:
        """Add solo runs from elsewhere; where both have a task on a machine, theirs count."""
        theirs = pd.MultiIndex.from_frame(others.tasks[["machine", "task"]])
        ours = self.tasks[~pd.MultiIndex.from_frame(self.tasks[["machine", "task"]]).isin(theirs)]
        joined = KnownTasks.joined([KnownTasks(ours, self.hosts), KnownTasks(others.tasks, others.hosts)])
        return replace(joined, hosts=joined.hosts.drop_duplicates("machine"))

    @property
    def events(self) -> list[str]:
        """The events that were counted."""
        return [column for column in self.tasks.columns if column not in TASK_DTYPES]

    @cached_property
    def solo(self) -> Solo:
        """Medians over repetitions, from which vectors are made."""
        pairs, samples = typed(None, PAIR_DTYPES), typed(None, SAMPLE_DTYPES)
        return Solo.of(CorunTables(self.tasks, pairs, samples, self.hosts))

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

    def usual(self, machine: str, beside: int, columns: tuple[str, ...]) -> Floats:
        """Return the medians of `columns` over the tasks of a machine, each beside so many others."""
        key = machine, beside, columns
        if key not in self._usual:
            tasks = sorted(self.on[machine])
            others = [(task,) * beside for task in [*tasks[1:], tasks[0]]]
            rows = self.rows(Placed(tasks, others, [machine] * len(tasks)), columns)
            self._usual[key] = rows[list(columns)].median().to_numpy(np.float64)
        return self._usual[key]

    @cached_property
    def _usual(self) -> dict[tuple[str, int, tuple[str, ...]], Floats]:
        return {}

    def rows(self, placed: Placed, columns: tuple[str, ...]) -> pd.DataFrame:
        """Return the vectors of co-runs as models take them: ``task, corunners, machine`` and `columns`.

        What the known tasks cannot say (an event that they lack) is NaN.
        """
        made = vectors(self.solo, placed)
        # beside one other, the largest rate is the only one
        single = {name: f"{OTHERS}{name.removeprefix(MOST)}" for name in columns if name.startswith(MOST)}
        largest = {name: made[other] for name, other in single.items() if name not in made and other in made}
        known = pd.concat([made, pd.DataFrame(largest, index=made.index)], axis="columns")
        return pd.concat([placed.named, known.reindex(columns=list(columns))], axis="columns")
