"""How fast ``perfjudge import`` reads what benchmark tools write, and in how much memory.

Run it with ``python -m benchmarks.imports.formats [MEGABYTES [FORMAT...]]``: two files of each format, of so
many megabytes together, are made of the samples in the documentation, with other names and values, written as
the tool writes them. Without FORMAT it writes ``docs/results/import-formats.md``.
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
        if "reason" not in entry or "id" in entry:
            shape.name(entry, _COPY)
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
class Spent:
    """What a process printed, its seconds of the clock and of processors, and bytes of memory at most."""

    told: str
    seconds: float
    computed: float
    memory: int


def spent(command: list[str]) -> Spent:
    """Run a command in a process of its own."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        told = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"exit status {process.returncode} of {command}")
    computed = usage.ru_utime + usage.ru_stime
    return Spent(told, time.perf_counter() - start, computed, usage.ru_maxrss << 10)


def read(name: str, paths: list[Path]) -> float:
    """Return the seconds of processors from bytes to tables in pieces, as the import has them."""
    from data.comparisons import formats
    from data.tables.problems import Problems

    # what is imported when it is needed
    formats.read(name, [SAMPLES / name / SHAPES[name].sample] * 2, keep_going=True)
    start = time.process_time()
    for _ in formats.stream(name, paths, Problems()):
        pass
    return time.process_time() - start


def row(name: str, megabytes: int) -> tuple[object, ...]:
    """Measure one format."""
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory) / f"{side}.json" for side in ("base", "new")]
        for path in paths:
            written(name, SHAPES[name], path, megabytes * 500_000)
        size, files = sum(path.stat().st_size for path in paths), list(map(str, paths))
        reading = float(
            spent([sys.executable, "-m", "benchmarks.imports.formats", "read", name, *files]).told
        )
        program = str(Path(sys.executable).parent / "perfjudge")
        output = str(Path(directory) / "tables")
        found = spent([program, "import", name, *files, "-o", output, "--json", "--keep-going"])
    rows, mega = json.loads(found.told)["results"], size / 1e6
    return (
        name,
        mega,
        rows,
        mega / reading,
        found.seconds,
        found.computed,
        found.memory / 1e6,
        found.memory / size,
    )


def main() -> None:
    """Import two files of each format."""
    if sys.argv[1:2] == ["read"]:
        print(read(sys.argv[2], [Path(one) for one in sys.argv[3:]]))
        return
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES
    chosen, before = sys.argv[2:] or list(SHAPES), load()
    rows = [row(name, megabytes) for name in chosen]
    columns = {
        "format": "",
        "MB": ",.0f",
        "rows": ",d",
        "read: MB a second": ",.0f",
        "import: seconds": ".1f",
        "of processors": ".1f",
        "memory at most (MB)": ",.0f",
        "memory / files": ".1f",
    }
    notes = [
        busy(before),
        "read: from bytes to tables, in pieces, by seconds of processors; without the start of Python.",
        "import: `perfjudge import FORMAT base.json new.json` as a whole, with start, checks and Parquet.",
        f"Two files of each format: copies of docs/samples/formats with other names and values, seed {SEED}.",
        f"Wanted: read {SPEED} MB a second, in memory of at most {MEMORY} times the files.",
    ]
    table = Table(
        "Importing what benchmark tools write", "python -m benchmarks.imports.formats", columns, rows, notes
    )
    if chosen == list(SHAPES):
        table.publish("import-formats")
    else:
        print(table.markdown())


if __name__ == "__main__":
    main()
