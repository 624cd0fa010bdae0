"""Tables of fingerprints: rates of machines, measurements of applications, and machines."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pandas as pd

from data.errors import InputError
from data.tables.problems import Problems
from data.tables.specs import Rule, Spec, Tables, name_rules, one_of, positive_rule, text_dtypes

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
#: Categories by stressor, in the order of the quiho paper, table 1.
CATEGORIES: dict[str, tuple[str, ...]] = dict(
    sorted((name, kinds) for kinds, names in _NAMES.items() for name in names.split())
)
_RATE = {"threads": "int64", "repetition": "int64", "bogo_ops_per_second": "float64"}
_VALUE = {"repetition": "int64", "value": "float64"}
MACHINE_DTYPES = text_dtypes("machine", "stressor") | _RATE
APPLICATION_DTYPES = text_dtypes("machine", "application", "metric", "better") | _VALUE
HOST_DTYPES = text_dtypes("machine", "cpu") | {"cores": "Int64"} | text_dtypes("stress_ng", "source")
#: Smallest and largest value of an application; predictions of others would overflow.
SMALLEST, LARGEST = 1e-30, 1e30
#: Value of ``threads`` for a stressor on all threads of the machine.
ALL_THREADS = 0
#: Rates in one word, such as Mbps, IOPS, GFLOPS, MIPS, tps and fps.
_RATES = "[kmgtpe]?i?(bit|byte|flo|io|[bcefiopqrstuw])ps"
#: Units whose direction is evident: times, also per operation, and amounts per time.
_SPAN = "s|sec|seconds?|min|minutes?|h|hours?"
_DIRECTIONS: dict[Literal["lower", "higher"], re.Pattern[str]] = {
    "lower": re.compile(
        rf"([pnmu\N{{MICRO SIGN}}\N{{GREEK SMALL LETTER MU}}]s|(m|milli|u|micro|n|nano)sec(ond)?s?|{_SPAN})"
        r"(\s*(/|\bper\b).*)?",
        re.IGNORECASE,
    ),
    "higher": re.compile(rf".+(/|\bper\b)\s*({_SPAN})|{_RATES}", re.IGNORECASE),
}


@dataclass(frozen=True)
class FingerprintTables(Tables):
    """Fingerprints of machines, measurements of applications on them, and descriptions of the machines.

    Attributes
    ----------
    machines : DataFrame
        One row per rate, with the columns of `MACHINE_DTYPES`. ``threads`` is 1, or 0 for all threads of the
        machine (`ALL_THREADS`). A repetition is one run of the whole fingerprint, unique within its machine.
        A rate is missing if the stressor failed.
    applications : DataFrame
        One row per measurement, with the columns of `APPLICATION_DTYPES`. It belongs to the run of the
        fingerprint with the same repetition on that machine, or to the machine without such a run. A value is
        missing if it is below the resolution of the source.
    hosts : DataFrame
        One row per machine, with the columns of `HOST_DTYPES`, and any further columns. ``cpu`` is the CPU
        model, whose machines are held out together; ``cores`` and ``stress_ng`` (its version) are missing if
        unknown; ``source`` is the origin of the data.
    """

    SPECS: ClassVar = {
        "machines": Spec(
            MACHINE_DTYPES,
            unique=("machine", "stressor", "threads", "repetition"),
            rules=(
                *name_rules("machine", "stressor"),
                Rule("threads", "0 (all threads) or 1", lambda threads: threads.isin([ALL_THREADS, 1])),
                positive_rule("bogo_ops_per_second", gaps=True),
            ),
        ),
        "applications": Spec(
            APPLICATION_DTYPES,
            unique=("machine", "application", "repetition"),
            rules=(
                *name_rules("machine", "application", "metric"),
                one_of("better", "lower", "higher"),
                positive_rule("value", gaps=True),
            ),
        ),
        "hosts": Spec(
            HOST_DTYPES,
            optional=("cores", "stress_ng", "source"),
            unique=("machine",),
            rules=(*name_rules("machine"), Rule("cores", "1 or more", lambda cores: cores >= 1, gaps=True)),
        ),
    }

    machines: pd.DataFrame
    applications: pd.DataFrame
    hosts: pd.DataFrame

    def describe_counts(self) -> str:
        """Return a text such as "3 machines, 90 rates, 2 applications"."""
        machines, applications = self.machines["machine"], self.applications["application"]
        return f"{machines.nunique()} machines, {len(machines)} rates, {applications.nunique()} applications"

    def without_flaws(self, problems: Problems) -> FingerprintTables:
        """Return the tables without unusable rows, which are added to `problems`.

        Unusable are rows without a name, repeated rows (the first is kept), rates and values that are zero,
        negative or infinite, applications with several metrics or directions, and machines without a CPU
        model. InputError at the first of them, unless ``problems.keep_going``.
        """
        has_cpu = self.hosts["cpu"].notna() & (self.hosts["cpu"].str.strip() != "")
        hosts = replace(self, hosts=self.hosts[has_cpu]).drop_invalid_rows("hosts", problems)
        machines = self.drop_invalid_rows("machines", problems)
        unknown = ~machines["machine"].isin(hosts["machine"])
        for machine in machines.loc[unknown, "machine"].unique():
            problem = "has no CPU model in the table of hosts; expected one, by which it is held out"
            problems.add(InputError(problem, place=f'machine "{machine}"'))
        applications = self.drop_invalid_rows("applications", problems)
        units = applications[["application", "metric", "better"]].drop_duplicates()
        mixed = units[units.duplicated("application", keep=False)]
        for application, rows in mixed.groupby("application"):
            listed = ", ".join(f"{row.metric} ({row.better} is better)" for row in rows.itertuples())
            problem = f"is measured in several units: {listed}"
            problems.add(InputError(problem, place=f'application "{application}"'))
        is_mixed = applications["application"].isin(mixed["application"])
        valid = machines[~unknown].reset_index(drop=True), applications[~is_mixed].reset_index(drop=True)
        return FingerprintTables(*valid, hosts)


def direction_of_metric(metric: str) -> Literal["lower", "higher"] | None:
    """Return whether "lower" or "higher" values of `metric` are better; None if its unit does not show it."""
    return next((better for better, units in _DIRECTIONS.items() if units.fullmatch(metric)), None)
