"""How fast comparisons become vectors, compared with the loop over XML nodes of the thesis (figure 6.5)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import median
from xml.etree import ElementTree as ET

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.judging import REPETITIONS, draw_comparisons
from benchmarks.table import Table, machine_line, shortest_time, time_call
from data.comparisons.sides import Sides
from features.comparisons.vectors import feature_vectors, seed_vectors

Floats = NDArray[np.float64]
THREADS = (1, 2, 4)
#: Nodes in memory at once; more would slow the loop down by memory access.
BATCH = 1000
COLUMNS = {
    "way": "", "features": "", "seconds": ".3f", "microseconds each": ".2f", "times the loop's speed": ".0f",
}  # fmt: skip
ATTRIBUTES = ("min", "first_q", "median", "third_q", "max")


def main(comparisons: int = 100_000, rounds: int = 9) -> None:
    """Measure, print and write docs/results/features.md; the best of so many rounds counts."""
    tables, _ = draw_comparisons(comparisons, threads=THREADS)
    gather, sampled = time_call(lambda: Sides.from_tables(tables))
    nothing = replace(sampled.history, values=np.zeros(0), orders=np.zeros(0, np.int64))
    # as read from a source of summaries, without samples
    summarised = replace(sampled, baseline=nothing, target=nothing)
    loop, by_loop = min((time_loop(summarised) for _ in range(2)), key=lambda result: result[0])
    np.testing.assert_array_equal(seed_vectors(summarised), by_loop)
    ways = {
        "set of figure 6.5, all at once": partial(seed_vectors, summarised),
        "extended set, of summaries": lambda: feature_vectors(replace(summarised)),
        "extended set, of samples": lambda: feature_vectors(replace(sampled)),
    }
    rows = [("figure 6.5, node by node", 15, loop, 1.0)]
    for title, compute in ways.items():
        seconds = shortest_time(compute, rounds)
        rows.append((title, (~np.isnan(compute())).any(axis=0).sum(), seconds, loop / seconds))
    rows.append(("gathering the sides from tables of samples", "-", gather, "-"))
    sizes = f"{len(THREADS)} configurations x {REPETITIONS} + {REPETITIONS} samples"
    Table(
        f"Features of {comparisons:,} synthetic comparisons",
        COLUMNS,
        [(way, width, took, took / comparisons * 1e6, times) for way, width, took, times in rows],
        [
            f"Synthetic: {comparisons:,} comparisons x {sizes}, normal around a level.",
            "The loop runs over all comparisons; its ElementTree nodes are parsed outside the clock.",
            "The other side's arrays are gathered outside it too; the last row is what that costs.",
            "The set's values are compared with the loop's, and equal it to the last digit.",
            f"Best of {rounds} rounds (the loop: of 2), one process. {machine_line()}.",
        ],
    ).publish("features")


def time_loop(sides: Sides) -> tuple[float, Floats]:
    """Run the loop over the nodes of all comparisons; return its seconds and vectors."""
    done = [time_call(lambda nodes=nodes: list(map(vector_of_node, nodes))) for nodes in batches(sides)]
    return sum(seconds for seconds, _ in done), np.array(
        [vector for _, vector_batch in done for vector in vector_batch]
    )


def batches(sides: Sides) -> Iterator[list[ET.Element]]:
    """Yield lists of parsed ``comparison_result`` nodes, a batch at a time."""
    for start in range(0, sides.n_comparisons, BATCH):
        stop = min(start + BATCH, sides.n_comparisons)
        text = "".join(node_text(sides, comparison) for comparison in range(start, stop))
        yield list(ET.fromstring(f"<comparison_results>{text}</comparison_results>"))  # noqa: S314 - our own text


def node_text(sides: Sides, comparison: int) -> str:
    """Return one comparison as XML (figure 6.1), with values that are parsed back exactly."""
    results = ""
    for row in range(comparison * len(THREADS), (comparison + 1) * len(THREADS)):
        values = [
            " ".join(f'{name}="{float(value)!r}"' for name, value in zip(ATTRIBUTES, five, strict=True))
            for five in (sides.baseline_five[row], sides.target_five[row])
        ]
        results += "<result><base_result {}/><target_result {}/></result>".format(*values)
    return f"<comparison_result>{results}</comparison_result>"


def vector_of_node(cp_result: ET.Element) -> list[float]:
    """Compute one vector by the code of figure 6.5."""
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
    typer.run(main)
