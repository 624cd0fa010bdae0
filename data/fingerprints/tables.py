"""The three tables that every source of fingerprints is read into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pandas as pd

from data.errors import InputError
from data.tables.problems import Problems
from data.tables.specs import Rule, Spec, Tables, named, one_of, positive, text

CPU, CACHE, MEMORY, VM = "CPU", "Cache", "Mem", "VM"
_NAMES = {
    (CPU,): "af-alg brk cpu crypt longjmp nop opcode",
    (CACHE,): "cache icache",
    (MEMORY,): "full memcpy mincore null oom-pipe resources rmap zero",
    (VM,): "bigheap mmap mremap msync shm shm-sysv vm-splice",
    (CPU, CACHE): "vecmath",
    (CPU, MEMORY): "atomic numa stream",
    (CACHE, MEMORY): "lockbus",
    (MEMORY, VM): "remap stack stackmmap vm vm-rw",
    (CPU, CACHE, MEMORY): "bsearch heapsort hsearch lsearch matrix qsort str tsearch",
    (CACHE, MEMORY, VM): "malloc",
}
#: Categories by stressor, in the order of the table.
CATEGORIES: dict[str, tuple[str, ...]] = dict(
    sorted((name, kinds) for kinds, names in _NAMES.items() for name in names.split())
)


_RATE = {"threads": "int64", "repetition": "int64", "bogo_ops_per_second": "float64"}
_VALUE = {"repetition": "int64", "value": "float64"}
MACHINE_DTYPES = text("machine", "stressor") | _RATE
APPLICATION_DTYPES = text("machine", "application", "metric", "better") | _VALUE
HOST_DTYPES = text("machine", "cpu") | {"cores": "Int64"} | text("stress_ng", "source")
#: What ``threads`` says where a stressor ran on every thread that the machine has.
ALL_THREADS = 0


@dataclass(frozen=True)
class FingerprintTables(Tables):
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

    SPECS: ClassVar = {
        "machines": Spec(
            MACHINE_DTYPES,
            unique=("machine", "stressor", "threads", "repetition"),
            rules=(
                *named("machine", "stressor"),
                Rule("threads", "0 (all threads) or 1", lambda found: found.isin([ALL_THREADS, 1])),
                positive("bogo_ops_per_second", gaps=True),
            ),
        ),
        "applications": Spec(
            APPLICATION_DTYPES,
            unique=("machine", "application", "repetition"),
            rules=(
                *named("machine", "application", "metric"),
                one_of("better", "lower", "higher"),
                positive("value", gaps=True),
            ),
        ),
        "hosts": Spec(
            HOST_DTYPES,
            optional=("cores", "stress_ng", "source"),
            unique=("machine",),
            rules=(*named("machine"), Rule("cores", "1 or more", lambda found: found >= 1, gaps=True)),
        ),
    }

    machines: pd.DataFrame
    applications: pd.DataFrame
    hosts: pd.DataFrame

    def counted(self) -> str:
        """Say how much is in the tables."""
        machines, applications = self.machines["machine"], self.applications["application"]
        return f"{machines.nunique()} machines, {len(machines)} rates, {applications.nunique()} applications"

    def without_flaws(self, problems: Problems) -> FingerprintTables:
        """Return the tables without rows that cannot be used, and report these to `problems`.

        Wrong are rows without a name, repeated rows (the first stays), rates and values that are zero,
        negative or infinite, applications with several metrics or directions, and machines without a CPU
        model.
        """
        known = self.hosts["cpu"].notna() & (self.hosts["cpu"].str.strip() != "")
        hosts = replace(self, hosts=self.hosts[known]).sound("hosts", problems)
        machines = _of_known_hosts(self.sound("machines", problems), hosts, problems)
        return FingerprintTables(
            machines, _of_one_unit(self.sound("applications", problems), problems), hosts
        )


def _of_known_hosts(machines: pd.DataFrame, hosts: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    unknown = ~machines["machine"].isin(hosts["machine"])
    for machine in machines.loc[unknown, "machine"].unique():
        told = "has no CPU model in the table of hosts, so what to hold out with it is unknown"
        problems.add(InputError(told, place=f'machine "{machine}"'))
    return machines[~unknown].reset_index(drop=True)


def _of_one_unit(applications: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    units = applications[["application", "metric", "better"]].drop_duplicates()
    mixed = units[units.duplicated("application", keep=False)]
    for application, rows in mixed.groupby("application"):
        found = ", ".join(f"{row.metric} ({row.better} is better)" for row in rows.itertuples())
        told = f"is measured in several units: {found}"
        problems.add(InputError(told, place=f'application "{application}"'))
    return applications[~applications["application"].isin(mixed["application"])].reset_index(drop=True)
