"""The three tables that every source of fingerprints is read into."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from data.tables.files import replacing
from data.tables.specs import read_table, typed

MACHINE_DTYPES = {
    "machine": "str",
    "stressor": "str",
    "threads": "int64",
    "repetition": "int64",
    "bogo_ops_per_second": "float64",
}
APPLICATION_DTYPES = {
    "machine": "str",
    "application": "str",
    "metric": "str",
    "better": "str",
    "repetition": "int64",
    "value": "float64",
}
HOST_DTYPES = {
    "machine": "str",
    "cpu": "str",
    "cores": "Int64",
    "stress_ng": "str",
    "source": "str",
}
#: Columns of the hosts that a source may leave out.
OPTIONAL = frozenset({"cores", "stress_ng", "source"})
#: What ``threads`` says where a stressor ran on every thread that the machine has.
ALL_THREADS = 0
DTYPES = {"machines": MACHINE_DTYPES, "applications": APPLICATION_DTYPES, "hosts": HOST_DTYPES}


@dataclass(frozen=True)
class FingerprintTables:
    """Fingerprints, the applications measured on the same machines, and what the machines are.

    Attributes
    ----------
    machines : DataFrame
        One row per rate, with the columns of `MACHINE_DTYPES`. ``threads`` is 1 for one thread and 0 for all
        threads of the machine (`ALL_THREADS`), however many those are. A repetition is one run of the whole
        fingerprint, unique within its machine. A missing rate: the stressor was tried and did not run.
    applications : DataFrame
        One row per measurement, with the columns of `APPLICATION_DTYPES`. A repetition that the machine's
        fingerprint has too was measured beside it and belongs to that run; any other belongs to the machine.
        A missing value: measured, but below what the source resolves.
    hosts : DataFrame
        One row per machine, with the columns of `HOST_DTYPES`, and any further columns. ``cpu`` is the CPU
        model, whose machines are held out together; ``cores`` and ``stress_ng`` (its version) are missing
        where unknown; ``source`` says where the machine's data comes from.
    """

    machines: pd.DataFrame
    applications: pd.DataFrame
    hosts: pd.DataFrame

    @classmethod
    def of_rows(
        cls, machines: list[dict[str, Any]], applications: list[dict[str, Any]], hosts: list[dict[str, Any]]
    ) -> FingerprintTables:
        """Make the tables from plain rows; a column that no row has is filled with missing values."""
        return cls(
            typed(pd.DataFrame(machines), MACHINE_DTYPES),
            typed(pd.DataFrame(applications), APPLICATION_DTYPES),
            typed(pd.DataFrame(hosts), HOST_DTYPES),
        )

    @classmethod
    def read(cls, directory: Path) -> FingerprintTables:
        """Read the three Parquet files of `directory`.

        Raises
        ------
        InputError
            If a file is missing, is no Parquet file, or lacks a column.
        """
        return cls(
            *(read_table(directory / f"{name}.parquet", dtypes, OPTIONAL) for name, dtypes in DTYPES.items())
        )

    def write(self, directory: Path) -> None:
        """Write the three tables to `directory` as Parquet, each in one piece."""
        for name in DTYPES:
            with replacing(directory / f"{name}.parquet") as path:
                getattr(self, name).to_parquet(path, index=False, compression="zstd")

    @classmethod
    def joined(cls, parts: list[FingerprintTables]) -> FingerprintTables:
        """Join the tables of several sources."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            *(
                typed(pd.concat([getattr(part, name) for part in parts], ignore_index=True), dtypes)
                for name, dtypes in DTYPES.items()
            )
        )
