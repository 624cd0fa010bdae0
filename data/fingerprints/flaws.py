"""Rows of fingerprints that cannot be used as they stand: told one by one, and left out on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from data.errors import InputError
from data.fingerprints.tables import FingerprintTables
from data.tables.problems import Problems

CELL = ["machine", "stressor", "threads", "repetition"]
MEASUREMENT = ["machine", "application", "repetition"]


def without_flaws(tables: FingerprintTables, problems: Problems) -> FingerprintTables:
    """Tell `problems` what is wrong in `tables`; return them without it.

    Wrong are: machines that stand twice, rates and values that are zero, negative or infinite, applications
    with several metrics or directions, and machines whose CPU model nobody knows. Of repeated rows the first
    stays; of applications with mixed units and of machines without CPU model nothing stays.

    Raises
    ------
    InputError
        At the first of them, unless ``problems.keep_going``.
    """
    hosts = _known(_once(tables.hosts, ["machine"], problems))
    machines = _once(tables.machines, CELL, problems)
    machines = _positive(machines, "bogo_ops_per_second", _cell, problems)
    machines = _of_known_hosts(machines, hosts, problems)
    applications = _once(tables.applications, MEASUREMENT, problems)
    applications = _of_one_unit(applications, problems)
    applications = _positive(applications, "value", _measurement, problems)
    return FingerprintTables(machines, applications, hosts)


def _once(table: pd.DataFrame, key: list[str], problems: Problems) -> pd.DataFrame:
    repeated = table.duplicated(key)
    for row in table[repeated].drop_duplicates("machine").itertuples():
        told = ", ".join(f'{name} "{getattr(row, name)}"' for name in key[1:])
        problems.add(InputError(f"stands twice{f' with {told}' if told else ''}", place=_machine(row)))
    return table[~repeated]


def _positive(
    table: pd.DataFrame, column: str, place: Callable[[Any], str], problems: Problems
) -> pd.DataFrame:
    values = table[column].to_numpy(np.float64)
    wrong = (values <= 0) | np.isinf(values)
    for row in table[wrong].itertuples():
        told = f"{column}={getattr(row, column):g} must be above 0 and finite"
        problems.add(InputError(told, place=place(row)))
    return table[~wrong]


def _of_one_unit(applications: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    mixed = list(_mixed(applications))
    for application, told in mixed:
        problems.add(
            InputError(f"is measured in several units: {told}", place=f'application "{application}"')
        )
    return applications[~applications["application"].isin([application for application, _ in mixed])]


def _mixed(applications: pd.DataFrame) -> Iterator[tuple[str, str]]:
    units = applications[["application", "metric", "better"]].drop_duplicates()
    for application, rows in units.groupby("application"):
        if len(rows) > 1:
            found = (f"{row.metric} ({row.better} is better)" for row in rows.itertuples())
            yield str(application), ", ".join(found)


def _of_known_hosts(machines: pd.DataFrame, hosts: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    unknown = ~machines["machine"].isin(hosts["machine"])
    for row in machines[unknown].drop_duplicates("machine").itertuples():
        told = "has no CPU model in the table of hosts, so what to hold out with it is unknown"
        problems.add(InputError(told, place=_machine(row)))
    return machines[~unknown]


def _known(hosts: pd.DataFrame) -> pd.DataFrame:
    return hosts[hosts["cpu"].notna() & (hosts["cpu"].str.strip() != "")]


def _machine(row: Any) -> str:
    return f'machine "{row.machine}"'


def _cell(row: Any) -> str:
    return f'{_machine(row)} stressor "{row.stressor}" threads {row.threads} repetition {row.repetition}'


def _measurement(row: Any) -> str:
    return f'{_machine(row)} application "{row.application}" repetition {row.repetition}'
