"""How fast comparisons become vectors, beside a loop over XML nodes as in seed 000, figure 6.5."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from statistics import median
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import Table, machine
from data.comparisons.sides import Samples, Sides, five_numbers
from data.comparisons.tables import ComparisonTables
from features.comparisons.vectors import seed_vectors, vectors

Floats = NDArray[np.float64]

CONFIGURATIONS = 3
REPETITIONS = 5
SEED = 20261121
#: Nodes that exist at once; more would measure the memory, to the loop's disadvantage.
BATCH = 1000
ATTRIBUTES = ("min", "first_q", "median", "third_q", "max")


def main() -> None:
    """Measure, print and write docs/results/features.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comparisons", type=int, default=100_000)
    parser.add_argument(
        "--rounds", type=int, default=9, help="the best of so many counts; of two for the loop"
    )
    options = parser.parse_args()
    n = options.comparisons
    sampled = synthetic(n)
    summarised = without_samples(sampled)
    loop, by_loop = min((time_loop(summarised) for _ in range(2)), key=lambda result: result[0])
    np.testing.assert_array_equal(seed_vectors(summarised).to_numpy(), by_loop)
    rows = [("figure 6.5, node by node", "15", f"{loop:.3f}", f"{loop / n * 1e6:.2f}", "1")]
    for title, compute, sides in (
        ("seed set, all at once", seed_vectors, summarised),
        ("extended set, of summaries", vectors, summarised),
        ("extended set, of samples", vectors, sampled),
    ):
        seconds = best(lambda compute=compute, sides=sides: compute(sides), options.rounds)  # type: ignore[misc]
        width = str(compute(sides).notna().any().sum())
        rows.append((title, width, f"{seconds:.3f}", f"{seconds / n * 1e6:.2f}", f"{loop / seconds:.0f}"))
    tables = tables_of(sampled)
    gather = clocked(lambda: Sides.of(tables))
    rows.append(
        ("gathering the sides from tables of samples", "-", f"{gather:.3f}", f"{gather / n * 1e6:.2f}", "-")
    )
    Table(
        f"Features of {n:,} synthetic comparisons",
        "uv run python -m benchmarks.features",
        ("way", "features", "seconds", "microseconds each", "times the loop's speed"),
        rows,
        notes(n, options.rounds),
    ).publish("features")


def notes(n: int, rounds: int) -> list[str]:
    """Say what the numbers mean."""
    sizes = f"{n:,} comparisons x {CONFIGURATIONS} configurations x {REPETITIONS} + {REPETITIONS} samples"
    return [
        f"Synthetic: {sizes}, normal around random levels.",
        "The loop runs over all comparisons. Its ElementTree nodes are parsed beforehand, outside the clock.",
        "The other side's arrays are gathered beforehand too; the last row is what that costs from tables.",
        "The seed set's values are compared with the loop's, and equal it to the last digit.",
        f"Best of {rounds} rounds (the loop: of 2), one process. {machine()}.",
    ]


def synthetic(n: int) -> Sides:
    """Return `n` comparisons of normal samples around three levels."""
    random = np.random.default_rng(SEED)
    k = n * CONFIGURATIONS
    level = np.repeat(random.uniform(100, 10_000, k), 2 * REPETITIONS)
    values = np.round(level * random.normal(1.0, 0.02, len(level)), 1)
    orders = np.tile(np.repeat([0, 1], REPETITIONS), k)
    starts = np.arange(k) * 2 * REPETITIONS
    baseline = Samples(values, orders, starts, starts + REPETITIONS)
    target = Samples(values, orders, starts + REPETITIONS, starts + 2 * REPETITIONS)
    return Sides(
        comparison=np.repeat(np.arange(n), CONFIGURATIONS),
        n_comparisons=n,
        threads=np.tile([1, 2, 4], n),
        sign=np.ones(k),
        baseline=baseline,
        target=target,
        history=Samples(values, orders, starts, starts),
        baseline_five=five_numbers(baseline),
        target_five=five_numbers(target),
    )


