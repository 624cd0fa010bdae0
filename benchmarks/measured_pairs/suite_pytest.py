"""The operations as a suite of pytest-benchmark; ``measure.py`` runs it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.measured_pairs.operations import operations

OPERATIONS = operations()


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name: str, benchmark: BenchmarkFixture) -> None:
    """Measure one operation 40 times."""
    function: Callable[[], None] = OPERATIONS[name]
    benchmark.pedantic(function, rounds=40, iterations=4, warmup_rounds=2)
