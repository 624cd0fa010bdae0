"""Matrices brought to the metrics that a model knows: what is missing, extra, renamed or in another unit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from data.errors import InputError
from data.matrices.tables import RUN_DTYPES, SUMMARY, MatrixTables
from data.tables.nearest import nearest

#: How alike two names must be for one to be the other renamed.
ALIKE = 0.75
#: How many are named one by one.
SHOWN = 5


@dataclass(frozen=True)
class Matched:
    """Tables with exactly the metrics of a model, in its order, and what a reader should know."""

    tables: MatrixTables
    notes: tuple[str, ...]


def matched(tables: MatrixTables, metrics: pd.DataFrame, groups: Collection[str], missing: float) -> Matched:
    """Bring `tables` to the metrics of a model; their order does not matter.

    A metric that is missing, in another unit, or without any value is taken as not measured; one that the
    model does not know is not used.

    Parameters
    ----------
    tables : MatrixTables
    metrics : DataFrame
        As ``MatrixTables.metrics``: what the model was trained on.
    groups : collection of str
        The groups that the model was trained on.
    missing : float
        The share of the raw metrics that may be missing.

    Raises
    ------
    InputError
        If more are missing.
    """
    units = dict(zip(metrics["metric"].tolist(), metrics["unit"].tolist(), strict=True))
    theirs = dict(zip(tables.metrics["metric"].tolist(), tables.metrics["unit"].tolist(), strict=True))
    known, there = list(units), {*RUN_DTYPES, *tables.all_metrics}
    lacking = [name for name in known if name not in there]
    extra = [name for name in tables.all_metrics if name not in units]
    other = [name for name in known if name in theirs and len({theirs[name], units[name]} - {""}) > 1]
    measured = [name for name in known if name in there]
    nothing = np.asarray(np.isnan(tables.numbers(measured)).all(axis=0))
    empty = [name for name, is_empty in zip(measured, nothing.tolist(), strict=True) if is_empty]
    raw = [name for name in known if not name.startswith(SUMMARY)]
    unusable = {*lacking, *other, *empty}.intersection(raw)
    if raw and len(unusable) > missing * len(raw):
        first = next(name for name in raw if name in unusable)
        told = f"lack {len(unusable)} of the {len(raw)} raw metrics that the model knows, such as"
        raise InputError(f'{told} "{first}"; expected {1 - missing:.0%} of them', place="runs")
    strange = [group for group in tables.runs["group"].unique() if group not in groups]
    notes = [
        *(_missing(name, extra) for name in lacking[:SHOWN]),
        *_more(lacking, "are missing"),
        *(f'metric "{name}" is unknown to the model; it is not used' for name in extra[:SHOWN]),
        *_more(extra, "are unknown to the model"),
        *(
            f'metric "{name}" comes in {theirs[name]}, where the model knows it in {units[name]}; '
            "it is taken as not measured"
            for name in other[:SHOWN]
        ),
        *_more(other, "come in another unit"),
        *(f'metric "{name}" has no value in any run' for name in empty[:SHOWN]),
        *_more(empty, "have no value in any run"),
        *(
            f'group "{group}" is unknown to the model; what it learned from all groups answers'
            for group in strange[:SHOWN]
        ),
        *_more(strange, "are unknown groups"),
    ]
    runs, columns = tables.runs, [*RUN_DTYPES, *known]
    if columns == runs.columns.tolist() and not other:
        return Matched(tables.known_as(metrics), tuple(notes))
    runs = runs.reindex(columns=columns).assign(**dict.fromkeys(other, np.nan))
    return Matched(MatrixTables(runs, tables.causes, metrics), tuple(notes))


def _missing(name: str, extra: Sequence[str]) -> str:
    alike = nearest(name, extra, ALIKE)
    told = f'; was it renamed "{alike}"?' if alike else ""
    return f'metric "{name}" is missing; it is taken as not measured{told}'


def _more(names: Sequence[str], what: str) -> list[str]:
    return [f"... and {len(names) - SHOWN} more {what}"] if len(names) > SHOWN else []
