"""How fast ``perfjudge import`` reads what benchmark tools write, and in how much memory.

Run it with ``python -m benchmarks.imports.formats [MEGABYTES]``: two files of each format, of so many megabytes
together, are made of the samples in the documentation, with other names and values, written as the tool writes
them. It writes ``docs/results/import-formats.md``.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.table import SEED, Table, busy, load

SAMPLES = Path("docs/samples/formats")
MEGABYTES = 120
#: What is wanted.
SPEED, MEMORY = 50, 4
#: The place of a number that tells copies apart.
_COPY = "@COPY@"


@dataclass(frozen=True)
class Shape:
    """How large files of a format are made.

    Attributes
    ----------
    sample : str
        A file among the samples.
    entries : callable
        Returns the list in it that grows.
    name : callable
        Takes an entry and gives it another name.
    values : str
        The key of the lists of numbers that grow.
    repeated : int
        How many times a list of numbers is as long as in the sample.
    indent : int or None
        As the tool writes it.
    lines : bool
        Whether each entry is a line of its own.
    """

    sample: str
    entries: Callable[[Any], list[Any]]
    name: Callable[[Any, str], None]
    values: str = ""
    repeated: int = 1
    indent: int | None = None
    lines: bool = False


def _set(*path: str) -> Callable[[Any, str], None]:
    def give(entry: Any, name: str) -> None:
        for key in path[:-1]:
            entry = entry[key]
        entry[path[-1]] = f"{entry[path[-1]]}{name}"

    return give


def _of(key: str) -> Callable[[Any], list[Any]]:
    return lambda content: list(content[key])


def _suites(content: Any) -> list[Any]:
    return list(content["suites"])


SHAPES = {
    "pytest-benchmark": Shape("base.json", _of("benchmarks"), _set("fullname"), "data", 100, 4),
    "pyperf": Shape("base.json", _of("benchmarks"), _set("metadata", "name"), "values", 5),
    "google-benchmark": Shape("base.json", _of("benchmarks"), _set("run_name"), indent=2),
    "hyperfine": Shape("base.json", _of("results"), _set("command"), "times", 10, 2),
    "jmh": Shape("base.json", list, _set("benchmark"), "rawData", 5, 4),
    "perfherder": Shape("base.json", _suites, _set("name"), "replicates", 5),
    "run-json": Shape("base.json", _of("results"), _set("operation"), "samples", 10, 2),
    "conbench": Shape("results.json", list, _set("tags", "name"), "data", 5, 2),
    "lnt": Shape("r401.json", _of("tests"), _set("name"), "execution_time", 5, 2),
    "criterion": Shape("base-messages.jsonl", list, _set("id"), lines=True),
    "perf-stat": Shape("base-lines.json", list, _set("event"), lines=True),
}


def written(name: str, shape: Shape, path: Path, size: int) -> None:
    """Write a file of about `size` bytes."""
    source, draws = (SAMPLES / name / shape.sample).read_text(), random.Random(SEED)
    content = [json.loads(line) for line in source.splitlines()] if shape.lines else json.loads(source)
    entries = shape.entries(content)
    for entry in entries:
        _grown(entry, shape, draws)
        shape.name(entry, _COPY) if "reason" not in entry or "id" in entry else None
    with path.open("w") as file:
        file.writelines(_pieces(content, entries, shape, size))


def _grown(content: Any, shape: Shape, draws: random.Random) -> None:
    for key, one in content.items():
        if key == shape.values and isinstance(one, list):
            content[key] = [_noisy(value, draws) for _ in range(shape.repeated) for value in one]
        elif isinstance(one, dict):
            _grown(one, shape, draws)
        elif isinstance(one, list) and one and isinstance(one[0], dict):
            for inner in one:
                _grown(inner, shape, draws)


def _noisy(value: Any, draws: random.Random) -> Any:
    return [_noisy(one, draws) for one in value] if isinstance(value, list) else value * draws.gauss(1, 0.01)


def _pieces(content: Any, entries: list[Any], shape: Shape, size: int) -> Iterator[str]:
    """Yield the text around the list that grows, and in it its entries again and again."""
    mark, separator = '"@ENTRIES@"', "\n" if shape.lines else ","
    block = separator.join(json.dumps(entry, indent=shape.indent) for entry in entries)
    whole = content if content is entries or shape.lines else _with(content, entries, mark.strip('"'))
    around = json.dumps(whole, indent=shape.indent) if isinstance(whole, dict) else f"[{mark}]"
    before, _, after = ("", "", "") if shape.lines else around.partition(mark)
    yield before
    for copy in range(max(size // len(block), 1)):
        yield (separator if copy else "") + block.replace(_COPY, str(copy))
    yield after + "\n"


def _with(content: Any, entries: list[Any], mark: str) -> Any:
    if not isinstance(content, dict):
        return content
    return {key: [mark] if one == entries else one for key, one in content.items()}


@dataclass(frozen=True)
class Measured:
    """What an import took."""

    rows: int
    seconds: float
    memory: int


def imported(name: str, paths: list[Path], directory: Path) -> Measured:
    """Run the command in a process of its own."""
    program = str(Path(sys.executable).parent / "perfjudge")
    command = [program, "import", name, *map(str, paths), "-o", str(directory), "--json", "--keep-going"]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        told = process.stdout.read() if process.stdout else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{name}: exit status {process.returncode}")
    return Measured(json.loads(told)["results"], time.perf_counter() - start, usage.ru_maxrss << 10)


def main() -> None:
    """Import two files of each format."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES
    chosen = sys.argv[2:] or list(SHAPES)
    rows, before = [], load()
    for name in chosen:
        with tempfile.TemporaryDirectory() as directory:
            paths = [Path(directory) / f"{side}.json" for side in ("base", "new")]
            for path in paths:
                written(name, SHAPES[name], path, megabytes * 500_000)
            size = sum(path.stat().st_size for path in paths)
            found = imported(name, paths, Path(directory) / "tables")
            speed = size / 1e6 / found.seconds
            rows.append((name, size / 1e6, found.rows, found.seconds, speed, found.memory / 1e6, found.memory / size))
            print(rows[-1], flush=True)
    table = Table(
        "Importing what benchmark tools write",
        "python -m benchmarks.imports.formats",
        {
            "format": "",
            "MB": ",.0f",
            "rows": ",d",
            "seconds": ".1f",
            "MB a second": ",.0f",
            "memory at most (MB)": ",.0f",
            "memory / file": ".1f",
        },
        rows,
        [
            busy(before),
            "`perfjudge import FORMAT base.json new.json` in a process of its own: its start, recognising nothing,"
            " reading, checking and writing of Parquet included.",
            "Two files of each format, made of the samples in docs/samples/formats with other names and values"
            f" (seed {SEED}), indented as the tool does it.",
            f"Wanted: {SPEED} MB a second, in memory of at most {MEMORY} times the files.",
        ],
    )
    table.publish("import-formats") if len(chosen) == len(SHAPES) else print(table.markdown())


if __name__ == "__main__":
    main()
