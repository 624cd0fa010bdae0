"""Measure three operations of Python and write the results of this run: python measure.py FILE."""

import json
import sys
import time

OPERATIONS = {
    "sort": lambda: sorted(range(20_000), key=lambda number: -number),
    "join": lambda: " ".join(map(str, range(20_000))),
    "sum": lambda: sum(number * number for number in range(20_000)),
}


def sample(work):
    """Return the milliseconds of processor time that `work` takes."""
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1000


def result(name, work):
    """Measure one operation ten times."""
    configuration = {"threads": 1, "samples": [sample(work) for _ in range(10)]}
    return {
        "benchmark": "python", "operation": name, "machine": "here", "unit": "ms", "better": "lower",
        "configurations": [configuration],
    }  # fmt: skip


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as file:  # noqa: PTH123 - nothing to install, nothing to know
        json.dump({"results": [result(name, work) for name, work in OPERATIONS.items()]}, file)
