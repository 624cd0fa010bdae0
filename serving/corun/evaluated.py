"""Read the results of the stages of the family ``corun`` for the report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from data.corun.collect import PLACEMENTS_FILE
from data.corun.tables import AND, CorunTables
from data.corun.validity import CorunDecisions
from data.paths import FamilyPaths
from data.tables.files import read_json
from data.tables.specs import read_table
from features.corun.rates import Floats
from serving.corun.place import PLACEMENTS, MeasuredPlacements, read_measured
from serving.reports import evaluation_files as pages
from serving.reports.evaluation_files import Score, dtypes_of
from training.corun import placement
from training.corun.placement import Room
from training.corun.splits import main_design

#: Number of random placements, and minimal number of tasks to place.
DRAWS, _FEWEST = 1000, 4


@dataclass(frozen=True)
class PlacementCheck:
    """Total co-run seconds of all tasks, two per machine, by measured pairs.

    `chosen` is the placement by predictions; `best` and `worst` are those by the measurements.
    """

    tasks: int
    chosen: float
    best: float
    worst: float
    random: Floats

    @property
    def beaten(self) -> float:
        """The share of random placements that take longer than the chosen one."""
        return float((self.random > self.chosen).mean())

    @property
    def chosen_saving(self) -> float:
        """The share of the mean time of random placements that the chosen one saves."""
        return 1 - self.chosen / float(self.random.mean())

    @property
    def best_saving(self) -> float:
        """The share of the mean time of random placements that the best one saves."""
        return 1 - self.best / float(self.random.mean())


def check_placements(
    predicted: pd.DataFrame, measured: pd.DataFrame, solo: pd.Series, seed: int
) -> PlacementCheck | None:
    """Return total seconds of all tasks, two per machine, by placement: ``chosen, best, worst, random``.

    Predicted impacts choose ``chosen``, measured ones ``best`` and ``worst``; ``random`` are 1,000 random
    placements. All totals come from measured impacts. `predicted` and `measured` hold impacts on the tasks
    (rows) by their co-runners (columns), `solo` holds seconds by task. Only tasks in the rows and columns of
    `measured` and in `solo` count; KeyError if `predicted` lacks one. None with fewer than four such tasks,
    or if the impact of a pair of different tasks is unknown.
    """
    tasks = [task for task in measured.index if task in measured.columns and task in solo.index]
    if len(tasks) < _FEWEST:
        return None
    matrices = [frame.loc[tasks, tasks].to_numpy(np.float64) for frame in (predicted, measured)]
    others = ~np.eye(len(tasks), dtype=bool)
    if any(np.isnan(matrix[others]).any() for matrix in matrices):
        return None
    expected, actual = (np.where(others, matrix, 1.0) - 1 for matrix in matrices)
    seconds = solo[tasks].to_numpy(np.float64)
    alone, number, room = float(seconds.sum()), len(tasks), Room(-(-len(tasks) // 2), 2)
    cost = placement.pairwise_cost(actual * seconds[:, None])
    chosen = placement.best_placement(number, room, placement.pairwise_cost(expected), seed)
    measured_best = placement.best_placement(number, room, cost, seed)
    plans = chosen, measured_best, placement.worst_placement(number, room, cost, seed)
    took, best, worst = (alone + placement.total_slowdown(list(plan.groups), cost) for plan in plans)
    random = alone + placement.random_totals(number, room, cost, DRAWS, seed)
    return PlacementCheck(number, took, best, worst, random)


_NAMES = "task corunners machine"
INSTANCES = dtypes_of(str=_NAMES, float64="solo_seconds impact")
_RESIDUALS = dtypes_of(str=_NAMES, float64="fitted residual standardised theoretical scale leverage cook")
#: Online models by predictor of table 1.
_ONLINE_MODELS = {
    "Regression": "linear",
    "SVM": "svm",
    "Random forest": "random-forest",
    "XGBoost": "xgboost",
}
#: Columns of the tables of the evaluation, by file name.
TABLES = {
    "oof": dtypes_of(str=f"{_NAMES} design model kind", float64="measured predicted low high"),
    "table1": dtypes_of(str="predictor kind preparation", float64="accuracy spread seeds"),
    "importance": dtypes_of(str="feature", float64="rise spread"),
    "removed": dtypes_of(str="without", bool="measured", float64="within_tolerance mape"),
    "residuals": _RESIDUALS,
    "online_residuals": _RESIDUALS,
}


def rows_with(rows: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Return the rows whose columns equal all given values (NaN equals nothing); KeyError: unknown column."""
    for column, value in values.items():
        rows = rows[rows[column] == value]
    return rows


class DataSet(pages.DataSet):
    """The co-runs that were evaluated."""

    instances: int
    measurements: int
    tasks: int
    machines: int
    events: int


class Repeatability(BaseModel):
    """Repeatability of the measurement; None if nothing was repeated."""

    repeated: int
    within_tolerance: float | None
    mape: float | None
    p90_error: float | None
    same_range: float | None
    solo_spread: float | None


class Entry(pages.Entry):
    """The scores of one model in one design."""

    within_tolerance: Score
    mape: Score
    median_error: Score
    p90_error: Score
    r2: Score
    coverage: Score
    interval_width: Score

    @property
    def sort_key(self) -> float:
        """The smallest mean error comes first."""
        return self.mape.pooled or 0.0


