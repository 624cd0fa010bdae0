"""Read the results of the stages of the family ``corun`` for its report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel

from data.corun.collect import PLACEMENTS_FILE
from data.corun.tables import AND, CorunTables
from data.corun.validity import CorunDecisions
from data.paths import Places
from data.tables.files import read_json
from data.tables.specs import read_table
from serving.corun.place import PLACEMENTS, MeasuredPlacements, read_measured
from serving.reports import evaluation_files as pages
from serving.reports.evaluation_files import Score
from training.corun import placement
from training.corun.placement import Placement, Room

Floats = NDArray[np.float64]
#: Placements at random.
DRAWS = 1000
#: Fewer tasks leave no choice.
_FEWEST = 4


@dataclass(frozen=True)
class Check:
    """Totals of co-run seconds of all tasks, two to a machine, as the pairs were measured."""

    tasks: int
    chosen: float
    best: float
    worst: float
    random: Floats

    @property
    def beaten(self) -> float:
        """The share of placements at random that take longer than the chosen one."""
        return float((self.random > self.chosen).mean())

    @property
    def saving(self) -> float:
        """The share of a random placement's time that the chosen one saves on average."""
        return 1 - self.chosen / float(self.random.mean())

    @property
    def possible(self) -> float:
        """The share that the placement that is best by the measurement would have saved."""
        return 1 - self.best / float(self.random.mean())


