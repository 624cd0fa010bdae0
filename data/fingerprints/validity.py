"""Which machines, stressors and applications can be learned from, and why others are rejected."""

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
from data.stages import KEPT, WARNINGS, Decisions, messages_where, missing_value_reasons, reason_table
from data.tables.specs import Spec

#: Least number of machines to learn from.
ENOUGH = 3
#: Adjacent values of an application with at least this ratio look like two units.
APART = 100.0
COLUMN_KEYS = {"stressor": "str", "threads": "int64"}
RUN_KEYS = {"machine": "str", "repetition": "int64"}
COLUMN, RUN = list(COLUMN_KEYS), list(RUN_KEYS)


@dataclass(frozen=True)
class FingerprintDecisions(Decisions):
    """Decisions about tables of fingerprints; ``reason`` is empty where a row is kept.

    ``runs`` has the repetitions of the fingerprint, ``stressors`` its columns; ``imputed`` has the gaps in
    the kept rates, which are left to the model.
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

    def describe_counts(self) -> str:
        """Return a text with the kept and all rows of each table, and the number of gaps in kept rates."""
        return f"{super().describe_counts()}, {len(self.imputed)} gaps left to the model"

    def select_kept(self, tables: FingerprintTables) -> FingerprintTables:
        """Return the kept rows of `tables`; gaps are not filled."""
        machines, runs, stressors, applications = (
            table[table["kept"]] for table in (self.machines, self.runs, self.stressors, self.applications)
        )
        measured = tables.applications.merge(applications[["application"]])
        return FingerprintTables(
            tables.machines.merge(runs[RUN], on=RUN).merge(stressors[COLUMN], on=COLUMN),
            measured[measured["machine"].isin(machines["machine"])].reset_index(drop=True),
            tables.hosts[tables.hosts["machine"].isin(machines["machine"])].reset_index(drop=True),
        )


def decide_validity(tables: FingerprintTables, missing: float) -> FingerprintDecisions:
    """Return as tables whether each machine, run, stressor and application can be used, and why not.

    ``machines, runs, stressors, applications`` have ``kept`` and ``reason`` (empty if kept). Rejected are, in
    this order: stressors whose rate is missing in more than the share `missing` of the runs (each machine has
    the same weight); runs without the rates of more than the share `missing` of the remaining stressors, and
    machines without a remaining run, also those with applications only; stressors with the same rate in all
    remaining runs; applications that, on the remaining machines, lack a value above 0 in more than the share
    `missing` of their measurements, have values on fewer than `ENOUGH` (3) machines, or only equal ones.
    ``imputed`` has the gaps in kept rates, ``warnings`` texts on several versions of stress-ng and on values
    of an application that seem to have several units. InputError if no stressor or no application, or fewer
    than `ENOUGH` machines, remain.
    """
    cells = tables.machines.pivot(index=RUN, columns=COLUMN, values="bogo_ops_per_second")
    runs = cells.sort_index().sort_index(axis="columns")
    by_machine = runs.notna().groupby("machine")
    # every machine has the same weight, whatever the number of its fingerprints
    shares, counts = by_machine.mean(), by_machine.any().sum()
    gaps = [
        f"has a rate in {count} of {len(runs)} runs, on {number} of {len(shares)} machines"
        for count, number in zip(runs.notna().sum(), counts, strict=True)
    ]
    columns = messages_where(gaps, 1 - shares.mean() > missing)
    runs = runs.loc[:, (columns == "").to_numpy()]
    whole = missing_value_reasons(runs, missing, "the fingerprint, such as the stressor")
    # a machine can be used if one run of its fingerprint can
    machines = whole.groupby("machine").min()
    left = machines.index[machines == ""]
    runs = runs[(whole == "").to_numpy()]
    constant = runs.columns[runs.min() == runs.max()]
    columns = columns.where(~columns.index.isin(constant), "has the same rate on all machines")
    runs = runs.loc[:, (columns[runs.columns] == "").to_numpy()]
    if not runs.shape[1]:
        raise InputError("no stressor has rates on enough machines that differ", place="machines")
    if len(left) < ENOUGH:
        message = f"{len(left)} of {len(machines)} machines have a fingerprint to learn from"
        raise InputError(f"{message}; expected at least {ENOUGH}", place="machines")
    measured = tables.applications[tables.applications["machine"].isin(left)]
    groups = dict(list(measured.groupby("application")))
    names = sorted(tables.applications["application"].unique())
    reasons = [_rejection_reason(groups.get(name, measured[:0]), missing) for name in names]
    applications = pd.Series(reasons, names, dtype="str")
    if not (applications == "").any():
        message = "none is measured"
        if len(applications):
            message = f'none can be learned from; "{applications.index[0]}" {applications.iloc[0]}'
        raise InputError(message, place="applications")
    others = tables.applications[~tables.applications["machine"].isin(tables.machines["machine"])]
    without = others.groupby("machine")["application"].unique()
    only = [f"has no fingerprint, only {', '.join(sorted(listed))}" for listed in without]
    return FingerprintDecisions.from_reasons(
        _decision_warnings(tables.hosts[tables.hosts["machine"].isin(left)], measured),
        machines=reason_table("machine", machines.combine_first(pd.Series(only, without.index, dtype="str"))),
        runs=reason_table(RUN, whole),
        stressors=reason_table(COLUMN, columns),
        applications=reason_table("application", applications),
        imputed=_missing_cells(runs),
    )


def _rejection_reason(rows: pd.DataFrame, missing: float) -> str:
    # values that are not above 0 are not used
    values = rows["value"].where(rows["value"] > 0)
    machines = rows.loc[values.notna(), "machine"].nunique()
    if values.isna().mean() > missing:
        return f"has no value in {values.isna().sum()} of {len(rows)} measurements"
    if machines < ENOUGH:
        return f"is measured on {machines} machines with a fingerprint; expected at least {ENOUGH}"
    return f"has the same value {values.min():g} everywhere" if values.min() == values.max() else ""


def _missing_cells(runs: pd.DataFrame) -> pd.DataFrame:
    rows, columns = np.nonzero(runs.isna().to_numpy())
    run, column = runs.index[rows].to_frame(index=False), runs.columns[columns].to_frame(index=False)
    return pd.concat([run, column], axis="columns")


def _decision_warnings(hosts: pd.DataFrame, measured: pd.DataFrame) -> Iterator[str]:
    versions = hosts["stress_ng"].fillna("of unknown version").value_counts()
    if len(versions) > 1:
        listed = ", ".join(f"{version} ({versions[version]} machines)" for version in sorted(versions.index))
        yield f"the rates come from several versions of stress-ng, which need not be comparable: {listed}"
    for application, values in measured[measured["value"] > 0].groupby("application")["value"]:
        ascending = np.sort(values.to_numpy())
        steps = ascending[1:] / ascending[:-1]
        if steps.max(initial=0.0) >= APART:
            below, above = ascending[steps.argmax() : steps.argmax() + 2]
            gap = f"no value between {below:g} and {above:g}"
            yield f'application "{application}" has {gap}: are these of one unit?'


ingest_stage = partial(
    stages.ingest, Fingerprints, lambda section: stages.read_source(SOURCES, section.ingest)
)
validate_stage = partial(
    stages.run_validate,
    Fingerprints,
    FingerprintTables,
    lambda tables, section: decide_validity(tables, section.checks.max_missing_fraction),
)
