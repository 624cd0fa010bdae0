"""A judgement in the XML layout of seed 000, figure 6.1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.sides import Samples, Sides
from data.tables import ComparisonTables
from serving.judge import Judgement

Floats = NDArray[np.float64]

#: The attributes of the figure, for min, q1, median, q3 and max.
_FIVE = ("min", "first_q", "median", "third_q", "max")


def as_xml(judgement: Judgement, tables: ComparisonTables) -> bytes:
    """Write what was judged, and the verdicts as ``result_status``, in the layout of figure 6.1.

    Parameters
    ----------
    judgement : Judgement
    tables : ComparisonTables
        What the judgement was made from. Mean and standard deviation are written where there are
        samples.
    """
    from lxml import etree

    sides = Sides.of(tables)
    moments = _moments(sides.baseline), _moments(sides.target)
    first = np.searchsorted(sides.comparison, np.arange(sides.n_comparisons + 1))
    root = etree.Element("comparison_results")
    for row, verdict in enumerate(judgement.verdicts):
        node = etree.SubElement(root, "comparison_result", comparison_id=verdict.comparison_id)
        node.set("benchmark_name", verdict.benchmark)
        node.set("operation_name", verdict.operation)
        node.set("result_status", verdict.verdict)
        for configuration in range(first[row], first[row + 1]):
            _configuration(etree, node, sides, moments, configuration)
    written: bytes = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return written


def _configuration(etree: Any, parent: Any, sides: Sides, moments: tuple[Floats, Floats], row: int) -> None:
    node = etree.SubElement(parent, "result", threads_no=str(sides.threads[row]))
    before, after = sides.baseline_five[row, 2], sides.target_five[row, 2]
    if before and np.isfinite(after / before):
        node.set("median_diff", f"{100 * (after / before - 1):.0f}")
    five = ("base_result", sides.baseline_five[row]), ("target_result", sides.target_five[row])
    for (tag, numbers), (mean, deviation) in zip(five, (side[row] for side in moments), strict=True):
        named = dict(zip(_FIVE, numbers.tolist(), strict=True)) | {"mean": mean, "stdev": deviation}
        given = {name: repr(float(value)) for name, value in sorted(named.items()) if np.isfinite(value)}
        if given:
            etree.SubElement(node, tag, given)


def _moments(samples: Samples) -> Floats:
    """Return mean and standard deviation of every list, NaN where there is none."""
    found = np.full((len(samples.starts), 2), np.nan)
    for rows, matrix in samples.matrices():
        found[rows, 0] = matrix.mean(axis=1)
        if matrix.shape[1] > 1:
            found[rows, 1] = matrix.std(axis=1, ddof=1)
    return found
