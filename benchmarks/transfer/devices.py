"""Devices that were never measured, or with a handful of co-runs, on pitot: a curve of 0, 5 and 20."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.impact import AHEAD_OF_TIME, table_of
from benchmarks.transfer.fitted import JUDGES, Question, Rows, errors_of, recipe_of
from benchmarks.transfer.row import TransferRow
from data.corun.formats import pitot
from data.corun.validity import of_engines
from training.corun.splits import DESIGNS

#: Co-runs on each new device that training sees.
SHOTS = (0, 5, 20)
#: Co-runs of other devices that are learned from, drawn at random: what is asked is the device, not how many.
LEARNED = 2500
FOLDS = 3


@dataclass(frozen=True)
class Divided:
    """Rows of a fold.

    Attributes
    ----------
    train, test : ndarray of int
        Of other devices; of the new ones, without those that may be learned from.
    shots : ndarray of int
        Of the new ones, in the order in which they come to be known; devices take turns.
    """

    train: Rows
    test: Rows
    shots: Rows

    @classmethod
    def of(cls, frame: pd.DataFrame, train: Rows, held: Rows, generator: np.random.Generator) -> Divided:
        """Draw what is learned from."""
        mixed = pd.Series(generator.permutation(held))
        turns = mixed.groupby(frame["device"].to_numpy()[mixed]).cumcount()
        known = (turns < SHOTS[-1]).to_numpy()
        order = np.argsort(turns[known].to_numpy(), kind="stable")
        drawn = generator.permutation(train)[:LEARNED]
        return cls(np.sort(drawn), np.sort(mixed[~known].to_numpy()), mixed[known].to_numpy()[order])

    def learned(self, shots: int) -> Rows:
        """Return training rows with so many of each new device."""
        devices = len(self.shots) // SHOTS[-1]
        return np.concatenate([self.train, self.shots[: shots * devices]])


def rows(shared: Path, seed: int) -> Iterator[TransferRow]:
    """Hold out devices of pitot; see `benchmarks.transfer`."""
    table = table_of(of_engines(pitot.read(shared / "pitot"), AHEAD_OF_TIME))
    frame, generator = table.frame, np.random.default_rng(seed)
    folds = [
        Divided.of(frame, train, held, generator)
        for train, held in DESIGNS["machines"].divide(frame, FOLDS, seed)
    ]
    for shots in SHOTS:
        for judge in JUDGES:
            recipe = recipe_of(table, judge, seed)
            errors = [errors_of(table, recipe, fold.learned(shots), fold.test) for fold in folds]
            question = Question("pitot", "devices", f"impact, {shots} co-runs of each known")
            yield question.row(judge, errors)
