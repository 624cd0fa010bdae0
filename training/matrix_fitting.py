"""Engines fitted to the training part of a fold and asked about the rest."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from data.matrix_tables import MatrixTables
from training.engine import Engine
from training.matrix_examples import MatrixExamples
from training.matrix_schemes import Cell
from training.matrix_scores import Counts, Held


@dataclass(frozen=True)
class Part:
    """A fold: what is learned from, and what is asked.

    Attributes
    ----------
    fold : int
    train : MatrixTables
        All runs of the training test cases, with flags.
    test : MatrixTables
        Valid runs of the others, without flags.
    truth : Series of bool
        By ``run_id``: whether a run of `test` is abnormal.
    """

    fold: int
    train: MatrixTables
    test: MatrixTables
    truth: pd.Series


def parts(examples: MatrixExamples, fold_of: pd.Series) -> list[Part]:
    """Divide by the fold of each test case; those without a pair to score are only trained on."""
    known, truth = examples.tables.runs["workload"].unique(), examples.truth()
    found = []
    for fold in sorted(fold_of.unique()):
        inside = set(fold_of.index[fold_of == fold])
        test = examples.testing(inside)
        train = examples.training([name for name in known if name not in inside])
        found.append(Part(int(fold), train, test, truth.loc[test.runs["run_id"]]))
    return found


@dataclass(frozen=True)
class Fit:
    """A cell to fit to a part's training runs, and to ask about its test runs.

    Attributes
    ----------
    cell : Cell
    part : Part
    trials : int
        Of the search.
    seed : int
    fixed : mapping
        Parameters that are not searched.
    """

    cell: Cell
    part: Part
    trials: int
    seed: int
    fixed: Mapping[str, Any] = field(default_factory=dict)


def held(fit: Fit) -> Held:
    """Fit, and count what is said of the rest."""
    part, cell = fit.part, fit.cell
    begun = time.perf_counter()
    engine = Engine(cell.scheme, cell.model, fit.trials, fit.seed, fit.fixed).fit(part.train)
    seconds = time.perf_counter() - begun
    pairs, vectors = engine.judged(part.test), engine.vectors(part.test)
    truth = part.truth.loc[vectors["run_id"]].to_numpy(bool)
    told = pairs[["pair_id", "group_used", "probability", "threshold"]].assign(
        judged=pairs["abnormal"].to_numpy(bool)
    )
    return Held(part.fold, told, Counts.of(truth, vectors["abnormal"].to_numpy(np.bool_)), seconds)
