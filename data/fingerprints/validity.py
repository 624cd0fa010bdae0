"""Which machines, stressors and applications can be learned from, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from data.errors import InputError
from data.fingerprints.tables import FingerprintTables
from data.tables.decisions import WARNINGS, Decisions, decided, warned
from data.tables.specs import Spec

#: Machines that anything can be learned from at all.
ENOUGH = 3
#: Neighbouring values of an application this many times apart look like two units.
APART = 100.0
COLUMN = ["stressor", "threads"]
RUN = ["machine", "repetition"]
MACHINE_DTYPES = {"machine": "str", "kept": "bool", "reason": "str"}
RUN_DTYPES = {"machine": "str", "repetition": "int64", "kept": "bool", "reason": "str"}
STRESSOR_DTYPES = {"stressor": "str", "threads": "int64", "kept": "bool", "reason": "str"}
APPLICATION_DTYPES = {"application": "str", "kept": "bool", "reason": "str"}
IMPUTED_DTYPES = {"machine": "str", "repetition": "int64", "stressor": "str", "threads": "int64"}


@dataclass(frozen=True)
class FingerprintDecisions(Decisions):
    """What was decided about tables of fingerprints; ``reason`` is empty for what is kept.

    Attributes
    ----------
    machines : DataFrame
        ``machine, kept, reason``, for every machine with a fingerprint or an application.
    runs : DataFrame
        ``machine, repetition, kept, reason``: the repetitions of the fingerprint.
    stressors : DataFrame
        ``stressor, threads, kept, reason``: the columns of the fingerprint.
    applications : DataFrame
        ``application, kept, reason``.
    imputed : DataFrame
        ``machine, repetition, stressor, threads``: the gaps in what is kept, which are left to the model.
    """

    SPECS: ClassVar = {
        "machines": Spec(MACHINE_DTYPES, file="valid"),
        "runs": Spec(RUN_DTYPES, file="valid_runs"),
        "stressors": Spec(STRESSOR_DTYPES, file="valid_stressors"),
        "applications": Spec(APPLICATION_DTYPES, file="valid_applications"),
        "imputed": Spec(IMPUTED_DTYPES),
        "warnings": WARNINGS,
    }
    WHAT: ClassVar = {name: name for name in ("machines", "runs", "stressors", "applications")}

    machines: pd.DataFrame
    runs: pd.DataFrame
    stressors: pd.DataFrame
    applications: pd.DataFrame
    imputed: pd.DataFrame

    def counted(self) -> str:
        """Say how much can be learned from, and what it still lacks."""
        return f"{super().counted()}, {len(self.imputed)} gaps left to the model"

    def kept(self, tables: FingerprintTables) -> FingerprintTables:
        """Return what of `tables` can be learned from; gaps stay gaps."""
        machines = self.machines.loc[self.machines["kept"], "machine"]
        runs = self.runs.loc[self.runs["kept"], RUN]
        stressors = self.stressors.loc[self.stressors["kept"], COLUMN]
        applications = self.applications.loc[self.applications["kept"], "application"]
        measured = tables.applications[tables.applications["application"].isin(applications)]
        return FingerprintTables(
            tables.machines.merge(runs, on=RUN).merge(stressors, on=COLUMN),
            _of(measured, machines).reset_index(drop=True),
            _of(tables.hosts, machines).reset_index(drop=True),
        )


def decide(tables: FingerprintTables, missing: float) -> FingerprintDecisions:
    """Decide what can be learned from.

    A stressor goes if more than `missing` of the machines lack it or all have the same rate; then a run goes
    if it lacks more than `missing` of the stressors that are left, and a machine if it has no run left; then
    an application goes if fewer than `ENOUGH` of the machines left have it, more than `missing` of its
    measurements have no value, or all have the same.

    Parameters
    ----------
    tables : FingerprintTables
        As left by `data.fingerprints.flaws.without_flaws`.
    missing : float
        Between 0 and 1.

    Raises
    ------
    InputError
        If no stressor or no application is left, or fewer than `ENOUGH` machines.
    """
    cells = tables.machines.pivot(index=RUN, columns=COLUMN, values="bogo_ops_per_second")
    runs = cells.sort_index().sort_index(axis="columns")
    columns = _columns(runs, missing)
    runs = runs.loc[:, (columns == "").to_numpy()]
    whole = _runs(runs, missing)
    machines = _machines(whole)
    left = machines.index[machines == ""]
    runs = runs[(whole == "").to_numpy()]
    columns = columns.where(~columns.index.isin(_constant(runs)), "has the same rate on all machines")
    runs = runs.loc[:, (columns[runs.columns] == "").to_numpy()]
    _refuse_few(len(left), len(machines), runs.shape[1])
    applications = _applications(_of(tables.applications, left), tables.applications, missing)
    if not (applications == "").any():
        raise InputError(_none(applications), place="applications")
    return FingerprintDecisions(
        warned(list(_warnings(tables, left))),
        decided(machines.combine_first(_strangers(tables)), MACHINE_DTYPES),
        decided(whole, RUN_DTYPES),
        decided(columns, STRESSOR_DTYPES),
        decided(applications, APPLICATION_DTYPES),
        _gaps(runs),
    )


def _of(table: pd.DataFrame, machines: pd.Series | pd.Index) -> pd.DataFrame:
    return table[table["machine"].isin(machines)]


def _columns(runs: pd.DataFrame, missing: float) -> pd.Series:
    """Say why a stressor cannot be used; empty where it can."""
    by_machine = runs.notna().groupby("machine")
    # a machine counts once, however often its fingerprint was taken
    has, machines = by_machine.mean(), by_machine.any().sum()
    told = [
        f"has a rate in {count} of {len(runs)} runs, on {found} of {len(has)} machines"
        for count, found in zip(runs.notna().sum(), machines, strict=True)
    ]
    return pd.Series(told, runs.columns, dtype="str").where(1 - has.mean() > missing, "")


def _constant(runs: pd.DataFrame) -> pd.Index:
    return runs.columns[runs.min() == runs.max()]


def _runs(runs: pd.DataFrame, missing: float) -> pd.Series:
    """Say why a repetition of a fingerprint cannot be used; empty where it can."""
    gaps = runs.isna()
    told = [
        f'lacks {share:.0%} of the fingerprint, such as the stressor "{first}"'
        for share, first in zip(gaps.mean(axis="columns"), _first(gaps), strict=True)
    ]
    return pd.Series(told, runs.index, dtype="str").where(gaps.mean(axis="columns") > missing, "")


def _first(gaps: pd.DataFrame) -> list[str]:
    """Name the first stressor that each run lacks."""
    names = gaps.columns.get_level_values("stressor")
    return [str(names[row.argmax()]) if len(row) else "" for row in gaps.to_numpy(bool)]


def _machines(runs: pd.Series) -> pd.Series:
    """Say why no repetition of a machine can be used; empty where one can."""
    return runs.groupby("machine").min()


def _strangers(tables: FingerprintTables) -> pd.Series:
    """Say of every machine without fingerprint which applications it has."""
    others = tables.applications[~tables.applications["machine"].isin(tables.machines["machine"])]
    names = others.groupby("machine")["application"].unique()
    return pd.Series(
        [f"has no fingerprint, only {', '.join(sorted(found))}" for found in names], names.index, dtype="str"
    )


def _refuse_few(kept: int, found: int, stressors: int) -> None:
    if not stressors:
        raise InputError("no stressor has rates on enough machines that differ", place="machines")
    if kept < ENOUGH:
        raise InputError(
            f"{kept} of {found} machines have a fingerprint to learn from; expected at least {ENOUGH}",
            place="machines",
        )


def _applications(measured: pd.DataFrame, every: pd.DataFrame, missing: float) -> pd.Series:
    found = measured.groupby("application")
    reasons = {name: _reason(rows, missing) for name, rows in found}
    names = sorted(every["application"].unique())
    return pd.Series([reasons.get(name, _too_few(0)) for name in names], names, dtype="str")


def _reason(rows: pd.DataFrame, missing: float) -> str:
    values = rows["value"]
    machines = rows.loc[values.notna(), "machine"].nunique()
    if values.isna().mean() > missing:
        return f"has no value in {values.isna().sum()} of {len(rows)} measurements"
    if machines < ENOUGH:
        return _too_few(machines)
    return f"has the same value {values.min():g} everywhere" if values.min() == values.max() else ""


def _too_few(machines: int) -> str:
    return f"is measured on {machines} machines with a fingerprint; expected at least {ENOUGH}"


def _none(applications: pd.Series) -> str:
    if applications.empty:
        return "none is measured"
    return f'none can be learned from; "{applications.index[0]}" {applications.iloc[0]}'


def _gaps(runs: pd.DataFrame) -> pd.DataFrame:
    rows, columns = np.nonzero(runs.isna().to_numpy())
    gaps = pd.concat(
        [
            runs.index[rows].to_frame(index=False),
            runs.columns[columns].to_frame(index=False),
        ],
        axis="columns",
    )
    return gaps.astype(IMPUTED_DTYPES)[list(IMPUTED_DTYPES)]


def _warnings(tables: FingerprintTables, left: pd.Index) -> Iterator[str]:
    hosts = _of(tables.hosts, left)
    versions = sorted(hosts["stress_ng"].fillna("of unknown version").unique())
    if len(versions) > 1:
        counts = hosts["stress_ng"].fillna("of unknown version").value_counts()
        told = ", ".join(f"{version} ({counts[version]} machines)" for version in versions)
        yield f"the rates come from several versions of stress-ng, which need not be comparable: {told}"
    measured = _of(tables.applications, left).dropna(subset="value")
    for application, values in measured.groupby("application")["value"]:
        ascending = np.sort(values.to_numpy())
        steps = ascending[1:] / ascending[:-1]
        if steps.max(initial=0.0) >= APART:
            below, above = ascending[steps.argmax() : steps.argmax() + 2]
            gap = f"no value between {below:g} and {above:g}"
            yield f'application "{application}" has {gap}: are these of one unit?'
