"""Operations of the standard library that are measured, each a number of equal units of work.

The operation that the environment variable ``SLOWER`` names does 27 units instead of 25: it is 8 % slower.
The module is a suite of pytest-benchmark, and as a program one of pyperf; ``measure.py`` runs both.
"""

from __future__ import annotations

import base64
import csv
import difflib
import hashlib
import heapq
import io
import json
import os
import random
import re
import string
import struct
import textwrap
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from decimal import Decimal
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest
    from pytest_benchmark.fixture import BenchmarkFixture

UNITS, UNITS_IF_SLOWER = 25, 27


def units_of_work() -> Mapping[str, Callable[[], object]]:
    """Return one unit of work of each operation, of 20 to 200 us; data are equal in every run."""
    source = random.Random(1)
    numbers = [source.random() for _ in range(400)]
    ordered = sorted(numbers)
    words = ["".join(source.choices(string.ascii_lowercase, k=6)) for _ in range(300)]
    text = " ".join(words)
    rows = [{"name": word, "value": number} for word, number in zip(words[:60], numbers[:60], strict=True)]
    encoded, compressed = json.dumps(rows), zlib.compress(text.encode())
    lines = "\n".join(f"{word},{number}" for word, number in zip(words[:100], numbers[:100], strict=True))
    pattern = re.compile(r"\b[aeiou]\w*[xyz]\b")
    pack = partial(struct.pack, f"{len(numbers)}d", *numbers)
    return {
        "json_dumps": partial(json.dumps, rows),
        "json_loads": partial(json.loads, encoded),
        "sort_numbers": partial(sorted, numbers),
        "sort_rows": partial(sorted, rows, key=itemgetter("name")),
        "find_words": partial(pattern.findall, text),
        "compress": partial(zlib.compress, text.encode(), 1),
        "decompress": lambda: [zlib.decompress(compressed) for _ in range(4)],
        "sha256": partial(lambda data: hashlib.sha256(data).hexdigest(), text.encode() * 20),
        "count_words": partial(Counter, words),
        "smallest_numbers": partial(heapq.nsmallest, 20, numbers),
        "bisect": lambda: [bisect_left(ordered, number) for number in numbers],
        "sum_decimals": lambda: sum(map(Decimal, words_of_digits), Decimal(0)),
        "read_csv": lambda: list(csv.reader(io.StringIO(lines))),
        "pack_numbers": lambda: [pack() for _ in range(4)],
        "copy_rows": partial(deepcopy, rows[:8]),
        "base64": partial(lambda data: base64.b64decode(base64.b64encode(data)), text.encode() * 8),
        "wrap_text": partial(textwrap.wrap, text[:600], 40),
        "compare_texts": lambda: difflib.SequenceMatcher(None, text[:60], text[20:80]).ratio(),
    }


words_of_digits = [f"{number}.25" for number in range(120)]


def operations() -> Mapping[str, Callable[[], None]]:
    """Return each operation as a function that does its units of work."""
    numbers = {os.environ.get("SLOWER"): UNITS_IF_SLOWER}
    return {name: partial(repeat, unit, numbers.get(name, UNITS)) for name, unit in units_of_work().items()}


def repeat(unit: Callable[[], object], number: int) -> None:
    """Do `number` units of work."""
    for _ in range(number):
        unit()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("name", operations())


def test_operation(name: str, benchmark: BenchmarkFixture) -> None:
    """Measure one operation 40 times."""
    benchmark.pedantic(operations()[name], rounds=40, iterations=4, warmup_rounds=2)


if __name__ == "__main__":
    import pyperf

    runner = pyperf.Runner(processes=4, values=4, warmups=1, min_time=0.01)
    for name, function in operations().items():
        runner.bench_func(name, function)
