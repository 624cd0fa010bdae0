"""Fingerprints: applications on servers whose CPU model nobody had learned from, sparecores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.fingerprints import REFERENCE, table
from benchmarks.transfer.row import TransferRow
from data.fingerprints.params import Profiling
from training.fingerprints.prediction import Forecast, by_application, forecast

DATA = "sparecores"
JUDGES = {"ensemble": "ours", "forest": "plain forest"}


def rows(shared: Path, seed: int) -> Iterator[TransferRow]:
    """Yield the median error of each judge on each application; all have the same folds of CPU models.

    Parameters
    ----------
    shared : Path
        The folder of public data.
    seed : int

    Raises
    ------
    InputError
        If the data set is not there.
    """
    found = table(DATA, shared)
    for application in REFERENCE:
        measured = found.measured(application).by_machine()
        task = Forecast(measured, tuple(JUDGES), Profiling().confidence, "xgboost", seed)
        predictions = forecast(task)
        whole = by_application(predictions, 0.1).set_index("entry")["median_error"]
        for entry, judge in JUDGES.items():
            folds = predictions[predictions["entry"] == entry].groupby("fold")
            spread = folds.apply(lambda rows: by_application(rows, 0.1)["median_error"].item()).std(ddof=0)
            yield TransferRow(
                DATA,
                "whole CPU models",
                application,
                len(measured.y),
                judge,
                "median error",
                float(whole[entry]),
                float(spread),
            )
