"""Shared by the benchmarks: result tables in Markdown, timing, and processes."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import psutil

from benchmarks.pages import PAGES, RESULTS, footer, markdown_table
from data.measure.machine import describe_machine
from data.paths import FamilyPaths
from data.tables.files import write_text

Result = TypeVar("Result")
Clock = Callable[[], float]
SEED = 20261121
PERFJUDGE = Path(sys.executable).with_name("perfjudge")
#: Directory of the public data sets.
SHARED = Path(os.environ.get("PERFJUDGE_SHARED", "../shared/data"))
_LOAD_AT_START = os.getloadavg()[0]


def require_program(name: str) -> None:
    """Exit with code 2 and one line on stderr if a program, whose Debian package has its name, is missing."""
    if shutil.which(name) is None:
        sys.stderr.write(f"not installed: {name}; on Debian: apt-get install {name}\n")
        raise SystemExit(2)


@dataclass(frozen=True)
class Table:
    """A table with a format per column; `notes` may be a Markdown list, whose lines may be indented."""

    title: str
    columns: Mapping[str, str]
    rows: Sequence[Sequence[object]]
    notes: Sequence[str] | str = ()

    def markdown(self, command: str = "") -> str:
        """Return the table as a Markdown page with the command that makes it, by default the running one."""
        forms = self.columns.values()
        cells = [[_cell(value, form) for value, form in zip(row, forms, strict=True)] for row in self.rows]
        spec = sys.modules["__main__"].__spec__
        running = f"python -m {spec.name.removesuffix('.__main__')}" if spec else " ".join(sys.argv)
        lines = [f"# {self.title}", "", f"    {command or running}", "", markdown_table(self.columns, cells)]
        return "\n".join([*lines, "", *(f"- {note}" for note in notes_of(self.notes))]).rstrip() + "\n"

    def publish(self, name: str, *, dry: bool = False) -> None:
        """Print the table, and write it to docs/results/`name`.md unless `dry`."""
        publish(name, [self], dry=dry)


def notes_of(notes: Sequence[str] | str) -> Sequence[str]:
    """Return the items of a Markdown list, each in one line."""
    if not isinstance(notes, str):
        return notes
    return [" ".join(item.split()) for item in re.split(r"^\s*- ", notes, flags=re.MULTILINE)[1:]]


def publish(name: str, tables: Sequence[Table], *, dry: bool = False) -> None:
    """Print tables, and unless `dry` write them to docs/results/`name`.md, with their origin below.

    The command in the page is that of `PAGES`, or the running one if `PAGES` has no such page.
    """
    command = "" if dry else next((page.command for page in PAGES if page.name == name), "")
    page = "\n".join(table.markdown(command) for table in tables)
    if not dry:
        page += footer(name)
        write_text(RESULTS / f"{name}.md", page)
    print(page)


def _cell(value: object, form: str) -> str:
    if value is None or value != value:  # noqa: PLR0124 - NaN is
        return ""
    return value if isinstance(value, str) else format(value, form)


def time_call(work: Callable[[], Result], clock: Clock = time.perf_counter) -> tuple[float, Result]:
    start = clock()
    result = work()
    return clock() - start, result


def shortest_time(work: Callable[[], object], rounds: int = 1) -> float:
    """Return the shortest of `rounds` times of `work` in seconds."""
    return min(time_call(work)[0] for _ in range(rounds))


def median_run(run: Callable[[], Any]) -> Any:
    return sorted((run() for _ in range(3)), key=lambda result: result.seconds)[1]


def call_in_process(work: Callable[..., Result], *arguments: object) -> Result:
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        return executor.submit(work, *arguments).result()


@dataclass(frozen=True)
class ProcessCost:
    """Output, wall-clock seconds, processor seconds and peak memory in bytes of a process."""

    output: str
    seconds: float
    computed: float
    memory: int


def run_measured(*command: object) -> ProcessCost:
    start = time.perf_counter()
    arguments = [str(argument) for argument in command]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        output = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments)
    computed = usage.ru_utime + usage.ru_stime
    return ProcessCost(output, time.perf_counter() - start, computed, usage.ru_maxrss << 10)


def processor_seconds(process: int) -> float:
    """Return the user and system time that a process and its children have taken so far."""
    parent = psutil.Process(process)
    times = [member.cpu_times() for member in (parent, *parent.children(recursive=True))]
    return sum(spent.user + spent.system for spent in times)


def program_environment(**variables: str) -> dict[str, str]:
    """Return the environment of a command that finds this interpreter's programs first, with `variables`."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, **variables}


def repro_command(targets: Iterable[str] = (), **variables: str) -> tuple[list[str], dict[str, str]]:
    """Return the ``dvc repro`` command with this interpreter's packages, and its environment."""
    return [sys.executable, "-m", "dvc", "repro", *targets], program_environment(**variables)


def read_figures(root: Path) -> dict[str, bytes]:
    """Return the content of each family's metrics.json and summary.json in `root`."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.glob("reports/*/*.json"))}


def read_metrics(family: str, root: Path = Path()) -> dict[str, Any]:
    return json.loads(FamilyPaths(family, root).metrics.read_text(encoding="utf-8"))


def machine_line() -> str:
    here = describe_machine()
    system = f"{platform.system()} {here['architecture']}"
    return f"{here['processor']}, {here['processors']} cores, {system}, Python {here['python']}"


def load_note() -> str:
    now = os.getloadavg()[0]
    return f"{machine_line()}; load average {_LOAD_AT_START:.1f} before and {now:.1f} after."
