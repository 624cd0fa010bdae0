"""How fast ``perfjudge import`` reads a set as large as SAP's public one, and in how much memory.

Run it with ``python -m benchmarks.imports SAP_HANA [SERIES]``: the series of the data set under SAP_HANA are
copied under other numbers until there are as many as in the public one: 1.7 GB of temporary files.
It writes ``docs/results/import.md``.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.table import Table, busy, load

#: Of the whole public set.
SERIES = 7522
#: Copies that keep their marks: the public set has marks for about twice the series of the part.
MARKED = 2
#: No series has a number of so many digits; copies are told apart by what stands before.
_DIGITS = 5


@dataclass(frozen=True)
class Imported:
    """What an import took: its rows, seconds of the clock and of processors, and memory at most, in bytes."""

    rows: int
    seconds: float
    computed: float
    memory: int


def replicated(source: Path, directory: Path, series: int) -> None:
    """Copy the series of `source` to `directory` under other numbers until there are `series`."""
    files, marks = sorted(source.rglob("*__*__*.csv")), json.loads((source / "annotations.json").read_text())
    for number in range(series):
        copy, file = divmod(number, len(files))
        shutil.copyfile(files[file], directory / f"{_named(copy)}{files[file].name}")
    kept = dict(pair for copy in range(MARKED) for pair in _marks(marks, copy))
    (directory / "annotations.json").write_text(json.dumps(kept))


def _named(copy: int) -> str:
    return f"{copy + 1}" if copy else ""


def _marks(marks: dict[str, object], copy: int) -> Iterator[tuple[str, object]]:
    """Yield the marks of one copy of the series."""
    for key, marked in marks.items():
        series, *split = key.removeprefix("sap_").split("_")
        yield "_".join(["sap", f"{_named(copy)}{series.zfill(_DIGITS)}" if copy else series, *split]), marked


def imported(source: Path, directory: Path) -> Imported:
    """Run the command in a process of its own."""
    program = Path(sys.executable).parent / "perfjudge"
    command = [str(program), "import", "sap-hana", str(source), "-o", str(directory)]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    told = subprocess.run([*command, "--keep-going", "--json"], check=True, capture_output=True, text=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    computed = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Imported(json.loads(told.stdout)["results"], seconds, computed, after.ru_maxrss << 10)


def main() -> None:
    """Import the part as it is, and as many series as the public set has."""
    source, series = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else SERIES  # noqa: PLR2004
    rows, before = [], load()
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "whole"
        whole.mkdir()
        replicated(source, whole, series)
        for what, data in (("the part", source), (f"{series} series", whole)):
            found = imported(data, Path(name) / "tables")
            speed = found.rows / found.seconds
            rows.append((what, found.rows, found.seconds, found.computed, speed, found.memory / 1e9))
    Table(
        "Importing SAP's performance data",
        "python -m benchmarks.imports ../shared/data/sap-hana",
        {
            "what": "",
            "rows": ",d",
            "seconds": ".1f",
            "seconds of processors": ".1f",
            "rows a second": ",.0f",
            "memory at most (GB)": ".2f",
        },
        rows,
        [
            busy(before),
            "`perfjudge import sap-hana` in a process of its own, its start included.",
            f"The public set has {SERIES} series. Here they are copies of the part's, {MARKED} with marks.",
            "Wanted: 1 million rows a second, in less than 4 GB.",
        ],
    ).publish("import")


if __name__ == "__main__":
    main()
