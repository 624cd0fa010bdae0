"""Read loads per core or node over the time of a run, from files next to its result.

Source: the scheduler thesis, section 4.2.2.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from data.comparisons.sides import Floats
from data.errors import InputError
from data.tables.cells import parse_numbers, read_cells, refuse_wrong_rows
from data.tables.files import read_json

#: Endings of the names of files with loads.
MPSTAT, CORES, NODES = ".mpstat.json", ".cores.csv", ".nodes.csv"
BESIDE = (MPSTAT, CORES, NODES)
#: Maximum number of columns; more are averaged.
MAX_TIMES = 600
#: Maximum numbers of cores or nodes, and of bytes of a file.
MAX_ROWS, MAX_BYTES = 4_096, 64 * 2**20
#: Maximum of times and percentages.
_LARGEST = 1e12
_CLOCKS = ("%H:%M:%S", "%I:%M:%S %p")
_DAY = 86_400.0
_PerCent = Annotated[FiniteFloat, Field(ge=0, le=_LARGEST)]


class _Load(BaseModel):
    model_config = ConfigDict(extra="ignore")

    cpu: str
    usr: _PerCent
    sys: _PerCent


class _Moment(BaseModel):
    timestamp: str
    load: Annotated[list[_Load], Field(alias="cpu-load", min_length=1)]


class _Host(BaseModel):
    statistics: Annotated[list[_Moment], Field(min_length=1)]


class _Hosts(BaseModel):
    hosts: Annotated[list[_Host], Field(min_length=1)]


class _Mpstat(BaseModel):
    sysstat: _Hosts


@dataclass(frozen=True)
class HeatSamples:
    """Loads per core or node over time."""

    what: str  # "cores" or "nodes"
    rows: tuple[str, ...]  # their names, in the order of the file
    seconds: Floats  # shape (n_times,): since the first time
    values: Floats  # shape (n_rows, n_times); NaN where unknown
    unit: str  # "%"


def heat_files_beside(result: Path) -> Iterator[Path]:
    """Yield the files with loads per core or node over time next to a result file, sorted by name.

    Their names are the stem of `result`, perhaps a dot and further text, and ``.mpstat.json``, ``.cores.csv``
    or ``.nodes.csv``; symbolic links are ignored. Nothing is yielded if the directory does not exist.
    """
    for path in sorted(result.parent.glob(f"{glob.escape(result.stem)}.*")):
        if path.name.endswith(BESIDE) and path.is_file() and not path.is_symlink():
            yield path


def read_heats(path: Path) -> HeatSamples:
    """Return loads in percent from the output of ``mpstat -P ALL -o JSON 1``, or from CSV of percentages.

    A file whose name ends in ``.mpstat.json`` is mpstat's output, any other CSV: of nodes if the name ends in
    ``.nodes.csv``, else of cores. CSV has ``seconds`` (strictly ascending) as the first column, then one per
    core or node; empty cells are NaN. Of mpstat's output, the first host is read; the load of a core is its
    user and system time; the core "all" is ignored. More than 600 times are averaged in 600 parts, each with
    its first time. InputError if the file is invalid, larger than 64 MiB, or has more than 4096 cores or
    nodes; OSError if it is missing.
    """
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"is larger than {MAX_BYTES >> 20} MB", file=path)
    kind = "nodes" if path.name.endswith(NODES) else "cores"
    rows, seconds, values = _of_mpstat(path) if path.name.endswith(MPSTAT) else _of_csv(path)
    if len(rows) > MAX_ROWS:
        raise InputError(f"holds {len(rows)} {kind}; expected {MAX_ROWS} at most", file=path)
    return HeatSamples(kind, rows, *_limit_columns(seconds - seconds[0], values), "%")


def _of_mpstat(path: Path) -> tuple[tuple[str, ...], Floats, Floats]:
    moments = read_json(path, _Mpstat).sysstat.hosts[0].statistics
    loads = [
        {load.cpu: load.usr + load.sys for load in moment.load if load.cpu != "all"} for moment in moments
    ]
    rows = tuple(dict.fromkeys(name for load in loads for name in load))
    if not rows:
        raise InputError('holds only the core "all"; expected the output of mpstat -P ALL', file=path)
    values = np.array([[load.get(name, np.nan) for load in loads] for name in rows])
    clock = np.array([_seconds_of_day(moment.timestamp, path) for moment in moments])
    midnights = np.cumsum(np.diff(clock, prepend=clock[0]) < 0)
    return rows, clock + _DAY * midnights, values


def _seconds_of_day(text: str, path: Path) -> float:
    for clock in _CLOCKS:
        try:
            time = datetime.strptime(text, clock)  # noqa: DTZ007 - a time of day
        except ValueError:
            continue
        return time.hour * 3600.0 + time.minute * 60 + time.second
    raise InputError(f'timestamp="{text[:40]}" is not a time like 13:45:10', file=path)


def _of_csv(path: Path) -> tuple[tuple[str, ...], Floats, Floats]:
    table = read_cells(path)
    if list(table.columns[:1]) != ["seconds"] or len(table.columns) == 1 or table.empty:
        columns = ", ".join(map(str, table.columns[:5]))
        raise InputError(f"expected rows of seconds,core0,core1,...; found {columns}", file=path, line=1)
    out_of_range = lambda values: ~(np.abs(values) <= _LARGEST)  # noqa: E731
    seconds, *values = (
        parse_numbers(table[name], path, "a finite number", out_of_range, gaps=name != "seconds")
        for name in table.columns
    )
    refuse_wrong_rows(seconds.diff() <= 0, lambda _: "seconds do not ascend", path)
    return tuple(map(str, table.columns[1:])), seconds.to_numpy(), np.array(values)


def _limit_columns(seconds: Floats, values: Floats) -> tuple[Floats, Floats]:
    if len(seconds) <= MAX_TIMES:
        return seconds, values
    parts: Sequence[Floats] = np.array_split(np.arange(len(seconds)), MAX_TIMES)
    starts = np.array([part[0] for part in parts])
    is_finite = np.isfinite(values)
    total = np.add.reduceat(np.where(is_finite, values, 0.0), starts, axis=1)
    count = np.add.reduceat(is_finite, starts, axis=1, dtype=np.int64)
    return seconds[starts], np.asarray(total / np.where(count > 0, count, np.nan))
