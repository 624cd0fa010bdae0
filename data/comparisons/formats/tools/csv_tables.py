"""Read CSV with one value per row, for data of any other tool, and CSV for Apache Otava."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, delimiter_of
from data.comparisons.formats.tools.recognition import Columns, tool_format
from data.comparisons.units import MAX_THREADS, UNKNOWN
from data.deferred import pd
from data.errors import InputError
from data.tables.cells import parse_numbers, read_cells, refuse_wrong_rows
from data.tables.files import yaml_content
from data.tables.problems import nearest_name, shorten_names

#: Columns of the long format other than the value, with their defaults; only the operation is required.
COLUMNS = {
    "benchmark": "",
    "operation": "",
    "machine": UNKNOWN,
    "unit": UNKNOWN,
    "better": "",
    "threads": "1",
    "version": "",
    "measured_at": "",
}
VALUE, OPERATION = "value", "operation"


@tool_format("long-csv", Columns((VALUE,), (OPERATION,)), versions=True)
def read_long_csv(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a measurement per file and combination of all columns but ``value``, in the order of first rows.

    The columns are ``value``, ``operation`` and, optionally, ``benchmark, machine, unit, better, threads,
    version`` and ``measured_at``; where these are missing or empty, machine and unit are "unknown", threads
    1, the others empty. Columns are separated by comma, semicolon or tab. An empty ``better`` is that of
    other rows of the operation in the file; without any, the user's choice is used, else higher is assumed,
    with a note. Columns with other names are ignored, also with a note. InputError if a file cannot be read,
    a required column is missing, a column appears twice or has nearly the name of a missing one, or an
    operation, value, ``better`` or ``threads`` is invalid.
    """
    for path in source.files:
        table = read_cells(path, [OPERATION, VALUE], sep=delimiter_of(path))
        unused = [name for name in table if name not in {*COLUMNS, VALUE}]
        for name in unused:
            # read_cells adds a suffix to a repeated name
            if name.removesuffix(".1") in {*COLUMNS, VALUE}:
                raise InputError(f'has the column "{name.removesuffix(".1")}" twice', file=path, line=1)
            meant = nearest_name(name, [*COLUMNS, VALUE], 0.75)
            if meant is not None and meant not in table:
                raise InputError(f'column "{name}" is unknown; did you mean "{meant}"?', file=path, line=1)
        if unused:
            ignored = shorten_names(unused)
            source.problems.add_note(f"{path}: columns with unknown names are ignored: {ignored}")
        values = parse_numbers(table[VALUE], path, "a finite number")
        table = pd.DataFrame({name: _filled_column(table, name) for name in COLUMNS}, table.index)
        _refuse_wrong(table, path)
        stated = table["better"].mask(table["better"] == "")
        of_operation = stated.groupby([table[name] for name in ("benchmark", OPERATION, "machine")])
        table["better"] = stated.fillna(of_operation.transform("first")).fillna("")
        for key, samples in values.groupby([table[name] for name in COLUMNS], sort=False):
            benchmark, operation, machine, unit, better, threads, version, measured_at = key
            names = (benchmark, machine, int(threads), version, measured_at)
            better = source.better_direction(better)
            yield Measurement(operation, samples.tolist(), unit, better, *names)


def _filled_column(table: pd.DataFrame, name: str) -> pd.Series:
    if name not in table:
        return pd.Series(COLUMNS[name], table.index, dtype="str")
    column = table[name].str.strip()
    return column.where(column != "", COLUMNS[name])


def _refuse_wrong(table: pd.DataFrame, path: Path) -> None:
    threads, better = table["threads"], table["better"]
    numbers = pd.to_numeric(threads, errors="coerce")
    whole = numbers.between(1, MAX_THREADS) & (numbers % 1 == 0) & threads.str.isdigit()
    refuse_wrong_rows(~whole, lambda row: f'threads="{threads.iloc[row]}" is not a whole number from 1', path)
    allowed = better.isin(["lower", "higher", ""])
    refuse_wrong_rows(~allowed, lambda row: f'better="{better.iloc[row]}" is not lower or higher', path)
    refuse_wrong_rows(table[OPERATION] == "", lambda _: "names no operation", path)


TIMES = ("time", "timestamp", "date")
_VERSIONS = ("commit", "version", "revision", "sha")
_CONFIGS = ("otava.yaml", "hunter.yaml", "../otava.yaml", "../hunter.yaml")
#: Which values are better, by Otava's ``direction`` (default: 1).
_BETTER = {1: "higher", -1: "lower"}


