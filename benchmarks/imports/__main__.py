"""Speed and memory of ``perfjudge import`` on a data set as large as SAP's public one.

The series under SAP_HANA are copied under other numbers until there are SERIES: 1.7 GB of temporary files.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from itertools import product
from pathlib import Path

from benchmarks.table import PERFJUDGE, Table, load_note, run_measured

#: Number of series in the whole public data set.
SERIES = 7522
#: Number of copies with marks: the public set has marks for about twice the series of the part.
MARKED = 2
#: Series numbers are padded to this length, which none has; a prefix distinguishes the copies.
_DIGITS = 5

COLUMNS = {
    "what": "", "rows": ",d", "seconds": ".1f", "seconds of processors": ".1f", "rows a second": ",.0f",
    "memory at most (GB)": ".2f",
}  # fmt: skip


def replicate_series(source: Path, directory: Path, series: int) -> None:
    """Copy the series of `source` to `directory` under other numbers until there are `series`."""
    files, marks = sorted(source.rglob("*__*__*.csv")), json.loads((source / "annotations.json").read_text())
    for number in range(series):
        copy, file = divmod(number, len(files))
        shutil.copyfile(files[file], directory / f"{copy + 1 if copy else ''}{files[file].name}")
    copied_marks = {}
    for copy, (key, marked) in product(range(MARKED), marks.items()):
        number, *split = key.removeprefix("sap_").split("_")
        name = f"{copy + 1}{number.zfill(_DIGITS)}" if copy else number
        copied_marks["_".join(["sap", name, *split])] = marked
    (directory / "annotations.json").write_text(json.dumps(copied_marks))


def main() -> None:
    source, series = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else SERIES  # noqa: PLR2004
    rows = []
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "whole"
        whole.mkdir()
        replicate_series(source, whole, series)
        for what, data in (("the part", source), (f"{series} series", whole)):
            command = [PERFJUDGE, "import", "sap-hana", data, "-o", Path(name) / "tables"]
            cost = run_measured(*command, "--keep-going", "--json")
            results = json.loads(cost.output)["results"]
            times = cost.seconds, cost.computed, results / cost.seconds
            rows.append((what, results, *times, cost.memory / 1e9))
    notes = [
        load_note(),
        "`perfjudge import sap-hana` in a process of its own, its start included.",
        f"The public set has {SERIES} series. Here they are copies of the part's, {MARKED} with marks.",
        "Wanted: 1 million rows a second, in less than 4 GB.",
    ]
    Table("Importing SAP's performance data", COLUMNS, rows, notes).publish("import")


if __name__ == "__main__":
    main()
