"""Campaigns, pairs and programs of spec-corun that were held out, over five seeds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.impact import table_of
from benchmarks.transfer.fitted import JUDGES, Question, Rows, errors_of, recipe_of
from benchmarks.transfer.row import TransferRow
from data.corun.formats import spec_corun
from training.corun.estimators.fitting import ImpactTable
from training.corun.splits import DESIGNS

SEEDS, FOLDS = 5, 5
#: What is held out of one campaign, and by which design.
WITHIN = {"pairs": "pairs", "programs": "tasks"}


def across(frame: pd.DataFrame) -> list[tuple[Rows, Rows]]:
    """Learn from one campaign, and ask about the other."""
    names = frame["machine"].to_numpy(np.str_)
    return [(np.flatnonzero(names != name), np.flatnonzero(names == name)) for name in np.unique(names)]


def rows(shared: Path, seed: int) -> Iterator[TransferRow]:
    """Hold out campaigns of spec-corun, then pairs and programs within the first of them."""
    table = table_of(spec_corun.read(shared / "spec-corun"))
    question = Question("spec-corun", "campaigns", "impact of all pairs")
    for judge in JUDGES:
        recipes = [recipe_of(table, judge, seed + more) for more in range(SEEDS)]
        yield question.row(
            judge, [errors_of(table, one, *fold) for one in recipes for fold in across(table.frame)]
        )
    for name in np.unique(table.frame["machine"].to_numpy(np.str_)).tolist():
        yield from within(table, name, seed)


def within(table: ImpactTable, campaign: str, seed: int) -> Iterator[TransferRow]:
    """Hold out pairs and programs of one campaign."""
    own = ImpactTable(table.frame[table.frame["machine"] == campaign].reset_index(drop=True), table.digest)
    for held_out, design in WITHIN.items():
        question = Question("spec-corun", held_out, f"impact in {campaign}")
        for judge in JUDGES:
            errors = [
                errors_of(own, recipe_of(own, judge, seed + more), *fold)
                for more in range(SEEDS)
                for fold in DESIGNS[design].divide(own.frame, FOLDS, seed + more)
            ]
            yield question.row(judge, errors)
