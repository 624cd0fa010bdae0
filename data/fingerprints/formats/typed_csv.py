"""Readers of CSV that people write: machines, or one application (``machine,value[,repetition][,unit]``)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from data.errors import InputError
from data.fingerprints.tables import (
    ALL_THREADS,
    APPLICATION_DTYPES,
    HOST_DTYPES,
    LARGEST,
    SMALLEST,
    FingerprintTables,
    direction_of_metric,
)
from data.tables.cells import not_whole, parse_numbers, read_cells, refuse_wrong_rows
from data.tables.problems import Problems, nearest_name, unknown_message
from data.tables.specs import with_dtypes

#: ``cpu_model``, as ``cpu`` is a stressor; the others are named as in `HOST_DTYPES`.
CPU_MODEL = "cpu_model"
HOST_COLUMNS = (CPU_MODEL, "cores", "stress_ng", "source")
WHOLE = ("repetition", "cores")
#: Columns that are neither stressors nor applications.
PLAIN = ("repetition", *HOST_COLUMNS)
#: A name with at least this similarity to one of these is refused as misspelt.
MISSPELT = 0.8
ON_ALL = "@all"
RUNNING_TIME = ("seconds", "lower")
_MEASURED = re.compile(r"(?P<application>.*\S)\s*\((?P<metric>[^,()]+),\s*(?P<better>lower|higher)\)")
_NAMES = Path(__file__).parents[1] / "stressors.txt"


class ValueColumn(NamedTuple):
    """A column of an application: its name, metric and direction."""

    application: str
    metric: str
    better: str


def read_machines(path: Path) -> FingerprintTables:
    """Return ``machines, applications, hosts`` from a CSV file with one row per run.

    The machine is the first column. A column named after a stressor (`parse_stressor`) has rates;
    ``repetition`` (default 1), ``cpu_model``, ``cores``, ``stress_ng`` and ``source`` describe the run or the
    machine; any other has an application's values (`parse_measure`). ``machines`` has a row per rate,
    ``applications`` one per value that is not empty, in the order of the file. In ``hosts``, a machine is
    described by its first row; by default, its CPU model is its name, its source the file's name. InputError
    if the file is missing or has no row, a column is misspelt or repeated, a cell is wrong, or no column is a
    stressor; negative and infinite rates and values, and repeated runs, are no error.
    """
    cell_table = read_cells(path, header=None, skipinitialspace=True)
    header = [str(name).strip() for name in cell_table.iloc[0]]
    keys = [parse_stressor(name) or name for name in header]
    for name, key in zip(header, keys, strict=True):
        if keys.count(key) > 1:
            raise InputError(f'has the column "{name}" twice', file=path, line=1)
    table = cell_table.iloc[1:].set_axis(header, axis="columns")
    if table.empty:
        raise InputError("holds no machine", file=path)
    machine, *columns = table.columns
    table = table.assign(**{machine: table[machine].str.strip()})
    refuse_wrong_rows(table[machine] == "", lambda _: "names no machine", path)
    _require_known(columns, path)
    names = [column for column in columns if column not in PLAIN]
    measured = {name: parse_numbers(table[name], path, wrong=np.isnan, gaps=True) for name in names}
    used = [name for name in WHOLE if name in columns]
    whole = {name: parse_numbers(table[name], path, "a whole number", not_whole, gaps=True) for name in used}
    repetitions = whole["repetition"].fillna(1).astype("int64") if "repetition" in whole else 1
    keyed = pd.DataFrame(measured, index=table.index).assign(machine=table[machine], repetition=repetitions)
    stressors = {column: named for column in measured if (named := parse_stressor(column))}
    if not stressors:
        raise InputError("has no column that is a stressor of stress-ng", file=path, line=1)
    measures = {column: parse_measure(column) for column in measured if column not in stressors}
    rates = _value_rows(keyed, stressors, ["stressor", "threads"], "bogo_ops_per_second")
    values = _value_rows(keyed, measures, list(ValueColumn._fields), "value")
    return FingerprintTables.from_rows(rates, values, _host_rows(table, whole, path))


def parse_stressor(column: str) -> tuple[str, int] | None:
    """Return ("cpu", 1) for ``cpu`` or ``CPU``, ("cpu", 0) for ``cpu@all``; None for an unknown stressor."""
    name = column.lower().removesuffix(ON_ALL)
    if name not in known_stressors():
        return None
    return name, 1 if len(name) == len(column) else ALL_THREADS


def parse_measure(column: str) -> ValueColumn:
    """Return ``application, metric, better`` of a column such as ``redis (requests/s, higher)``.

    Any other text is an application with a running time: metric ``seconds``, better ``lower``.
    """
    match = _MEASURED.fullmatch(column)
    return ValueColumn(**match.groupdict()) if match else ValueColumn(column, *RUNNING_TIME)


def _require_known(columns: Sequence[str], path: Path) -> None:
    """Raise an InputError if a column would be a running time only because it is misspelt.

    A name like that of a stressor is an application if the stressor is a column, too.
    """
    stressors = {column: named[0] for column in columns if (named := parse_stressor(column))}
    names = [*PLAIN, *sorted(known_stressors())]
    for column in columns:
        if column in PLAIN or column in stressors or _MEASURED.fullmatch(column):
            continue
        nearest = nearest_name(column, names, MISSPELT)
        is_misspelt = nearest is not None and nearest not in stressors.values()
        problem = unknown_message(column, names) if is_misspelt else ""
        if column.lower().endswith(ON_ALL):
            problem = "is no stressor of stress-ng"
        if column.endswith(")") and "," in column:
            problem = "is neither lower nor higher"
        if column.count("(") != column.count(")"):
            problem = "has unbalanced brackets; a name with a comma is written in quotes"
        if problem:
            example = f'an application is written "{column.partition("(")[0].strip()} (seconds, lower)"'
            raise InputError(f'the column "{column}" {problem} ({example})', file=path, line=1)


@cache
def known_stressors() -> frozenset[str]:
    """Return the names of the stressors of stress-ng 0.15.06, and others of the supported sources."""
    return frozenset(_NAMES.read_text(encoding="utf-8").split())


def _value_rows(
    keyed: pd.DataFrame, columns: Mapping[str, Sequence[Any]], names: list[str], value: str
) -> list[dict[str, Any]]:
    """Return a row per value, by row of the file; `columns` has by column the fields `names`."""
    long = keyed.melt(["machine", "repetition"], list(columns), "column", value, ignore_index=False)
    rows = long.dropna().sort_index(kind="stable").to_dict("records")
    for row in rows:
        row.update(zip(names, columns[row.pop("column")], strict=True))
    return rows


def _host_rows(table: pd.DataFrame, whole: dict[str, pd.Series], path: Path) -> list[dict[str, Any]]:
    machine = table.columns[0]
    first = table[~table[machine].duplicated()].replace({name: {"": None} for name in HOST_COLUMNS})
    hosts = first.reindex(columns=[machine, *HOST_COLUMNS]).astype("str")
    hosts.columns = pd.Index(HOST_DTYPES)
    hosts["cpu"] = hosts["cpu"].fillna(hosts["machine"])
    hosts["source"] = hosts["source"].fillna(path.name)
    hosts["cores"] = whole["cores"].reindex(hosts.index).astype("Int64") if "cores" in whole else None
    return hosts.to_dict("records")


COLUMNS = ("machine", "value")
REPETITION = "repetition"
#: Columns with the unit of the values, equal in all rows.
UNITS = ("unit", "metric")


def read_application(
    path: Path,
    application: str,
    metric: str | None = None,
    better: str | None = None,
    beyond: int = 0,
    *,
    problems: Problems | None = None,
) -> pd.DataFrame:
    """Return the measurements of one application in a CSV file, one row each, in the order of the file.

    The result has the columns ``machine, application, metric, better, repetition, value``, the file
    ``machine`` and ``value``, perhaps ``repetition``, ``unit`` or ``metric``. `metric` None is the unit (or
    else the metric) in the file, by default ``seconds``; `better` None is the direction of times and rates.
    Without a column ``repetition``, the values of a machine are numbered from `beyond` + 1. Pass as `beyond`
    the largest repetition of the fingerprints: then values belong to machines, not to single runs of
    fingerprints. InputError if the file is missing or not CSV, has no row, a missing or unknown column, a
    missing machine, a wrong or repeated repetition, several units, another unit than `metric`, one of unknown
    direction without `better`, or a value that is not a number from 1e-30 to 1e30. With
    ``problems.keep_going``, wrong rows are left out and added to `problems`.
    """
    table = read_cells(path, COLUMNS, skipinitialspace=True)
    columns = (*COLUMNS, REPETITION, *UNITS)
    for column in table.columns:
        if column not in columns:
            raise InputError(f'the column "{column}" {unknown_message(column, columns)}', file=path, line=1)
    problems = problems or Problems()
    while not table.empty:
        try:
            return _application_rows(table, path, application, metric, better, beyond=beyond)
        except InputError as error:
            if error.line is None:
                raise
            problems.add(error)
            table = table.drop(index=error.line)
    raise InputError("holds no measurement", file=path)


def _application_rows(
    table: pd.DataFrame, path: Path, application: str, metric: str | None, better: str | None, *, beyond: int
) -> pd.DataFrame:
    table = table.assign(machine=table["machine"].str.strip())
    refuse_wrong_rows(table["machine"] == "", lambda _: "names no machine", path)
    values = parse_numbers(
        table["value"],
        path,
        f"a number from {SMALLEST:g} to {LARGEST:g}",
        lambda value: ~((value >= SMALLEST) & (value <= LARGEST)),
    )
    if REPETITION in table:
        repetitions = parse_numbers(table[REPETITION], path, "a whole number", not_whole)
    else:
        repetitions = table.groupby("machine").cumcount() + 1 + beyond
    unit = _metric_and_direction(table, metric, better, path)
    rows = table[["machine"]].assign(application=application, **unit)
    rows = rows.assign(repetition=repetitions.astype("int64"), value=values)
    repeated = rows.duplicated(["machine", REPETITION])
    message = 'machine "{machine}" has the repetition {repetition} twice'
    refuse_wrong_rows(repeated, lambda row: message.format(**rows.iloc[row]), path)
    return with_dtypes(rows.reset_index(drop=True), APPLICATION_DTYPES)


def _metric_and_direction(
    table: pd.DataFrame, metric: str | None, better: str | None, path: Path
) -> dict[str, str]:
    """Return ``metric`` and ``better`` of the values; None: not given in the command line."""
    column = next((name for name in UNITS if name in table), None)
    unit = ""
    if column is not None:
        units = table[column].str.strip()
        unit = units.iloc[0]
        message = column + '="{}" but "{}" before; expected one unit in all rows'
        refuse_wrong_rows(units != unit, lambda row: message.format(units.iloc[row], unit), path)
    if unit and metric not in {None, unit}:
        problem = f"--metric={metric} contradicts {unit}"
        raise InputError(problem, file=path, place=f'column "{column}"')
    metric = unit or metric or RUNNING_TIME[0]
    better = better or direction_of_metric(metric)
    if better is None:
        problem = f"does not say whether lower or higher {metric} is better; expected --better"
        raise InputError(problem, file=path)
    return {"metric": metric, "better": better}