@dataclass(frozen=True)
class _OtavaTest:
    """The configuration of a CSV file; metrics have a ``column`` and a ``direction`` (see `_BETTER`)."""

    name: str = ""
    time: str = ""
    attributes: tuple[str, ...] = ()
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@tool_format("otava-csv", Columns(TIMES), versions=True)
def read_otava_csv(source: SourceFiles) -> Iterator[Measurement]:
    """Yield one value per metric and row, metric by metric; rows of the same commit are repetitions.

    A file has a column of times (``time``, ``timestamp`` or ``date``) and a column per metric. Optionally,
    the first test with its file name in ``otava.yaml`` or ``hunter.yaml``, in its directory or the one above,
    names the benchmark and configures the columns. The version is in the first column that exists of the
    test's attributes, ``commit``, ``version``, ``revision`` and ``sha``; else it is the time. Without
    configured metrics, all other columns with a number are metrics, with the user's choice of better values,
    else higher is assumed, with a note. Higher is better for configured metrics unless their ``direction`` is
    -1. Empty cells are skipped. InputError if a file cannot be read, a column is missing, a value is not a
    finite number, the configuration is invalid (such as a ``direction`` of 0), or ``branch`` has several
    values.
    """
    for path in source.files:
        test = _otava_test(path)
        options = {"sep": str(test.options.get("delimiter") or delimiter_of(path))}
        if test.options.get("quote_char"):
            options["quotechar"] = str(test.options["quote_char"])
        table = read_cells(path, [test.time] if test.time else [], **options)
        time = test.time or next((name for name in table if name in TIMES), "")
        if not time:
            raise InputError(f"has no column of times ({', '.join(TIMES)})", file=path, line=1)
        branches = sorted(set(table["branch"])) if "branch" in table else []
        if len(branches) > 1:
            raise InputError(f"holds several branches ({', '.join(branches[:5])}); expected one", file=path)
        version_columns = (*test.attributes, *_VERSIONS)
        versions = table[next((name for name in version_columns if name in table), time)]
        times = table[time].tolist()
        metrics = test.metrics or {
            str(name): {}
            for name in table
            if name not in {time, *version_columns, "branch"} and _has_number(table[name])
        }
        for name, metric in metrics.items():
            direction = metric.get("direction", 1)
            if direction not in [*_BETTER]:
                raise InputError(f'direction={direction} of metric "{name}" is not 1 or -1', file=path)
            better = source.better_direction(_BETTER[direction] if test.metrics else None)
            column = str(metric.get("column", name))
            if column not in table:
                raise InputError(f'has no column "{column}" of its metric', file=path, line=1)
            values = parse_numbers(table[column], path, gaps=True).to_numpy()
            for row in np.flatnonzero(~np.isnan(values)):
                names = (test.name, UNKNOWN, 1, versions.iloc[row], times[row])
                yield Measurement(str(name), (values[row],), UNKNOWN, better, *names)


def _has_number(column: pd.Series) -> bool:
    return bool(pd.to_numeric(column, errors="coerce").notna().any())


def _otava_test(path: Path) -> _OtavaTest:
    """Return the test of a CSV file in Otava's configuration; empty without a configuration or test."""
    config = next((path.parent / name for name in _CONFIGS if (path.parent / name).is_file()), None)
    content = {} if config is None else yaml_content(config)
    content = content if isinstance(content, dict) else {}
    tests = content.get("tests")
    for name, test in tests.items() if isinstance(tests, dict) else ():
        if isinstance(test, dict) and Path(str(test.get("file", ""))).name == path.name:
            metrics, attributes = test.get("metrics") or {}, test.get("attributes")
            if isinstance(metrics, list):
                metrics = {key: {} for key in map(str, metrics)}
            elif not isinstance(metrics, dict):
                raise InputError(f'metrics of test "{name}" are not a mapping or a list', file=config)
            wanted: list[Any] = [test.get("csv_options"), content.get("csv"), {}]
            options = next(option for option in wanted if isinstance(option, dict))
            for key in ("delimiter", "quote_char"):
                if len(str(options.get(key) or ",")) != 1:
                    problem = f'{key} of test "{name}" is {options[key]!r}; expected one character'
                    raise InputError(problem, file=config)
            return _OtavaTest(
                str(name),
                str(test.get("time_column", "")),
                tuple(map(str, attributes)) if isinstance(attributes, list) else (),
                {str(key): value if isinstance(value, dict) else {} for key, value in metrics.items()},
                options,
            )
    return _OtavaTest()
