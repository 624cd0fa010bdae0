"""Reader of DBSherlock's metrics of MySQL under TPC-C with injected faults (SIGMOD 2016).

A run takes about 132 s, with one faulty period, and is cut into measurements.

A run of the cause Poor Physical Design is idle for about 30 s before and after its faulty period. The source
does not call these seconds faulty, so they are normal targets, but they are never part of a baseline.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from data.deferred import pd
from data.errors import InputError
from data.matrices.tables import Floats, MatrixTables, StackedSides
from data.tables.specs import as_number, read_table

KNOWN = {"cause": "str", "run": "int64", "second": "int64", "abnormal": "bool"}
#: Counts since the start of the run: they would reveal the time, and the fault is in the middle of a run.
CLOCKS = ("Epoch", "dbmsCumChangedRows", "dbmsCumFlushedPages")
#: Pages dirtied minus pages flushed.
SIGNED = ("dbmsDirtyPages",)
#: A run starts with its first transaction; seconds without transactions are idle.
TRANSACTIONS = "dbmsCommittedCommands"
#: Seconds per window, windows per measurement, and measurements per baseline (fewer if a run has fewer).
WINDOW, SIDE, BASELINE = 3, 4, 3
SEED = 1


def read_tables(path: Path) -> MatrixTables:
    """Return the tables of a Parquet file, or of all files ``*.parquet`` in a directory.

    A row of ``runs`` is the mean of 3 seconds; a measurement has four consecutive rows of one recorded run,
    all faulty or all normal. Each measurement is the target of one pair, which is abnormal if it is faulty.
    Its baseline has the rows of up to three normal measurements of the same recording, other than the target,
    that have transactions; they are drawn with a fixed seed. Left out are seconds before the first
    transaction, seconds that fill no measurement, runs without two normal measurements that have
    transactions, and the metrics `CLOCKS`. ``causes`` has the kind of fault of abnormal rows. InputError if
    there is no file, or a file is wrong.
    """
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise InputError("holds no .parquet file", file=path)
    return MatrixTables.join_tables([_read_file(file) for file in files])


def _read_file(path: Path) -> MatrixTables:
    seconds = read_table(path, KNOWN, other_dtype=as_number)
    metrics = [column for column in seconds if column not in {*KNOWN, *CLOCKS}]
    draw = np.random.default_rng(SEED)
    sides = StackedSides(metrics)
    for (cause, run), of_run in seconds.sort_values("second").groupby(["cause", "run"], sort=True):
        about = {"workload": f"{path.stem} {cause} {run}", "group": path.stem, "machine": path.stem}
        for number, (baseline, target, abnormal) in enumerate(_measurement_pairs(of_run, metrics, draw)):
            pair = f"{about['workload']} {number}"
            sides.add_pair(pair, baseline, target, cause if abnormal else None, **about)
    described = [{"metric": metric, "signed": metric in SIGNED} for metric in metrics]
    return MatrixTables.from_rows(sides.to_frame(), sides.causes, described)


def _measurement_pairs(
    seconds: pd.DataFrame, metrics: list[str], draw: np.random.Generator
) -> Iterator[tuple[Floats, Floats, bool]]:
    """Yield baseline, target and whether the target is abnormal, for each measurement of one run.

    Arrays have the shape (n_windows, n_metrics).
    """
    loaded = np.ones(len(seconds), bool)
    if TRANSACTIONS in seconds:
        seconds = seconds[(seconds[TRANSACTIONS] > 0).cummax()]
        loaded = seconds[TRANSACTIONS].to_numpy(np.float64) > 0
    values, faulty = seconds[metrics].to_numpy(np.float64), seconds["abnormal"].to_numpy(bool)
    bounds, length = [0, *(np.flatnonzero(np.diff(faulty)) + 1), len(faulty)], WINDOW * SIDE
    # no measurement has both faulty and normal seconds
    starts = [at for begin, end in pairwise(bounds) for at in range(begin, end - length + 1, length)]
    windows = {at: values[at : at + length].reshape(SIDE, WINDOW, -1).mean(axis=1) for at in starts}
    normal = [at for at in starts if loaded[at : at + length].any() and not faulty[at]]
    # the size of a baseline must not depend on whether its target is normal
    count = min(BASELINE, len(normal) - 1)
    for target in starts if count > 0 else ():
        others = [at for at in normal if at != target]
        drawn = sorted(draw.choice(others, count, replace=False))
        yield np.concatenate([windows[at] for at in drawn]), windows[target], bool(faulty[target])
