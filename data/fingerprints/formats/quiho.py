"""Reader of the data of the quiho paper: results.csv and machines.csv.

A node is named ``<type>.<experiment>.<project>.<site>``, but the types seem to be the requested ones: within
a campaign, three quarters of the pairs of nodes of one site differ by less than 1.5 % in the median stressor,
whatever their types (``d430``, ``pc3000``); across sites the median pair differs by 0.42 (log). Nodes of
Schedock and of Wisconsin differ by 1.6 to 3 % in the last campaign. Therefore the machines of a site, and of
all sites with the same processor, are held out together.

The campaigns 1497506400000 and 1497974400000 contain identical runs of the fingerprint, but different
applications. Both are kept, so that each application has its fingerprint.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from data.errors import InputError
from data.fingerprints.tables import APPLICATION_DTYPES, MACHINE_DTYPES, FingerprintTables
from data.tables.cells import not_finite, not_whole, parse_numbers, read_cells
from data.tables.specs import text_dtypes

_VALUES = {"repetition": "int64", "test": "str", "result": "float64"}
COLUMNS = text_dtypes("timestamp", "benchmark", "machine") | _VALUES
#: Columns that identify a run of the fingerprint.
RUN = ["machine", "timestamp", "repetition"]
FINGERPRINT = "stressng"
#: The stressor whose name the scripts of the paper read as a missing value.
UNNAMED = "null"
#: The paper's names, by the programs that drive an application.
APPLICATIONS = {r"^mysqlslap(-mariadb)?": "mariadb", r"^redisbench": "redis", r"^stream\Z": "stream-nadds"}
#: Metric by benchmark, where higher is better; all others are running times.
#: miniaero: the slowest machine of all other benchmarks (issdm-41) has the smallest value, 37 instead of 350.
#: fio: 4 KiB blocks have larger values than 4 MiB blocks, so the unit is operations, not bytes.
RATES = {"fio": "operations/s", "miniaero": "rate", "redisbench": "requests/s", "stream": "MB/s"}
#: Processors by site (or by machine, in the laboratory of the paper), from table 2; that of Schedock is the
#: processor of the nodes with the same fingerprint.
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
#: Number of labels in the name of a node: type, experiment, project and at least two of the site.
NODE_LABELS = 5


def read_tables(directory: Path) -> FingerprintTables:
    """Return ``machines, applications, hosts`` from results.csv and machines.csv of the quiho paper.

    A row of ``machines`` is a rate, one of ``applications`` a value; both have the further column
    ``timestamp``. A run of the fingerprint is a (machine, timestamp, repetition); repetitions are renumbered
    over all timestamps of a machine, so that (machine, repetition) joins an application with its run. Rates
    of 0 (stressors that failed) and values of 0 (times below the resolution of 0.01 s) become NaN. The two
    rows of a fio test become the applications ``...-read`` and ``...-write``; the idle one, with the value 0,
    is dropped unless the test's name begins with "rw". InputError if a file, a column or the fingerprint is
    missing, or a number in ``results.csv`` is wrong; wrong or missing numbers of cores become missing.
    """
    results = _read_columns(directory / "results.csv", COLUMNS)
    runs = results[RUN].drop_duplicates().sort_values(RUN, ignore_index=True)
    runs["run"] = runs.groupby("machine").cumcount() + 1
    numbered = results.merge(runs, on=RUN, how="left", validate="many_to_one")
    results = numbered.drop(columns="repetition").rename(columns={"run": "repetition"})
    is_rate = results["benchmark"] == FINGERPRINT
    if not is_rate.any():
        raise InputError(f'holds no row with the benchmark "{FINGERPRINT}"', file=directory / "results.csv")
    cores = _read_cores(directory / "machines.csv")
    hosts = pd.DataFrame({"machine": results["machine"].unique(), "source": "quiho"})
    hosts["cpu"] = hosts["machine"].map(processor_name)
    hosts["cores"] = hosts["machine"].str.split(".").str[0].map(cores)
    rates = results[is_rate]
    machines = rates.assign(
        stressor=rates["test"].where(rates["test"] != "", UNNAMED),
        threads=1,
        bogo_ops_per_second=rates["result"].mask(rates["result"] == 0),
    )[[*MACHINE_DTYPES, "timestamp"]]
    applications = _application_rows(results[~is_rate])
    return FingerprintTables.from_rows(machines.reset_index(drop=True), applications, hosts)


def processor_name(machine: str) -> str:
    """Return the CPU model of a machine of the quiho paper, by its name.

    The name of a node (five or more labels) is looked up by its site, the last three; any other by its first
    label without number ("issdm" for "issdm-41"). If these are unknown, they are returned, in lower case.
    """
    labels = machine.lower().split(".")
    place = ".".join(labels[-3:]) if len(labels) >= NODE_LABELS else re.sub(r"-\d+$", "", labels[0])
    return PROCESSORS.get(place, place)


def _read_columns(path: Path, dtypes: dict[str, str]) -> pd.DataFrame:
    table = read_cells(path, tuple(dtypes))
    expected = {"int64": ("a whole number", not_whole), "float64": ("a number", not_finite)}
    numbers = {name: expected[dtype] for name, dtype in dtypes.items() if dtype != "str"}
    converted = {name: parse_numbers(table[name], path, *kind) for name, kind in numbers.items()}
    return table.assign(**converted).astype(dtypes)[list(dtypes)]


def _application_rows(rows: pd.DataFrame) -> pd.DataFrame:
    # the two rows of each fio test are reads and writes; one of them is idle unless the test does both
    direction = rows.groupby([*RUN, "benchmark", "test"]).cumcount().map({0: "-read", 1: "-write"})
    is_fio = rows["benchmark"] == "fio"
    idle = is_fio & (rows["result"] == 0) & ~rows["test"].str.startswith("rw")
    rows = rows.assign(test=rows["test"].where(~is_fio, rows["test"] + direction))[~idle]
    table = rows.assign(
        application=[*map(application_name, rows["benchmark"], rows["test"])],
        metric=rows["benchmark"].map(RATES).fillna("seconds"),
        better=np.where(rows["benchmark"].isin(RATES), "higher", "lower"),
        value=rows["result"].mask(rows["result"] == 0),
    )
    return table[[*APPLICATION_DTYPES, "timestamp"]].reset_index(drop=True)


def application_name(benchmark: str, test: str) -> str:
    """Return the paper's name of an application, such as ``redis-set`` for "redisbench" and "SET".

    It has the benchmark, perhaps renamed, and, unless equal, the test in lower case with hyphens.
    """
    for pattern, name in APPLICATIONS.items():
        benchmark = re.sub(pattern, name, benchmark)
    return benchmark if test == benchmark else f"{benchmark}-{test.lower().replace('_', '-')}"


def _read_cores(path: Path) -> dict[str, int]:
    """Return the known numbers of cores of all processors by the first label of the machine's name."""
    table = _read_columns(path, {"machine": "str", "cores": "str", "num_cpus": "str"})
    cores = pd.to_numeric(table["cores"], errors="coerce") * pd.to_numeric(table["num_cpus"], errors="coerce")
    return cores.set_axis(table["machine"].str.split(".").str[0]).dropna().astype("int64").to_dict()
