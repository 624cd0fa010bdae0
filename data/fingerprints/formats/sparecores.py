"""Reader of three Parquet tables of cloud servers measured by Spare Cores."""

from __future__ import annotations

from functools import partial
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
#: Threads by the prefix of a column of rates.
THREADS = {"sng1:": 1, "sngN:": ALL_THREADS}
#: Metric by the prefix of a score; higher is better, but for `EXCEPTIONS`.
METRICS = {
    "redis": "requests/s", "web": "requests/s", "comp": "bytes/s", "decomp": "bytes/s",
    "passmark": "score", "openssl": "bytes/s", "gb": "score", "llm": "tokens/s",
}  # fmt: skip
EXCEPTIONS = {"passmark:ME_LATENCY": ("ns", "lower")}
#: Settings of the benchmark among the scores.
SETTINGS = frozenset({"passmark:NumTestProcesses"})


def read_tables(directory: Path) -> FingerprintTables:
    """Return ``machines, applications, hosts`` from servers, fingerprint and apps.parquet in a directory.

    A machine is ``vendor/server``, with one repetition. A row of ``machines`` is a rate, from the columns
    ``sng1:<stressor>`` (one thread) and ``sngN:<stressor>`` (all threads) of fingerprint.parquet. Each other
    column of apps.parquet, except settings, is an application, ``<kind>:<name>``, whose kind determines
    metric and direction. Rates of 0 (stressors that did nothing) and scores of 0 (not supported by the
    server) become NaN; a stressor or application that was not run has no row. InputError if a file or column
    is missing, a rate or score is no number, or a kind of scores is unknown.
    """
    read = partial(read_table, dtypes=KEY_DTYPES, other_dtype=_measured_dtype)
    tables = [read_table(directory / "servers.parquet", SERVER_DTYPES)]
    tables += [read(directory / f"{name}.parquet") for name in ("fingerprint", "apps")]
    # a copy has one block of columns, which were read one by one
    servers, rates, scores = (
        table.copy().assign(machine=table["vendor"] + "/" + table["server"]) for table in tables
    )
    for column in scores.columns.drop(["machine", *KEY_DTYPES]):
        if column.partition(":")[0] not in METRICS:
            problem = f'column "{column}" is of no known kind ({", ".join(METRICS)})'
            raise InputError(problem, file=directory / "apps.parquet")
    hosts = servers.assign(cores=servers["ncpu"], source="sparecores", stress_ng=None)
    described = [*HOST_DTYPES, *(column for column in ("vendor", "arch") if column in servers)]
    return FingerprintTables.from_rows(_machine_rows(rates), _application_rows(scores), hosts[described])


def _measured_dtype(column: str) -> str:
    """Return the type of a column of rates or scores, so that others, such as lists, are refused."""
    return "float64" if column.startswith((*THREADS, *(f"{kind}:" for kind in METRICS))) else "str"


def _melt_columns(table: pd.DataFrame, columns: list[str], names: list[str]) -> pd.DataFrame:
    """Return one row per machine and column that has a value; 0 becomes missing."""
    long = table.melt("machine", columns, *names).dropna(subset=names[1], ignore_index=True)
    values = long[names[1]].to_numpy(np.float64)
    return long.assign(**{names[1]: np.where(values == 0, np.nan, values), "repetition": 1})


def _machine_rows(table: pd.DataFrame) -> pd.DataFrame:
    columns = [column for column in table.columns if column.startswith(tuple(THREADS))]
    long = _melt_columns(table, columns, ["column", "bogo_ops_per_second"])
    prefixes, stressors = long["column"].str[:5], long["column"].str[5:]
    return long.assign(stressor=stressors, threads=prefixes.map(THREADS))[list(MACHINE_DTYPES)]


def _application_rows(table: pd.DataFrame) -> pd.DataFrame:
    columns = list(table.columns.drop(["machine", *KEY_DTYPES, *SETTINGS], errors="ignore"))
    long = _melt_columns(table, columns, ["application", "value"])
    metrics = {column: (METRICS[column.partition(":")[0]], "higher") for column in columns} | EXCEPTIONS
    measures = pd.DataFrame.from_dict(metrics, orient="index", columns=["metric", "better"])
    return long.join(measures, on="application")[list(APPLICATION_DTYPES)]
