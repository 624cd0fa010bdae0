"""Rows of matrices that cannot be used as they stand: told one by one, and left out on request."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from data.errors import InputError
from data.matrices.tables import METADATA, SIDES, MatrixTables
from data.tables.problems import Problems


def without_flaws(tables: MatrixTables, problems: Problems) -> MatrixTables:
    """Tell `problems` what is wrong in `tables`; return them without it.

    Wrong are runs as `without_flawed_runs` says, and pairs as `incomparable` says; of such a pair nothing
    stays.

    Raises
    ------
    InputError
        At the first of them, unless ``problems.keep_going``.
    """
    named = without_flawed_runs(tables, problems)
    wrong = incomparable(named.runs)
    for pair, told in wrong.items():
        problems.add(InputError(told, place=f'pair "{pair}"'))
    return named.of_runs(~named.runs["pair_id"].isin(wrong).to_numpy(bool))


def without_flawed_runs(tables: MatrixTables, problems: Problems) -> MatrixTables:
    """Tell `problems` which runs have no place in `tables`; return them without.

    Those are runs without a name, a workload, a group or a pair, runs of no side, and runs that stand twice;
    the first stays.

    Raises
    ------
    InputError
        At the first of them, unless ``problems.keep_going``.
    """
    return tables.with_runs(tables.sound("runs", problems))


def incomparable(runs: pd.DataFrame) -> dict[str, str]:
    """Say by ``pair_id`` why nothing can be said of a pair of matrices.

    One side is missing, a side mixes versions, or the sides differ in more than one field (seed 001,
    section 2.1).

    Parameters
    ----------
    runs : DataFrame
        As in `MatrixTables`; every run has a pair and a side.
    """
    return dict(_wrong_pairs(runs))


def _wrong_pairs(runs: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield each pair that cannot be compared, and why."""
    known = runs[["pair_id", "side", *METADATA]].fillna("")
    fields = list(METADATA)
    values = known.groupby(["pair_id", "side"])[fields].agg(["nunique", "first"])
    for (pair, side), row in values[(values.xs("nunique", axis=1, level=1) > 1).any(axis=1)].iterrows():
        field = next(field for field in fields if row[field, "nunique"] > 1)
        mixed = (known["pair_id"] == pair) & (known["side"] == side)
        found = " and ".join(f'"{value}"' for value in known.loc[mixed, field].unique()[:2])
        yield str(pair), f"the {side} mixes {field} {found}; expected one"
    first = values.xs("first", axis=1, level=1).unstack("side")
    counts = known.groupby(["pair_id", "side"]).size().unstack("side").reindex(columns=list(SIDES))
    for side in SIDES:
        for pair in counts.index[counts[side].isna()]:
            yield str(pair), f"has no run of the {side}"
    whole = first[counts.notna().all(axis=1)]
    if len(whole):
        differ = pd.DataFrame({field: whole[field, SIDES[0]] != whole[field, SIDES[1]] for field in fields})
        for pair, row in differ[differ.sum(axis=1) > 1].iterrows():
            told = ", ".join(field for field in fields if row[field])
            yield str(pair), f"baseline and target differ in {told}; expected one field to compare by"
