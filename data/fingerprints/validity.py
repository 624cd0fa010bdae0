"""Which machines, stressors and applications can be learned from, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd

from data import stages
from data.errors import InputError
from data.fingerprints.formats import SOURCES
from data.fingerprints.params import Fingerprints
from data.fingerprints.tables import FingerprintTables
from data.stages import KEPT, WARNINGS, Decisions, by, lacking, said
from data.tables.problems import Problems
from data.tables.specs import Spec

#: Machines that anything can be learned from at all.
ENOUGH = 3
#: Neighbouring values of an application this many times apart look like two units.
APART = 100.0
COLUMN_KEYS = {"stressor": "str", "threads": "int64"}
RUN_KEYS = {"machine": "str", "repetition": "int64"}
COLUMN, RUN = list(COLUMN_KEYS), list(RUN_KEYS)


@dataclass(frozen=True)
class FingerprintDecisions(Decisions):
    """Decisions about tables of fingerprints; ``reason`` is empty for what is kept.

    ``runs`` are repetitions of the fingerprint, ``stressors`` its columns; ``imputed`` are the gaps in the
    kept rates, which are left to the model.
    """

    SPECS: ClassVar = {
        "machines": Spec({"machine": "str", **KEPT}, file="valid"),
        "runs": Spec({**RUN_KEYS, **KEPT}, file="valid_runs"),
        "stressors": Spec({**COLUMN_KEYS, **KEPT}, file="valid_stressors"),
        "applications": Spec({"application": "str", **KEPT}, file="valid_applications"),
        "imputed": Spec({**RUN_KEYS, **COLUMN_KEYS}),
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
    measurements have no value, or all have the same. InputError if no stressor or no application is left, or
    fewer than `ENOUGH` machines.
    """
    cells = tables.machines.pivot(index=RUN, columns=COLUMN, values="bogo_ops_per_second")
    runs = cells.sort_index().sort_index(axis="columns")
    columns = _columns(runs, missing)
    runs = runs.loc[:, (columns == "").to_numpy()]
    whole = lacking(runs, missing, "the fingerprint, such as the stressor")
    # a machine can be used if one repetition of its fingerprint can
    machines = whole.groupby("machine").min()
    left = machines.index[machines == ""]
    runs = runs[(whole == "").to_numpy()]
    constant = runs.columns[runs.min() == runs.max()]
    columns = columns.where(~columns.index.isin(constant), "has the same rate on all machines")
    runs = runs.loc[:, (columns[runs.columns] == "").to_numpy()]
    if not runs.shape[1]:
        raise InputError("no stressor has rates on enough machines that differ", place="machines")
    if len(left) < ENOUGH:
        told = f"{len(left)} of {len(machines)} machines have a fingerprint to learn from"
        raise InputError(f"{told}; expected at least {ENOUGH}", place="machines")
    applications = _applications(_of(tables.applications, left), tables.applications, missing)
    if not (applications == "").any():
        told = "none is measured"
        if len(applications):
            told = f'none can be learned from; "{applications.index[0]}" {applications.iloc[0]}'
        raise InputError(told, place="applications")
    return FingerprintDecisions.told(
        _warnings(tables, left),
        machines=by("machine", machines.combine_first(_strangers(tables))),
        runs=by(RUN, whole),
        stressors=by(COLUMN, columns),
        applications=by("application", applications),
        imputed=_gaps(runs),
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
    return said(told, 1 - has.mean() > missing)


def _strangers(tables: FingerprintTables) -> pd.Series:
    """Say of every machine without fingerprint which applications it has."""
    others = tables.applications[~tables.applications["machine"].isin(tables.machines["machine"])]
    names = others.groupby("machine")["application"].unique()
    return pd.Series(
        [f"has no fingerprint, only {', '.join(sorted(found))}" for found in names], names.index, dtype="str"
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


def _gaps(runs: pd.DataFrame) -> pd.DataFrame:
    rows, columns = np.nonzero(runs.isna().to_numpy())
    run, column = runs.index[rows].to_frame(index=False), runs.columns[columns].to_frame(index=False)
    return pd.concat([run, column], axis="columns")


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


ingest_stage = partial(stages.ingest, Fingerprints, lambda section: stages.named(SOURCES, section.ingest))
validate_stage = partial(
    stages.validate,
    Fingerprints,
    FingerprintTables,
    lambda tables, section: decide(tables.without_flaws(Problems()), section.checks.missing),
)
