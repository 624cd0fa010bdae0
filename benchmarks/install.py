"""The installed wheel: its size, that of its environment, and how long its commands take to start."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

from benchmarks.table import Table, load_note, publish, run_measured

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "docs" / "samples"
_RUNS = [SAMPLES / "formats" / "pytest-benchmark" / f"{side}.json" for side in ("base", "new")]
COMMANDS = {
    "--version": ["--version"],
    "judge mine.json": ["judge", SAMPLES / "mine.json"],
    "compare, two files of pytest-benchmark": ["compare", *_RUNS],
}
REPEATS = 5


def build_wheel(directory: Path) -> Path:
    subprocess.run([sys.executable, ROOT / ".ci" / "wheel.py", directory], check=True)
    (wheel,) = directory.glob("*.whl")
    return wheel


def install_wheel(wheel: Path, environment: Path) -> Path:
    """Install a wheel in a new environment with the locked versions; return its folder of programs."""
    constraints = environment.with_suffix(".txt")
    export = ["uv", "export", "--quiet", "--frozen", "--all-extras", "--no-emit-workspace", "--no-hashes"]
    subprocess.run([*export, "--output-file", constraints], cwd=ROOT, check=True)
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, environment], check=True)
    target = ["--python", environment / "bin" / "python", "--constraints", constraints]
    subprocess.run(["uv", "pip", "install", "--quiet", *target, wheel], check=True)
    return environment / "bin"


def disk_megabytes(folder: Path) -> float:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sum(path.lstat().st_blocks for path in files) * 512 / 2**20


def seconds_until_healthy(program: Path) -> float:
    from benchmarks.serving import running_server

    begin = time.perf_counter()
    with running_server(program, "serve", path="/healthz", pause=0.01):
        return time.perf_counter() - begin


def drop_cached_files(folder: Path) -> None:
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def start_rows(program: Path) -> Iterator[tuple[object, ...]]:
    """Yield seconds of the first start after the installation, of a cold one, and of warm ones."""
    starts = {
        name: lambda arguments=arguments: run_measured(program, *arguments).seconds
        for name, arguments in COMMANDS.items()
    }
    starts["serve, until /healthz answers"] = lambda: seconds_until_healthy(program)
    for name, start in starts.items():
        first = start()
        drop_cached_files(program.parents[1])
        yield name, first, start(), statistics.median(start() for _ in range(REPEATS))


def main() -> None:
    # the first start of a command compiles its modules
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as temporary, tempfile.TemporaryDirectory() as empty, chdir(empty):
        wheel = build_wheel(Path(temporary) / "dist")
        programs = install_wheel(wheel, Path(temporary) / "environment")
        packages = next(programs.parent.glob("lib/python*/site-packages"))
        sizes = [
            ("wheel", wheel.stat().st_size / 2**20),
            ("champions in it, unpacked", disk_megabytes(packages / "training" / "shipped" / "models")),
            ("environment", disk_megabytes(packages)),
        ]
        starts = [*start_rows(programs / "perfjudge")]
    size_notes = [
        "A fresh environment with the wheel and no extra, in the versions of uv.lock.",
        "Disk usage without compiled modules, which the first start of a command writes.",
    ]
    start_notes = [
        "Commands run in an empty folder, without a registry. First: modules are compiled. Cold: no file of",
        f"the environment is in the operating system's cache. Warm: the median of {REPEATS} new processes.",
        load_note(),
    ]
    seconds = {"command": "", "first, s": ".2f", "cold, s": ".2f", "warm, s": ".2f"}
    tables = [
        Table("Size of an installed perfjudge", {"part": "", "MiB": ".1f"}, sizes, size_notes),
        Table("Start of an installed perfjudge", seconds, starts, start_notes),
    ]
    publish("install", tables)


if __name__ == "__main__":
    main()
