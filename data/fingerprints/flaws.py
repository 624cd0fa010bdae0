"""Rows of fingerprints that cannot be used as they stand: told one by one, and left out on request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from data.errors import InputError
from data.fingerprints.tables import FingerprintTables
from data.tables.problems import Problems


def without_flaws(tables: FingerprintTables, problems: Problems) -> FingerprintTables:
    """Tell `problems` what is wrong in `tables`; return them without it.

    Wrong are: rows without a name, rows that stand twice, rates and values that are zero, negative or
    infinite, applications with several metrics or directions, and machines whose CPU model nobody knows. Of
    repeated rows the first stays; of applications with mixed units and of machines without CPU model nothing
    stays.

    Raises
    ------
    InputError
        At the first of them, unless ``problems.keep_going``.
    """
    known = tables.hosts["cpu"].notna() & (tables.hosts["cpu"].str.strip() != "")
    left = replace(tables, hosts=tables.hosts[known])
    hosts = left.sound("hosts", problems)
    machines = _of_known_hosts(left.sound("machines", problems), hosts, problems)
    applications = left.sound("applications", problems)
    mixed = dict(_mixed(applications))
    for application, told in mixed.items():
        problems.add(
            InputError(f"is measured in several units: {told}", place=f'application "{application}"')
        )
    of_one_unit = applications[~applications["application"].isin(list(mixed))].reset_index(drop=True)
    return FingerprintTables(machines, of_one_unit, hosts)


def _mixed(applications: pd.DataFrame) -> Iterator[tuple[str, str]]:
    units = applications[["application", "metric", "better"]].drop_duplicates()
    for application, rows in units.groupby("application"):
        if len(rows) > 1:
            found = (f"{row.metric} ({row.better} is better)" for row in rows.itertuples())
            yield str(application), ", ".join(found)


def _of_known_hosts(machines: pd.DataFrame, hosts: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    unknown = ~machines["machine"].isin(hosts["machine"])
    for machine in machines.loc[unknown, "machine"].unique():
        told = "has no CPU model in the table of hosts, so what to hold out with it is unknown"
        problems.add(InputError(told, place=f'machine "{machine}"'))
    return machines[~unknown].reset_index(drop=True)
