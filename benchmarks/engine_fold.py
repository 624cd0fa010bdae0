"""One classifier on one fold of synthetic matrices, timed: what the processes of `benchmarks.engine` do."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from benchmarks.synthetic_matrices import GROUPS, VECTORS, generate
from benchmarks.table import SEED, clocked
from data.matrices.tables import MatrixTables
from training.matrices.engine.engine import Engine, Scheme

FOLDS, TRIALS, COMPONENTS = 10, 10, 100
#: The seed's remedies on vectors: raw metrics, pruned, by group, projected, balanced.
SEEDS = Scheme("raw", "flattened", prune=True, grouping="given", components=COMPONENTS, balance=True)


@dataclass(frozen=True)
class Task:
    """One classifier on one fold; ``seconds`` of a result are of fit and judgement, on the processor."""

    model: str
    fold: int
    scheme: Scheme = SEEDS
    vectors: int = VECTORS


@dataclass(frozen=True)
class Judged:
    """What came of a task: the seconds, and of each test vector its group, what it is, and what was said.

    Attributes
    ----------
    seconds : float
    truth, told : ndarray of bool, shape (n_vectors,)
        Whether it is, and was called, abnormal.
    group : ndarray of object, shape (n_vectors,)
    """

    seconds: float
    truth: np.ndarray
    told: np.ndarray
    group: np.ndarray

    def of_groups(self, groups: Collection[str]) -> Judged:
        """Return the vectors of these groups; the seconds are of all."""
        chosen = np.isin(self.group, list(groups))
        return replace(self, truth=self.truth[chosen], told=self.told[chosen], group=self.group[chosen])


@lru_cache(maxsize=1)
def tables_of(vectors: int) -> MatrixTables:
    """Return the valid runs' tables; invalid ones teach nothing and are not counted by the seed."""
    tables = generate(vectors, SEED)
    return tables.of_runs(tables.runs["valid"].to_numpy(bool))


def parted(tables: MatrixTables, fold: int) -> tuple[MatrixTables, MatrixTables]:
    """Return training and test tables; test cases stay whole, every group is in every fold."""
    case = tables.runs["workload"].str.extract(r"(\d+)$", expand=False).astype(int).to_numpy()
    test = (case // GROUPS) % FOLDS == fold
    return tables.of_runs(~test), tables.of_runs(test)


def ours(task: Task) -> Judged:
    """Fit the engine, search included, and judge the fold."""
    train, test = parted(tables_of(task.vectors), task.fold)
    engine = Engine(task.scheme, task.model, TRIALS, SEED)
    seconds, vectors = clocked(lambda: engine.fit(train).vectors(test), time.process_time)
    flags = test.runs.set_index("run_id")["abnormal"]
    truth = flags.reindex(vectors["run_id"]).fillna(False).to_numpy(bool)
    group = vectors["group"].to_numpy(object)
    return Judged(seconds, truth, vectors["abnormal"].to_numpy(bool), group)