def check(predicted: pd.DataFrame, measured: pd.DataFrame, solo: pd.Series, seed: int) -> Check | None:
    """Place all tasks by predicted impacts, and return the measured total times; None with too few data."""
    tasks = [task for task in measured.index if task in measured.columns and task in solo.index]
    if len(tasks) < _FEWEST:
        return None
    matrices = [frame.loc[tasks, tasks].to_numpy(np.float64) for frame in (predicted, measured)]
    apart = ~np.eye(len(tasks), dtype=bool)
    if any(np.isnan(matrix[apart]).any() for matrix in matrices):
        return None
    said, real = (np.where(apart, matrix, 1.0) - 1 for matrix in matrices)
    seconds = solo[tasks].to_numpy(np.float64)
    room = Room(-(-len(tasks) // 2), 2)
    cost = placement.pairwise(real * seconds[:, None])

    def total(found: Placement) -> float:
        return float(seconds.sum()) + placement.total(list(found.groups), cost)

    number = len(tasks)
    return Check(
        number,
        total(placement.best(number, room, placement.pairwise(said), seed)),
        total(placement.best(number, room, cost, seed)),
        total(placement.worst(number, room, cost, seed)),
        float(seconds.sum()) + placement.random(number, room, cost, DRAWS, seed),
    )


_NAMES = dict.fromkeys(("task", "corunners", "machine"), "str")
INSTANCES = _NAMES | {"solo_seconds": "float64", "impact": "float64"}
RESIDUALS = _NAMES | dict.fromkeys(
    ("fitted", "residual", "standardised", "theoretical", "scale", "leverage", "cook"), "float64"
)
#: Tables written by the evaluation, by file name.
TABLES = {
    "oof": _NAMES
    | dict.fromkeys(("design", "model", "kind"), "str")
    | dict.fromkeys(("measured", "predicted", "low", "high"), "float64"),
    "table1": dict.fromkeys(("predictor", "kind", "preparation"), "str")
    | dict.fromkeys(("accuracy", "spread", "seeds"), "float64"),
    "importance": {"feature": "str", "rise": "float64", "spread": "float64"},
    "removed": {"without": "str", "measured": "bool", "within_tolerance": "float64", "mape": "float64"},
    "residuals": RESIDUALS,
    "online_residuals": RESIDUALS,
}


def where(rows: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Return the rows that have these values, by column."""
    for column, value in values.items():
        rows = rows[rows[column] == value]
    return rows


class DataSet(pages.DataSet):
    """The co-runs."""

    instances: int
    measurements: int
    tasks: int
    machines: int
    events: int


class Repeatability(BaseModel):
    """How well the measurement repeats itself; null where nothing was repeated."""

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
    def order(self) -> float:
        """The smallest mean error comes first."""
        return self.mape.pooled or 0.0


class OnlineEntry(BaseModel):
    """One online model after so many seconds, in one design."""

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

    def at(self, design: str) -> list[OnlineEntry]:
        """Return the models after the seconds that the model is trained for, the smallest error first."""
        found = [one for one in self.entries if one.design == design and one.seconds == self.trained_at]
        return sorted(found, key=lambda one: (one.mape, one.model))

    @property
    def designs(self) -> list[str]:
        """The ways to divide."""
        return sorted({one.design for one in self.entries})


class Metrics(pages.Metrics[Entry]):
    """The part of ``metrics.json`` that the page uses."""

    data: DataSet
    tolerance: float
    confidence: float
    repeatability: Repeatability
    online: OnlineScores | None

    @property
    def main(self) -> str:
        """The design that the champion is chosen by."""
        return "pairs" if "pairs" in self.splits else next(iter(self.splits))


@dataclass(frozen=True)
class EvaluatedCoruns:
    """All that the page is drawn from."""

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
        """Read the stages' files under `root`."""
        places = Places("corun", root)
        reports, decisions = places.evaluated, CorunDecisions.read(places.valid)
        tables = {name: read_table(reports / f"{name}.parquet", dtypes) for name, dtypes in TABLES.items()}
        return cls(
            read_json(places.metrics, Metrics),
            decisions.kept(CorunTables.read(places.interim)),
            tuple(decisions.explained()),
            read_table(places.processed / "features.parquet", INSTANCES)[list(INSTANCES)],
            read_measured(root / PLACEMENTS) if (root / PLACEMENTS / PLACEMENTS_FILE).is_file() else None,
            **tables,
        )

    @cached_property
    def machine(self) -> str:
        """The machine with the most co-runs, for figures that show one."""
        return str(self.instances["machine"].value_counts(sort=True).sort_index(kind="stable").idxmax())

    @cached_property
    def impacts(self) -> pd.DataFrame:
        """Impacts on `machine`: a row per task, a column per co-runner; NaN where they never met."""
        return self._matrix(self.instances, "impact")

    @cached_property
    def unseen(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The champion's out-of-fold predictions for pairs on `machine`, and the measured impacts."""
        rows = where(self.oof, model=self.metrics.champion, design=self.metrics.main)
        return self._matrix(rows, "predicted"), self._matrix(rows, "measured")

    def _matrix(self, rows: pd.DataFrame, value: str) -> pd.DataFrame:
        pairs = rows[~rows["corunners"].str.contains(AND, regex=False)]
        own = where(pairs, machine=self.machine)
        return own.pivot_table(index="task", columns="corunners", values=value, aggfunc="median")

    @cached_property
    def solo_seconds(self) -> pd.Series:
        """Median solo seconds on `machine`, by task."""
        return where(self.tables.tasks, machine=self.machine).groupby("task")["solo_seconds"].median()

    @cached_property
    def strongest(self) -> tuple[str, str]:
        """The task and the co-runner with the largest impact on `machine`."""
        row, column = np.unravel_index(np.nanargmax(self.impacts.to_numpy()), self.impacts.shape)
        return str(self.impacts.index[row]), str(self.impacts.columns[column])

    def seeds_cells(self) -> list[dict[str, Any]]:
        """Return table 1 as rows: predictor, then a cell per kind and preparation."""
        cells = self.table1.set_index(["predictor", "kind", "preparation"]).to_dict("index")
        ways = list(product(("regression", "classification"), ("d&n", "n-d", "n-n")))
        return [
            {
                "predictor": name,
                "cells": [cells.get((name, *way)) for way in ways],
                "online": self._online(str(name)),
            }
            for name in dict.fromkeys(self.table1["predictor"])
        ]

    def _online(self, predictor: str) -> dict[str, float] | None:
        online = self.metrics.online
        known = {"Regression": "linear", "SVM": "svm", "Random forest": "random-forest", "XGBoost": "xgboost"}
        found = {one.model: one for one in online.at("random")} if online else {}
        one = found.get(known.get(predictor, ""))
        if online is None or one is None:
            return None
        seeds = online.seeds.get(predictor, np.nan)
        return {"accuracy": one.within_tolerance, "spread": one.spread, "seeds": seeds}
