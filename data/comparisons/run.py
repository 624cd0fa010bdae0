"""The results of one run, in any format that holds one: JSON samples, result XML, tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import pandas as pd
from pydantic import Field, FiniteFloat, ValidationError

from data.comparisons.params import Measure
from data.comparisons.reading import Builder, Series
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from data.tables.given import Given, said
from data.tables.problems import Problems

_EXPECTED = '{"results": [{"benchmark", "operation", "machine", "unit", "better", "configurations": [...]}]}'


class _RunConfiguration(Given):
    threads: Annotated[int, Field(ge=1)]
    samples: Annotated[list[FiniteFloat], Field(min_length=1)]


class _Result(Given):
    benchmark: str
    operation: str
    machine: str = "unknown"
    unit: str = "unknown"
    better: Literal["lower", "higher"]
    configurations: Annotated[list[_RunConfiguration], Field(min_length=1)]


class _RunDocument(Given):
    results: Annotated[list[_Result], Field(min_length=1)]


def results_of_run(
    path: Path, problems: Problems | None = None, measure: Measure | None = None
) -> pd.DataFrame:
    """Read the results of one run.

    Parameters
    ----------
    path : Path
        A JSON file ``{"results": [{"benchmark", "operation", "machine", "unit", "better",
        "configurations": [{"threads", "samples": [...]}]}]}``, a result XML file, or a directory of tables.
    problems : Problems, optional
        Takes notes on what had to be assumed.
    measure : Measure, optional
        What is measured and which direction is better, where the file does not say.

    Returns
    -------
    DataFrame
        With the columns of ``RESULT_DTYPES``.

    Raises
    ------
    InputError
        If the file cannot be read, or holds comparisons or several versions instead of one run.
    """
    from data.comparisons import formats

    kind = formats.sniff(path)
    if kind == "comparison-json":
        return _of_json(path)
    if kind not in {"tables", "result-xml"}:
        raise InputError(
            f"is {kind}; expected the results of one run: JSON samples, result-xml or tables", file=path
        )
    results = ComparisonTables.joined(
        list(formats.stream(kind, [path], problems or Problems(), measure=measure, piece=None))
    ).results
    if results["order"].min() != results["order"].max():
        raise InputError("holds the results of several versions; expected those of one run", file=path)
    return results


def _of_json(path: Path) -> pd.DataFrame:
    try:
        content = json.loads(path.read_bytes(), parse_constant=_not_json)
        run = _RunDocument.model_validate(content)
    except ValidationError as exc:
        raise InputError(f"{said(exc)} (expected {_EXPECTED})", file=path) from exc
    except (ValueError, RecursionError) as exc:
        raise InputError(f"is not JSON ({exc})", file=path) from exc
    builder = Builder()
    for result in run.results:
        names = result.benchmark, result.operation
        common = (result.benchmark, *names, result.machine, result.unit, result.better)
        for one in result.configurations:
            series = Series(f"{'/'.join(names)}/{one.threads}", *common, one.threads)
            builder.results.samples(series, 0, "0", one.samples)
    return builder.take().results


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")