def without_samples(sides: Sides) -> Sides:
    """Return the same comparisons as a source of summaries gives them."""
    zeros = np.zeros(len(sides.sign), np.int64)
    nothing = Samples(np.zeros(0), np.zeros(0, np.int64), zeros, zeros)
    return Sides(
        sides.comparison, sides.n_comparisons, sides.threads, sides.sign, nothing, nothing, nothing,
        sides.baseline_five, sides.target_five,
    )  # fmt: skip


def tables_of(sides: Sides) -> ComparisonTables:
    """Write the samples out as the tables that a reader makes."""
    import pandas as pd

    operations = pd.Series(np.arange(sides.n_comparisons).astype(str))
    row = np.repeat(np.arange(len(sides.sign)), 2 * REPETITIONS)
    results = pd.DataFrame({"operation": operations.to_numpy()[sides.comparison[row]]}).assign(
        series_id="s", group="g", benchmark="b", machine="m", unit="ops/s", better="higher",
        threads=sides.threads[row], order=sides.baseline.orders, value=sides.baseline.values, stat=None,
    )  # fmt: skip
    comparisons = pd.DataFrame({"comparison_id": operations, "operation": operations}).assign(
        benchmark="b", machine="m", baseline_from=0, baseline_to=0, target_from=1, target_to=1
    )
    return ComparisonTables(results, comparisons, pd.DataFrame())


def best(run: Callable[[], object], rounds: int) -> float:
    """Return the shortest time of `run` in seconds."""
    return min(clocked(run) for _ in range(rounds))


def clocked(run: Callable[[], object]) -> float:
    """Return how long `run` takes in seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def time_loop(sides: Sides) -> tuple[float, Floats]:
    """Run the loop over the nodes of all comparisons; return its seconds and vectors."""
    seconds, result = 0.0, []
    for nodes in batches(sides):
        start = time.perf_counter()
        result.extend([vector_of_node(node) for node in nodes])
        seconds += time.perf_counter() - start
    return seconds, np.array(result)


def batches(sides: Sides) -> Iterator[list[ET.Element]]:
    """Yield ``comparison_result`` nodes as a parser leaves them, a batch at a time."""
    for start in range(0, sides.n_comparisons, BATCH):
        stop = min(start + BATCH, sides.n_comparisons)
        text = "".join(node_text(sides, comparison) for comparison in range(start, stop))
        yield list(ET.fromstring(f"<comparison_results>{text}</comparison_results>"))  # noqa: S314 - our own text


def node_text(sides: Sides, comparison: int) -> str:
    """Return one comparison as in figure 6.1, with values that read back as they are."""
    results = ""
    for row in range(comparison * CONFIGURATIONS, (comparison + 1) * CONFIGURATIONS):
        for tag, five in (("base", sides.baseline_five[row]), ("target", sides.target_five[row])):
            values = " ".join(
                f'{name}="{float(value)!r}"' for name, value in zip(ATTRIBUTES, five, strict=True)
            )
            results += (
                f"<result><{tag}_result {values}/>" if tag == "base" else f"<{tag}_result {values}/></result>"
            )
    return f"<comparison_result>{results}</comparison_result>"


def vector_of_node(cp_result: ET.Element) -> list[float]:
    """Compute one vector as figure 6.5 does."""
    medians, mins, maxes, q1s, q3s = [], [], [], [], []
    for res in cp_result:
        for basetarget in res:
            if basetarget.tag == "base_result":
                b_attr = basetarget.attrib
            if basetarget.tag == "target_result":
                t_attr = basetarget.attrib
        medians.append((float(t_attr["median"]) - float(b_attr["median"])) / float(b_attr["median"]))
        mins.append((float(t_attr["median"]) - float(t_attr["min"])) / float(t_attr["median"]))
        maxes.append((float(t_attr["median"]) - float(t_attr["max"])) / float(t_attr["median"]))
        q1s.append((float(t_attr["median"]) - float(t_attr["first_q"])) / float(t_attr["median"]))
        q3s.append((float(t_attr["median"]) - float(t_attr["third_q"])) / float(t_attr["median"]))
    vector = []
    for a in (medians, mins, maxes, q1s, q3s):
        vector.append(min(a))
        vector.append(median(a))
        vector.append(max(a))
    return [math.sqrt(float(x)) if float(x) > 0 else -math.sqrt(abs(float(x))) for x in vector]


if __name__ == "__main__":
    main()
