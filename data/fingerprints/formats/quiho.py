"""The data of the quiho paper (seed 003): results.csv and machines.csv become fingerprints and applications.

A node is named ``<type>.<experiment>.<project>.<site>``, but the types seem to be those asked for: within a
campaign, three quarters of the pairs of nodes of one site differ by less than 1.5 % in the median stressor,
whatever types they are named (``d430``, ``pc3000``); across sites the median pair differs by 0.42 (log).
Nodes of Schedock and of Wisconsin come within 1.6 to 3 % of each other in the last campaign. So the machines
held out together are those of a site, and of all sites with the same processor.

The campaigns 1497506400000 and 1497974400000 hold the same runs of the fingerprint, number for number, beside
different applications. Both are kept, so that each application finds its own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from data.errors import InputError
from data.fingerprints.tables import APPLICATION_DTYPES, MACHINE_DTYPES, FingerprintTables
from data.tables.cells import cells, numbers

COLUMNS = {
    "timestamp": "str",
    "benchmark": "str",
    "machine": "str",
    "repetition": "int64",
    "test": "str",
    "result": "float64",
}
#: What one run of the fingerprint is known by.
RUN = ["machine", "timestamp", "repetition"]
FINGERPRINT = "stressng"
#: The stressor whose name the paper's own scripts read as a missing value.
UNNAMED = "null"
#: The paper's names for the programs that drive an application.
APPLICATIONS = (("mysqlslap-mariadb", "mariadb"), ("mysqlslap", "mariadb"), ("redisbench", "redis"))
#: Metric and direction by benchmark; everything else is a running time.
#: miniaero: its slowest machine in every other respect (issdm-41) has the smallest value, 37 against 350.
#: fio: 4 KiB blocks have larger values than 4 MiB blocks, so it counts operations and not bytes.
MEASURES = {
    "fio": ("operations/s", "higher"),
    "miniaero": ("rate", "higher"),
    "redisbench": ("requests/s", "higher"),
    "stream": ("MB/s", "higher"),
}
RUNNING_TIME = ("seconds", "lower")
#: Processors by site (or by machine, in the paper's laboratory), as table 2 has them for one of its names;
#: Schedock's is that of the nodes with the same fingerprint.
PROCESSORS = {
    "apt.emulab.net": "Intel(R) Xeon(R) CPU E5-2450 0 @ 2.10GHz",
    "utahddc.geniracks.net": "Intel(R) Xeon(R) CPU E5-2450 0 @ 2.10GHz",
    "clemson.cloudlab.us": "Intel(R) Xeon(R) CPU E5-2660 v2 @ 2.20GHz",
    "wisc.cloudlab.us": "Intel(R) Xeon(R) CPU E5-2630 v3 @ 2.40GHz",
    "schedock.emulab.net": "Intel(R) Xeon(R) CPU E5-2630 v3 @ 2.40GHz",
    "utah.cloudlab.us": "Intel(R) Xeon(R) CPU D-1548 @ 2.00GHz",
    "uky.emulab.net": "Intel(R) Core(TM)2 Quad CPU Q6600 @ 2.40GHz",
    "scruffy": "Intel(R) Xeon(R) CPU E5620 @ 2.40GHz",
    "dwill": "Intel(R) Core(TM) i5-2400 CPU @ 3.10GHz",
    "issdm": "Dual-Core AMD Opteron(tm) Processor 2212",
}
#: Labels in the name of a node: type, experiment, project and a site of two or three.
NODE_LABELS = 5


def read(directory: Path) -> FingerprintTables:
    """Read a directory with ``results.csv`` and ``machines.csv``.

    A run of the fingerprint is a (machine, timestamp, repetition): repetitions are numbered through all
    timestamps of a machine, so that (machine, repetition) joins an application with the run beside it. A rate
    of 0 is how the source writes a stressor that did not run, and becomes missing; so does an application's
    0, which is a time below the clock's hundredth of a second. ``timestamp`` is a further column.
    """
    results = _number_runs(_read(directory / "results.csv", COLUMNS))
    is_rate = results["benchmark"] == FINGERPRINT
    if not is_rate.any():
        raise InputError(f'holds no row with the benchmark "{FINGERPRINT}"', file=directory / "results.csv")
    cores = _cores(directory / "machines.csv")
    hosts = [
        {
            "machine": machine,
            "cpu": processor(machine),
            "cores": cores.get(machine.split(".")[0]),
            "source": "quiho",
        }
        for machine in results["machine"].unique()
    ]
    applications = _applications(results[~is_rate])
    return FingerprintTables.of_rows(_machines(results[is_rate]), applications, hosts)


def processor(machine: str) -> str:
    """Tell the processor of a machine from its name, or the site where table 2 does not say."""
    labels = machine.lower().split(".")
    place = ".".join(labels[-3:]) if len(labels) >= NODE_LABELS else re.sub(r"-\d+$", "", labels[0])
    return PROCESSORS.get(place, place)


def _read(path: Path, dtypes: dict[str, str]) -> pd.DataFrame:
    table = cells(path, tuple(dtypes))
    found = {name: numbers(table[name], path) for name, dtype in dtypes.items() if dtype != "str"}
    return table.assign(**found).astype(dtypes)[list(dtypes)]


def _number_runs(results: pd.DataFrame) -> pd.DataFrame:
    """Replace the repetition by the number of (timestamp, repetition) within the machine, from 1."""
    runs = results[RUN].drop_duplicates().sort_values(RUN, ignore_index=True)
    runs["run"] = runs.groupby("machine").cumcount() + 1
    numbered = results.merge(runs, on=RUN, how="left", validate="many_to_one")
    return numbered.drop(columns="repetition").rename(columns={"run": "repetition"})


def _machines(rates: pd.DataFrame) -> pd.DataFrame:
    table = rates.assign(
        stressor=rates["test"].where(rates["test"] != "", UNNAMED),
        threads=1,
        bogo_ops_per_second=rates["result"].mask(rates["result"] == 0),
    )
    return table[[*MACHINE_DTYPES, "timestamp"]].reset_index(drop=True)


def _applications(rows: pd.DataFrame) -> pd.DataFrame:
    rows = _one_row_a_direction(rows)
    measures = [MEASURES.get(benchmark, RUNNING_TIME) for benchmark in rows["benchmark"]]
    table = rows.assign(
        application=[*map(application, rows["benchmark"], rows["test"])],
        metric=[metric for metric, _ in measures],
        better=[better for _, better in measures],
        value=rows["result"].mask(rows["result"] == 0),
    )
    return table[[*APPLICATION_DTYPES, "timestamp"]].reset_index(drop=True)


def application(benchmark: str, test: str) -> str:
    """Name an application as the paper does: ``hpccg``, ``redis-set``, ``mariadb-10.3.2-innodb-load``.

    STREAM with n additions (STREAM-NADDS n) is ``stream-nadds-<kernel>-<n>``.
    """
    for prefix, name in APPLICATIONS:
        if benchmark.startswith(prefix):
            benchmark = name + benchmark.removeprefix(prefix)
            break
    if benchmark == "stream":
        benchmark = "stream-nadds"
    return benchmark if test == benchmark else f"{benchmark}-{test.lower().replace('_', '-')}"


def _one_row_a_direction(rows: pd.DataFrame) -> pd.DataFrame:
    """Name the two rows of each fio test for what they count, reads and writes; drop the idle one."""
    twin = rows.groupby([*RUN, "benchmark", "test"]).cumcount()
    is_fio = rows["benchmark"] == "fio"
    named = rows["test"] + twin.map({0: "-read", 1: "-write"})
    idle = is_fio & (rows["result"] == 0) & ~rows["test"].str.startswith("rw")
    return rows.assign(test=rows["test"].where(~is_fio, named))[~idle]


def _cores(path: Path) -> dict[str, int]:
    """Return the cores of all processors by the first label of the machine's name; where known."""
    table = _read(path, {"machine": "str", "cores": "str", "num_cpus": "str"})
    cores = pd.to_numeric(table["cores"], errors="coerce") * pd.to_numeric(table["num_cpus"], errors="coerce")
    known = cores.set_axis(table["machine"].str.split(".").str[0]).dropna().astype("int64")
    return {str(label): int(count) for label, count in known.items()}
