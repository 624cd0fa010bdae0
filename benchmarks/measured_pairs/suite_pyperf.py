"""The operations as a suite of pyperf; ``measure.py`` runs it."""

from __future__ import annotations

import pyperf

from benchmarks.measured_pairs.operations import operations

if __name__ == "__main__":
    runner = pyperf.Runner(processes=4, values=4, warmups=1, min_time=0.01)
    for name, function in operations().items():
        runner.bench_func(name, function)
