"""Reader of PetShop's metrics of 41 microservices, one row every 5 minutes (CC-BY-4.0).

Rows with and without issues were measured months apart, so a model may also detect the months.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from data.deferred import pd
from data.errors import InputError
from data.matrices.tables import MatrixTables, StackedSides
from data.tables.files import content_of

#: Rows of a baseline, and of a target without an issue.
BASELINE, TARGET = 8, 5
SEED = 1
FILE = "metrics.csv"


def read_tables(path: Path) -> MatrixTables:
    """Return the tables of a directory of traffic patterns, or of one, such as ``low_traffic``.

    In ``runs``, the rows of an issue are an abnormal target; five consecutive rows without an issue are a
    normal target. Each target has a baseline of eight other rows without an issue; no row is used twice.
    There are as many normal targets as the rows without an issue allow. Metrics that only issues have are
    left out. ``causes`` has the node in an issue's ``target.json``, empty without this file. InputError if no
    ``noissue/metrics.csv`` is found, or a file is wrong or has too few rows for the baselines.
    """
    patterns = sorted(file.parent.parent for file in path.glob(f"**/noissue/{FILE}"))
    if not patterns:
        raise InputError(f"holds no traffic pattern; expected */noissue/{FILE}", file=path)
    return MatrixTables.join_tables([_read_pattern(directory) for directory in patterns])


def _read_pattern(directory: Path) -> MatrixTables:
    reference = _read_metrics(directory / "noissue" / FILE)
    issues = sorted(file.parent for file in directory.glob(f"*/issue*/{FILE}"))
    sides = StackedSides(list(reference.columns))
    about = {"group": directory.name, "machine": "petshop"}
    for number, (baseline, target) in enumerate(_pair_rows(len(reference), len(issues), directory)):
        if number < len(issues):
            issue = issues[number]
            name, cause = f"{directory.name} {issue.parent.name} {issue.name}", _root_cause(issue)
            # the presence of metrics that only issues have would reveal the label
            observed = _read_metrics(issue / FILE).reindex(columns=reference.columns)
        else:
            name, cause = f"{directory.name} noissue {number - len(issues)}", None
            observed = reference.iloc[target]
        values = reference.iloc[baseline].to_numpy(np.float64)
        sides.add_pair(name, values, observed.to_numpy(np.float64), cause, workload=name, **about)
    return MatrixTables.from_rows(sides.to_frame(), sides.causes)


def _pair_rows(rows: int, issues: int, directory: Path) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the rows of the baseline and of the target of each pair: first of issues, then of normal targets.

    The target is empty for an issue, which has its own file. Normal targets are consecutive rows, evenly
    spread; baselines are drawn from the rows between them.
    """
    normal = (rows - issues * BASELINE) // (BASELINE + TARGET)
    if normal < 0:
        message = f"has {rows} rows, which make {rows // BASELINE} baselines"
        raise InputError(f"{message}; expected {issues}, one per issue", file=directory / "noissue" / FILE)
    starts = np.linspace(0, rows - TARGET, normal).astype(int) if normal else np.zeros(0, int)
    targets = [list(range(start, start + TARGET)) for start in starts]
    free = np.setdiff1d(np.arange(rows), np.concatenate([*targets, []]))
    drawn = np.random.default_rng(SEED).permutation(free)
    for number in range(issues + normal):
        baseline = sorted(drawn[number * BASELINE : (number + 1) * BASELINE].tolist())
        yield baseline, targets[number - issues] if number >= issues else []


def _read_metrics(path: Path) -> pd.DataFrame:
    """Read one file; columns are named ``microservice/metric/statistic``."""
    try:
        frame = pd.read_csv(path, header=[0, 1, 2], index_col=0)
    except (OSError, ValueError, IndexError) as exc:
        raise InputError(f"is not a readable table with three header rows ({exc})", file=path) from exc
    frame.columns = pd.Index(["/".join(map(str, column)) for column in frame.columns], dtype="str")
    for column in frame.columns[frame.columns.duplicated()]:
        raise InputError(f'has the column "{column}" twice', file=path)
    try:
        return frame.astype("float64").reset_index(drop=True)
    except ValueError as exc:
        raise InputError(f"has a value that is not a number ({exc})", file=path) from exc


def _root_cause(issue: Path) -> str:
    """Return the root cause of an issue; empty without a file ``target.json``."""
    path = issue / "target.json"
    try:
        content: Any = content_of(path) if path.exists() else {"root_cause": {"node": ""}}
        return str(content["root_cause"]["node"])
    except (LookupError, TypeError) as exc:
        raise InputError(f"names no root_cause.node ({exc})", file=path) from exc
