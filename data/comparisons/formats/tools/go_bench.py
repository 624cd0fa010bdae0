"""Go: what ``go test -bench`` prints, best with ``-count 10``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from data.comparisons.formats.tools.measurement import Measurement, SourceFiles, lines_of, number, of_unit

RESULT = re.compile(r"^(Benchmark\S*)\s+(\d+)\s+(\S+ \S+.*)$")
_PROCESSORS = re.compile(r"-(\d+)$")
#: ``Unit ns/op better=lower``, as packages may print it.
_DIRECTION = re.compile(r"^Unit (\S+) .*\bbetter=(lower|higher)")
_TIME = "ns/op"


def read(source: SourceFiles) -> Iterator[Measurement]:
    """Yield a value per line and unit; what follows the last ``-`` of a name is GOMAXPROCS."""
    for path in source.files:
        package, directions = "", dict[str, str]()
        for line, text in lines_of(path):
            if text.startswith("pkg:"):
                package = text.removeprefix("pkg:").strip()
            elif told := _DIRECTION.match(text):
                directions[told[1]] = told[2]
            elif found := RESULT.match(text):
                name, threads = _named(found[1])
                for value, unit in _values(found[3], path, line):
                    better = source.better(directions.get(unit) or _usual(unit))
                    operation = name if unit == _TIME else f"{name} {unit}"
                    yield Measurement(operation, (value,), unit, better, package, threads=threads)


def _named(text: str) -> tuple[str, int]:
    name = text.removeprefix("Benchmark")
    processors = _PROCESSORS.search(name)
    return _PROCESSORS.sub("", name) or text, int(processors[1]) if processors else 1


def _values(text: str, path: Path, line: int) -> list[tuple[float, str]]:
    fields = text.split()
    each = zip(fields[::2], fields[1::2], strict=False)
    return [(number(value, path, line, unit), unit) for value, unit in each]


def _usual(unit: str) -> str | None:
    """Return which values are better in units that say it."""
    return of_unit(unit) if unit.endswith(("/op", "/s")) else None
