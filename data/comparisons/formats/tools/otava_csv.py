"""Read CSV for Apache Otava: a column of times, one per metric, and the file's optional ``otava.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.comparisons.formats.tools.measurement import (
    Measurement,
    SourceFiles,
    delimiter_of,
    moment,
    table_of,
)
from data.comparisons.units import UNKNOWN
from data.errors import InputError
from data.tables.cells import numbers
from data.tables.files import yaml_content

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


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield one value per row and metric; rows of the same commit are repetitions."""
    for path in source.files:
        test = _configured(path)
        table = table_of(path, [test.time] if test.time else [], **_options(path, test))
        time = test.time or next((name for name in table if name in TIMES), "")
        if not time:
            raise InputError(f"lacks a column of time ({', '.join(TIMES)})", file=path, line=1)
        _require_one_branch(table, path)
        versions = next(
            (table[name] for name in (*test.attributes, *_VERSIONS) if name in table), table[time]
        )
        whens = [moment(text) for text in table[time]]
        for name, told in (test.metrics or _metrics(table, {time, versions.name, *test.attributes})).items():
            better = source.better(_BETTER.get(told.get("direction", 1)) if test.metrics else None)
            values = _values(table, str(told.get("column", name)), path)
            for row in np.flatnonzero(~np.isnan(values)):
                common = (test.name, UNKNOWN, 1, versions.iloc[row], whens[row])
                yield Measurement(str(name), (values[row],), UNKNOWN, better, *common)


def _values(table: pd.DataFrame, column: str, path: Path) -> Any:
    if column not in table:
        raise InputError(f'lacks the column "{column}" of its metric', file=path, line=1)
    return numbers(table[column], path, gaps=True).to_numpy()


def _metrics(table: pd.DataFrame, others: set[Any]) -> dict[str, Mapping[str, Any]]:
    rest = [name for name in table if name not in others and name != "branch"]
    return {
        str(name): {}
        for name in rest
        if pd.to_numeric(table[name].where(table[name] != ""), errors="coerce")
        .notna()
        .eq(table[name] != "")
        .all()
    }


def _require_one_branch(table: pd.DataFrame, path: Path) -> None:
    branches = sorted(set(table["branch"])) if "branch" in table else []
    if len(branches) > 1:
        raise InputError(f"holds several branches ({', '.join(branches[:5])}); expected one", file=path)


def _options(path: Path, test: _OtavaTest) -> dict[str, Any]:
    delimiter, quote = test.options.get("delimiter"), test.options.get("quote_char")
    return {"sep": str(delimiter or delimiter_of(path))} | ({"quotechar": str(quote)} if quote else {})


def _configured(path: Path) -> _OtavaTest:
    config = next((path.parent / name for name in _CONFIGS if (path.parent / name).is_file()), None)
    if config is None:
        return _OtavaTest()
    content = yaml_content(config)
    content = content if isinstance(content, dict) else {}
    tests = content.get("tests")
    for name, test in tests.items() if isinstance(tests, dict) else ():
        if isinstance(test, dict) and Path(str(test.get("file", ""))).name == path.name:
            return _test(str(name), test, content.get("csv"))
    return _OtavaTest()


def _test(name: str, test: Mapping[str, Any], options: object) -> _OtavaTest:
    metrics, own = test.get("metrics") or {}, test.get("csv_options")
    if isinstance(metrics, list):
        metrics = {key: {} for key in map(str, metrics)}
    metrics = {str(key): one if isinstance(one, dict) else {} for key, one in dict(metrics).items()}
    given = own if isinstance(own, dict) else options if isinstance(options, dict) else {}
    attributes = test.get("attributes")
    named = tuple(map(str, attributes)) if isinstance(attributes, list) else ()
    return _OtavaTest(name, str(test.get("time_column", "")), named, metrics, given)
