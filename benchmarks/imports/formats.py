"""Speed and memory of ``perfjudge import`` on the output of benchmark tools: ``[MEGABYTES [FORMAT...]]``.

For each format, two files with together MEGABYTES megabytes are generated from the samples in the
documentation, with other names and values, as the tool would write them.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from benchmarks.table import PERFJUDGE, SEED, Table, call_in_process, load_note, run_measured

SAMPLES = Path("docs/samples/formats")
MEGABYTES = 120
#: Targets: megabytes read per second, and peak memory as a multiple of the files' size.
SPEED, MEMORY = 50, 4
#: Placeholder of the number that distinguishes copies.
_COPY = "@COPY@"


@dataclass(frozen=True)
class Shape:
    """How to generate a large file of a format from its sample."""

    sample: str
    entries: str
    name: tuple[str, ...]
    values: str = ""
    repeated: int = 1
    indent: int | None = None
    lines: bool = False


SHAPES = {
    "pytest-benchmark": Shape("base.json", "benchmarks", ("fullname",), "data", 100, 4),
    "pyperf": Shape("base.json", "benchmarks", ("metadata", "name"), "values", 5),
    "google-benchmark": Shape("base.json", "benchmarks", ("run_name",), indent=2),
    "hyperfine": Shape("base.json", "results", ("command",), "times", 10, 2),
    "jmh": Shape("base.json", "", ("benchmark",), "rawData", 5, 4),
    "perfherder": Shape("base.json", "suites", ("name",), "replicates", 5),
    "run-json": Shape("base.json", "results", ("operation",), "samples", 10, 2),
    "conbench": Shape("results.json", "", ("tags", "name"), "data", 5, 2),
    "lnt": Shape("r401.json", "tests", ("name",), "execution_time", 5, 2),
    "criterion": Shape("base-messages.jsonl", "", ("id",), lines=True),
    "perf-stat": Shape("base-lines.json", "", ("event",), lines=True),
}


def write_large_file(name: str, shape: Shape, path: Path, size: int) -> None:
    source, draws = (SAMPLES / name / shape.sample).read_text(), random.Random(SEED)
    content = [json.loads(line) for line in source.splitlines()] if shape.lines else json.loads(source)
    entries = list(content[shape.entries] if shape.entries else content)
    for entry in entries:
        _grow_entry(entry, shape, draws)
        if "reason" not in entry or "id" in entry:
            *keys, last = shape.name
            named = reduce(getitem, keys, entry)
            named[last] = f"{named[last]}{_COPY}"
    # the text around the list of entries, and in it the entries repeatedly
    mark, separator = '"@ENTRIES@"', "\n" if shape.lines else ","
    block = separator.join(json.dumps(entry, indent=shape.indent) for entry in entries)
    before, after = "", ""
    if not shape.lines:
        around = f"[{mark}]"
        if isinstance(content, dict):
            marked = {key: ["@ENTRIES@"] if key == shape.entries else value for key, value in content.items()}
            around = json.dumps(marked, indent=shape.indent)
        before, _, after = around.partition(mark)
    with path.open("w") as file:
        file.write(before)
        for copy in range(max(size // len(block), 1)):
            file.write((separator if copy else "") + block.replace(_COPY, str(copy)))
        file.write(after + "\n")


def _grow_entry(content: Any, shape: Shape, draws: random.Random) -> None:
    for key, member in content.items():
        if key == shape.values and isinstance(member, list):
            content[key] = [_add_noise(value, draws) for _ in range(shape.repeated) for value in member]
        elif isinstance(member, dict):
            _grow_entry(member, shape, draws)
        elif isinstance(member, list) and member and isinstance(member[0], dict):
            for inner in member:
                _grow_entry(inner, shape, draws)


def _add_noise(value: Any, draws: random.Random) -> Any:
    if isinstance(value, list):
        return [_add_noise(element, draws) for element in value]
    return value * draws.gauss(1, 0.01)


def reading_seconds(name: str, paths: list[Path]) -> float:
    """Return the processor seconds of reading files into chunks of tables, as the import does."""
    from data.comparisons import formats
    from data.tables.problems import Problems

    # warm-up: imports are not timed
    formats.read_tables(name, [SAMPLES / name / SHAPES[name].sample] * 2, keep_going=True)
    start = time.process_time()
    for _ in formats.stream_tables(name, paths, Problems()):
        pass
    return time.process_time() - start


def format_row(name: str, megabytes: int) -> tuple[object, ...]:
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory) / f"{side}.json" for side in ("base", "new")]
        for path in paths:
            write_large_file(name, SHAPES[name], path, megabytes * 500_000)
        size = sum(path.stat().st_size for path in paths)
        seconds = call_in_process(reading_seconds, name, paths)
        output = Path(directory) / "tables"
        cost = run_measured(PERFJUDGE, "import", name, *paths, "-o", output, "--json", "--keep-going")
    rows, speed = json.loads(cost.output)["results"], size / 1e6 / seconds
    memory = cost.memory / 1e6, cost.memory / size
    return name, size / 1e6, rows, speed, cost.seconds, cost.computed, *memory


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES
    chosen = sys.argv[2:] or list(SHAPES)
    rows = [format_row(name, megabytes) for name in chosen]
    columns = {
        "format": "", "MB": ",.0f", "rows": ",d", "read: MB a second": ",.0f", "import: seconds": ".1f",
        "of processors": ".1f", "memory at most (MB)": ",.0f", "memory / files": ".1f",
    }  # fmt: skip
    notes = [
        load_note(),
        "read: from bytes to tables, in pieces, by seconds of processors; without the start of Python.",
        "import: `perfjudge import FORMAT base.json new.json` as a whole, with start, checks and Parquet.",
        f"Two files of each format: copies of docs/samples/formats with other names and values, seed {SEED}.",
        f"Wanted: read {SPEED} MB a second, in memory of at most {MEMORY} times the files.",
    ]
    table = Table("Importing what benchmark tools write", columns, rows, notes)
    table.publish("import-formats", dry=chosen != list(SHAPES))


if __name__ == "__main__":
    main()
