"""DBSherlock's metrics of MySQL under TPC-C (SIGMOD 2016): seconds of injected faults become matrices.

A run lasts about 132 s, with one faulty stretch. Its seconds are cut into measurements of `SIDE` windows of
`WINDOW` seconds; a window's mean is one row. Every measurement is a target once: of faulty seconds it is
abnormal, of normal seconds it is not. Its baseline are other measurements of normal seconds of the same run.

A run of Poor Physical Design stands still for about half a minute before its faulty stretch, and again after
it. Nobody calls these seconds faulty, and so they are asked about as normal ones; but no baseline is made of
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.matrices.tables import MatrixTables, StackedSides
from data.tables.specs import as_number, read_table

KNOWN = {"cause": "str", "run": "int64", "second": "int64", "abnormal": "bool"}
#: These count since the run began, so they tell how late it is, and the fault lies in the middle of a run.
CLOCKS = ("Epoch", "dbmsCumChangedRows", "dbmsCumFlushedPages")
#: Counts what was dirtied less what was flushed.
SIGNED = ("dbmsDirtyPages",)
#: The run begins with its first transaction; where there is none, there is no load.
TRANSACTIONS = "dbmsCommittedCommands"
#: Seconds in a window; windows in a measurement; measurements in a baseline, where there are as many.
WINDOW, SIDE, BASELINE = 3, 4, 3
SEED = 1


@dataclass(frozen=True)
class Excerpt:
    """A measurement: ``windows`` of shape (`SIDE`, n_metrics); ``loaded``: a transaction was committed."""

    windows: NDArray[np.float64]
    abnormal: bool
    loaded: bool


def read(path: Path) -> MatrixTables:
    """Read one Parquet file of DBSherlock's, or all of a directory.

    Raises
    ------
    InputError
        If a file cannot be read, lacks a column, or has a metric that is no number.
    """
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise InputError("holds no .parquet file", file=path)
    return MatrixTables.joined([_of_file(file) for file in files])


def _of_file(path: Path) -> MatrixTables:
    seconds = read_table(path, KNOWN, further=as_number)
    metrics = [column for column in seconds if column not in {*KNOWN, *CLOCKS}]
    draw = np.random.default_rng(SEED)
    sides, causes = StackedSides(metrics), []
    for (cause, run), of_run in seconds.sort_values("second").groupby(["cause", "run"], sort=True):
        about = {"workload": f"{path.stem} {cause} {run}", "group": path.stem, "machine": path.stem}
        for number, (baseline, target, abnormal) in enumerate(_pairs(of_run, metrics, draw)):
            pair = f"{about['workload']} {number}"
            sides.add(baseline, pair, "baseline", version="reference", abnormal=False, **about)
            names = sides.add(target, pair, "target", version="observed", abnormal=abnormal, **about)
            causes += [{"run_id": name, "cause": cause} for name in names if abnormal]
    described = [{"metric": metric, "signed": metric in SIGNED} for metric in metrics]
    return MatrixTables.of_rows(sides.frame(), causes, described)


def _pairs(
    seconds: pd.DataFrame, metrics: list[str], draw: np.random.Generator
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], bool]]:
    """Yield baseline, target and whether the target is abnormal, for each measurement of one run."""
    loaded = np.ones(len(seconds), bool)
    if TRANSACTIONS in seconds:
        seconds = seconds[(seconds[TRANSACTIONS] > 0).cummax()]
        loaded = seconds[TRANSACTIONS].to_numpy(np.float64) > 0
    values, faulty = seconds[metrics].to_numpy(np.float64), seconds["abnormal"].to_numpy(bool)
    measurements = list(_measurements(values, faulty, loaded))
    normal = [number for number, one in enumerate(measurements) if one.loaded and not one.abnormal]
    # no more where there is one more to draw from: the size of a baseline must not tell what its target is
    count = min(BASELINE, len(normal) - 1)
    for number, one in enumerate(measurements):
        if count > 0:
            others = [other for other in normal if other != number]
            drawn = sorted(draw.choice(others, count, replace=False))
            baseline = np.concatenate([measurements[other].windows for other in drawn])
            yield baseline, one.windows, one.abnormal


def _measurements(
    values: NDArray[np.float64], faulty: NDArray[np.bool_], loaded: NDArray[np.bool_]
) -> Iterator[Excerpt]:
    """Yield what is cut from a run; nothing spans what is faulty and what is not."""
    bounds = [0, *(np.flatnonzero(np.diff(faulty)) + 1), len(faulty)]
    length = WINDOW * SIDE
    for begin, end in pairwise(bounds):
        for at in range(begin, end - length + 1, length):
            windows = values[at : at + length].reshape(SIDE, WINDOW, -1).mean(axis=1)
            yield Excerpt(windows, bool(faulty[begin]), bool(loaded[at : at + length].any()))
