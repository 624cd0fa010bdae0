"""Measure the operations in pairs of runs: unchanged ones, and runs in which one operation is 8 % slower.

Run it with ``python -m benchmarks.measured_pairs.measure FOLDER`` on an idle machine. It takes 25 minutes,
continues after an interruption, and at the end replaces the second archives of held-out runs beside it.
Choices were made on those of development, which were measured before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from rich.progress import track

from benchmarks.measured_pairs.operations import operations

HERE = Path(__file__).parent
SUITE = HERE / "operations.py"
TOOLS = ("pytest-benchmark", "pyperf")
HISTORY, PAIRS = 10, 30


def main() -> None:
    """Measure unchanged runs by each tool, and after the history a slower run beside each."""
    folder, names = Path(sys.argv[1]), list(operations())
    for number in track(range(HISTORY + PAIRS + 1), "runs"):
        for tool in TOOLS:
            measure(tool, "", folder / tool / f"unchanged-{number:02d}.json")
            if number > HISTORY:
                slower = names[number % len(names)]
                measure(tool, slower, folder / tool / f"slower-{number:02d}-{slower}.json")
    for tool in TOOLS:
        pack_results(folder / tool, HERE / f"{tool}-held-out-2.zip")


def measure(tool: str, slower: str, path: Path) -> None:
    """Write the results of one run to `path`, unless they are there; `slower` names the slower operation."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.resolve().with_suffix(".part")
    written.unlink(missing_ok=True)
    if tool == "pyperf":
        passed_on = ["--inherit-environ", "SLOWER,PYTHONPATH", "--quiet"]
        command = [SUITE, *passed_on, "-o", written]
    else:
        unconfigured = ["-q", "-c", os.devnull, "--rootdir", HERE, "-p", "no:cacheprovider"]
        command = ["-m", "pytest", SUITE, *unconfigured, "--benchmark-json", written]
    environment = {**os.environ, "SLOWER": slower, "PYTHONHASHSEED": "0", "PYTHONPATH": str(HERE.parents[1])}
    subprocess.run([sys.executable, *command], env=environment, check=True, stdout=subprocess.DEVNULL)
    written.rename(path)


def pack_results(folder: Path, packed: Path) -> None:
    """Write the files of `folder` to a ZIP archive, without the details of machine and paths."""
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for path in sorted(folder.glob("*.json")):
            content = json.dumps(_without_machine(json.loads(path.read_bytes())))
            archive.writestr(ZipInfo(path.name), content, ZIP_DEFLATED)


#: Details of pyperf that stay in a file.
_KEPT = frozenset({"name", "unit", "loops", "inner_loops"})


def _without_machine(results: dict[str, Any]) -> dict[str, Any]:
    if "machine_info" in results:
        processor = results["machine_info"]["cpu"]["brand_raw"]
        return {**results, "machine_info": {"cpu": {"brand_raw": processor}}, "commit_info": {}}
    for part in (results, *results["benchmarks"]):
        part["metadata"] = {key: value for key, value in part["metadata"].items() if key in _KEPT}
    for run in (run for benchmark in results["benchmarks"] for run in benchmark["runs"]):
        run["metadata"] = {key: run["metadata"][key] for key in ("date", "duration")}
    return results


if __name__ == "__main__":
    main()
