"""Cloud servers measured by Spare Cores: three Parquet tables become fingerprints and applications."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from data.errors import InputError
from data.fingerprints.tables import (
    ALL_THREADS,
    APPLICATION_DTYPES,
    HOST_DTYPES,
    MACHINE_DTYPES,
    FingerprintTables,
)
from data.tables.specs import read_table

SERVER_DTYPES = {"vendor": "str", "server": "str", "cpu": "str", "ncpu": "Int64"}
KEY_DTYPES = {"vendor": "str", "server": "str"}
#: What a column of rates begins with, and the threads it ran on.
THREADS = {"sng1:": 1, "sngN:": ALL_THREADS}
#: Metric and direction by what comes before the colon of a score.
MEASURES = {
    "redis": ("requests/s", "higher"),
    "web": ("requests/s", "higher"),
    "comp": ("bytes/s", "higher"),
    "decomp": ("bytes/s", "higher"),
    "passmark": ("score", "higher"),
    "openssl": ("bytes/s", "higher"),
    "gb": ("score", "higher"),
    "llm": ("tokens/s", "higher"),
}
EXCEPTIONS = {"passmark:ME_LATENCY": ("ns", "lower")}
#: A setting of the benchmark and no score of it.
SETTINGS = frozenset({"passmark:NumTestProcesses"})


def read(directory: Path) -> FingerprintTables:
    """Read a directory with ``servers.parquet``, ``fingerprint.parquet`` and ``apps.parquet``.

    A machine is ``vendor/server``, with one repetition. A rate of 0 is a stressor that did nothing and an
    application's 0 one that the server does not support; both become missing. An application that was not run
    on a server has no row.
    """
    servers = _keyed(read_table(directory / "servers.parquet", SERVER_DTYPES))
    rates = _keyed(read_table(directory / "fingerprint.parquet", KEY_DTYPES))
    scores = _keyed(read_table(directory / "apps.parquet", KEY_DTYPES))
    for column in scores.columns.drop(["machine", *KEY_DTYPES]):
        if column.partition(":")[0] not in MEASURES:
            problem = f'column "{column}" is of no known kind ({", ".join(MEASURES)})'
            raise InputError(problem, file=directory / "apps.parquet")
    hosts = servers.assign(cores=servers["ncpu"], source="sparecores", stress_ng=None)
    described = [*HOST_DTYPES, *(column for column in ("vendor", "arch") if column in servers)]
    return FingerprintTables.of_rows(_machines(rates), _applications(scores), hosts[described])


def _keyed(table: pd.DataFrame) -> pd.DataFrame:
    # the copy gathers the many columns that were read one by one
    return table.copy().assign(machine=table["vendor"] + "/" + table["server"])


def _long(table: pd.DataFrame, columns: list[str], names: list[str]) -> pd.DataFrame:
    """Return one row per machine and column that has a value; 0 becomes missing."""
    long = table.melt("machine", columns, *names).dropna(subset=names[1], ignore_index=True)
    values = long[names[1]].to_numpy(np.float64)
    return long.assign(**{names[1]: np.where(values == 0, np.nan, values), "repetition": 1})


def _machines(table: pd.DataFrame) -> pd.DataFrame:
    columns = [column for column in table.columns if column.startswith(tuple(THREADS))]
    long = _long(table, columns, ["column", "bogo_ops_per_second"])
    prefix = long["column"].str[:5]
    long = long.assign(stressor=long["column"].str[5:], threads=prefix.map(THREADS))
    return long[list(MACHINE_DTYPES)]


def _applications(table: pd.DataFrame) -> pd.DataFrame:
    columns = list(table.columns.drop(["machine", *KEY_DTYPES, *SETTINGS], errors="ignore"))
    long = _long(table, columns, ["application", "value"])
    measures = {column: EXCEPTIONS.get(column, MEASURES[column.partition(":")[0]]) for column in columns}
    long["metric"] = long["application"].map({column: metric for column, (metric, _) in measures.items()})
    long["better"] = long["application"].map({column: better for column, (_, better) in measures.items()})
    return long[list(APPLICATION_DTYPES)]
