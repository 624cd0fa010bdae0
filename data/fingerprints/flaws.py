"""Rows of fingerprints that cannot be used as they stand: told one by one, and left out on request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd

from data.errors import InputError
from data.fingerprints.tables import FingerprintTables
from data.tables.checks import names, one_of, positive, sound
from data.tables.problems import Problems

if TYPE_CHECKING:
    import pandera.pandas as pa


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
    hosts = _sound(tables.hosts[known], "hosts", problems)
    machines = _of_known_hosts(_sound(tables.machines, "machines", problems), hosts, problems)
    applications = _of_one_unit(_sound(tables.applications, "applications", problems), problems)
    return FingerprintTables(machines, applications, hosts)


def _sound(table: pd.DataFrame, name: str, problems: Problems) -> pd.DataFrame:
    import pandera.pandas as pa

    schema = pa.DataFrameSchema(_columns()[name], name=name)
    return sound(table, FingerprintTables.SPECS[name], schema, problems)


def _columns() -> dict[str, dict[str, pa.Column]]:
    import pandera.pandas as pa

    number = pa.Column("float64", positive(), nullable=True)
    return {
        "machines": {
            **names("machine", "stressor"),
            "threads": pa.Column("int64", pa.Check.isin([0, 1], error="0 (all threads) or 1")),
            "bogo_ops_per_second": number,
        },
        "applications": {
            **names("machine", "application", "metric"),
            "better": one_of("lower", "higher"),
            "value": number,
        },
        "hosts": {
            **names("machine"),
            "cores": pa.Column("Int64", pa.Check.ge(1, error="1 or more"), nullable=True),
        },
    }


def _of_one_unit(applications: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    mixed = dict(_mixed(applications))
    for application, told in mixed.items():
        problems.add(
            InputError(f"is measured in several units: {told}", place=f'application "{application}"')
        )
    return applications[~applications["application"].isin(list(mixed))].reset_index(drop=True)


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