class OnlineEntry(BaseModel):
    """The scores of one online model with this many sampled seconds, in one design."""

    seconds: float
    design: str
    model: str
    within_tolerance: float
    spread: float
    mape: float
    r2: float


class OnlineScores(BaseModel):
    """Scores of the online model."""

    design: str
    champion: str
    trained_at: float
    entries: list[OnlineEntry]
    seeds: dict[str, float]

    def entries_of(self, design: str) -> list[OnlineEntry]:
        """Return the entries of a design with the seconds of the trained model, the smallest error first."""
        trained = [entry for entry in self.entries if entry.seconds == self.trained_at]
        of_design = [entry for entry in trained if entry.design == design]
        return sorted(of_design, key=lambda entry: (entry.mape, entry.model))

    @property
    def designs(self) -> list[str]:
        """The evaluation designs."""
        return sorted({entry.design for entry in self.entries})


class Metrics(pages.Metrics[Entry]):
    """The part of ``metrics.json`` that the page uses."""

    data: DataSet
    tolerance: float
    confidence: float
    repeatability: Repeatability
    online: OnlineScores | None

    @property
    def main(self) -> str:
        """The design by which the champion is chosen."""
        return main_design(tuple(self.splits))


@dataclass(frozen=True)
class EvaluatedCoruns:
    """The input of the page."""

    metrics: Metrics
    tables: CorunTables
    notes: tuple[str, ...]
    instances: pd.DataFrame
    placements: MeasuredPlacements | None
    oof: pd.DataFrame
    table1: pd.DataFrame
    importance: pd.DataFrame
    removed: pd.DataFrame
    residuals: pd.DataFrame
    online_residuals: pd.DataFrame

    @classmethod
    def read(cls, root: Path) -> EvaluatedCoruns:
        """Read the stages' files under the project `root`; InputError if one is missing or invalid."""
        paths = FamilyPaths("corun", root)
        reports, decisions = paths.evaluated, CorunDecisions.read(paths.valid)
        tables = {name: read_table(reports / f"{name}.parquet", dtypes) for name, dtypes in TABLES.items()}
        return cls(
            read_json(paths.metrics, Metrics),
            decisions.select_kept(CorunTables.read(paths.interim)),
            tuple(decisions.explanation_lines()),
            read_table(paths.processed / "features.parquet", INSTANCES)[list(INSTANCES)],
            read_measured(root / PLACEMENTS) if (root / PLACEMENTS / PLACEMENTS_FILE).is_file() else None,
            **tables,
        )

    @cached_property
    def shown_machine(self) -> str:
        """The machine with the most co-runs, for figures that show one."""
        return str(self.instances["machine"].value_counts(sort=True).sort_index(kind="stable").idxmax())

    @cached_property
    def impact_matrix(self) -> pd.DataFrame:
        """Impacts on `shown_machine`: a row per task, a column per co-runner; NaN: not measured."""
        return self._pivot_pairs(self.instances, "impact")

    @cached_property
    def held_out(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The champion's out-of-fold predictions for pairs on `shown_machine`, and the measured impacts."""
        rows = rows_with(self.oof, model=self.metrics.champion, design=self.metrics.main)
        return self._pivot_pairs(rows, "predicted"), self._pivot_pairs(rows, "measured")

    def _pivot_pairs(self, rows: pd.DataFrame, value: str) -> pd.DataFrame:
        pairs = rows[~rows["corunners"].str.contains(AND, regex=False)]
        rows = rows_with(pairs, machine=self.shown_machine)
        return rows.pivot_table(index="task", columns="corunners", values=value, aggfunc="median")

    @cached_property
    def solo_seconds(self) -> pd.Series:
        """Median solo seconds on `shown_machine`, by task."""
        runs = rows_with(self.tables.tasks, machine=self.shown_machine)
        return runs.groupby("task")["solo_seconds"].median()

    @cached_property
    def strongest_pair(self) -> tuple[str, str] | None:
        """The task and the co-runner with the largest impact on `shown_machine`; None without pairs."""
        if not self.impact_matrix.notna().any(axis=None):
            return None
        row, column = np.unravel_index(np.nanargmax(self.impact_matrix.to_numpy()), self.impact_matrix.shape)
        return str(self.impact_matrix.index[row]), str(self.impact_matrix.columns[column])

    def seeds_cells(self) -> list[dict[str, Any]]:
        """Return table 1 of the co-run paper as dicts: ``predictor``, ``cells``, ``online`` (None: unknown).

        A cell has ``accuracy, spread, seeds`` (the paper's). The six cells are those of regression, then of
        classification, for each preparation.
        """
        cells = self.table1.set_index(["predictor", "kind", "preparation"]).to_dict("index")
        columns = list(product(("regression", "classification"), ("d&n", "n-d", "n-n")))
        online = self.metrics.online
        entries = {entry.model: entry for entry in online.entries_of("random")} if online else {}
        rows = []
        for name in dict.fromkeys(self.table1["predictor"]):
            entry, online_cell = entries.get(_ONLINE_MODELS.get(name, "")), None
            if online and entry:
                seeds = online.seeds.get(name, np.nan)
                online_cell = {"accuracy": entry.within_tolerance, "spread": entry.spread, "seeds": seeds}
            cells_of_row = [cells.get((name, *column)) for column in columns]
            rows.append({"predictor": name, "cells": cells_of_row, "online": online_cell})
        return rows
