"""Pairs of matrices in JSON become tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from data.errors import InputError
from data.json_document import content_of
from data.matrix_tables import METADATA, RUN_DTYPES, SIDES, MatrixTables, Sides
from serving.matrices_schemas import MatricesRequest, Matrix, Pair
from serving.said import said


def read_request(path: Path) -> MatrixTables:
    """Read a file with a request.

    Raises
    ------
    InputError
        If it cannot be read, is no JSON, or no request.
    """
    try:
        return tables_of(MatricesRequest.model_validate(content_of(path)))
    except ValidationError as exc:
        raise InputError(said(exc), file=path) from exc
    except InputError as exc:
        raise exc if exc.file else InputError(exc.problem, file=path, place=exc.place) from exc


def tables_of(request: MatricesRequest) -> MatrixTables:
    """Turn a request into tables; runs are called by pair, side and number.

    Raises
    ------
    InputError
        If a pair stands twice, a metric bears the name of another column, or columns differ in length.
    """
    names = _names(request.pairs)
    taken = sorted(RUN_DTYPES.keys() & names)
    if taken:
        raise InputError(f'"{taken[0]}" is no name for a metric; it says what a run is', place="pairs")
    sides, seen = Sides(names), set[str]()
    for place, pair in enumerate(request.pairs):
        if pair.pair_id in seen:
            raise InputError(f'pair_id="{pair.pair_id}" stands twice', place=f"pairs[{place}]")
        seen.add(pair.pair_id)
        for side in SIDES:
            matrix: Matrix = getattr(pair, side)
            about = {field: getattr(matrix, field) or getattr(pair, field) or "" for field in METADATA}
            values = _values(matrix, names, f"pairs[{place}].{side}")
            sides.add(values, pair.pair_id, side, **about)
    units = [{"metric": name, "unit": unit} for name, unit in request.units.items() if name in set(names)]
    return MatrixTables.of_rows(sides.frame(), None, units)


def _names(pairs: Sequence[Pair]) -> list[str]:
    """Return all metrics, in the order in which they first come."""
    found: dict[str, None] = {}
    for pair in pairs:
        for matrix in (pair.baseline, pair.target):
            found |= dict.fromkeys(matrix.metrics or {})
            for run in matrix.runs or ():
                found |= dict.fromkeys(run)
    return list(found)


def _values(matrix: Matrix, names: Sequence[str], place: str) -> NDArray[np.float64]:
    """Return the runs of one side, runs x metrics; NaN where one was not measured."""
    columns = {name: number for number, name in enumerate(names)}
    if matrix.runs is not None:
        values = np.full((len(matrix.runs), len(names)), np.nan)
        for row, run in enumerate(matrix.runs):
            values[row, [columns[name] for name in run]] = np.array(list(run.values()), np.float64)
        return values
    assert matrix.metrics is not None
    first, given = next(iter(matrix.metrics.items()))
    values = np.full((len(given), len(names)), np.nan)
    for name, column in matrix.metrics.items():
        if len(column) != len(given):
            told = f'has {len(column)} values, where "{first}" has {len(given)}; expected one per run'
            raise InputError(told, place=f'{place}.metrics["{name}"]')
        values[:, columns[name]] = np.array(column, np.float64)
    return values
