"""Which comparisons cannot be judged, and why."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.sides import Samples, Sides
from data.tables import ComparisonTables

#: What two comparisons must not have in common.
CONTENT = [
    "benchmark",
    "operation",
    "machine",
    "baseline_from",
    "baseline_to",
    "target_from",
    "target_to",
]


def reasons(sides: Sides) -> NDArray[np.object_]:
    """Say for every comparison why it cannot be judged.

    Returns
    -------
    ndarray of str, shape (n_comparisons,)
        Empty where it can be judged. Otherwise the first that applies: no measurement at all, sides with
        different thread counts, a value that is not finite, one repetition only, a median of zero, five
        numbers that don't ascend.
    """
    found = np.full(sides.n_comparisons, "", object)
    absent = np.ones(sides.n_comparisons, bool)
    absent[sides.comparison] = False
    found[absent] = "has no measurement"
    _note_one_sided(found, sides)
    parts = (
        ("baseline", sides.baseline, sides.baseline_five),
        ("target", sides.target, sides.target_five),
    )
    for name, samples, five in parts:
        wrong = ~np.isfinite(five).all(axis=1) | _holds_infinite(samples)
        _note(found, sides, wrong, f"{name} holds a value that is not finite")
    for name, samples, _ in parts:
        _note(found, sides, samples.lengths == 1, f"{name} has one repetition only")
    for name, _, five in parts:
        _note(found, sides, five[:, 2] == 0, f"{name} has the median 0")
    for name, samples, five in parts:
        fallen = (samples.lengths == 0) & (np.diff(five, axis=1) < 0).any(axis=1)
        _note(found, sides, fallen, f"{name} has five numbers that don't ascend from min to max")
    return found


def unusable(tables: ComparisonTables) -> NDArray[np.object_]:
    """Say for every comparison why it cannot be used: like `reasons`, and where it repeats another one."""
    found = reasons(Sides.of(tables))
    found[duplicates(tables.comparisons)] = "repeats an earlier comparison"
    return found


def duplicates(comparisons: pd.DataFrame) -> NDArray[np.bool_]:
    """Mark the comparisons that stood in the table before, by identifier or by content."""
    return (comparisons.duplicated("comparison_id") | comparisons.duplicated(CONTENT)).to_numpy(bool)


def check(tables: ComparisonTables) -> list[InputError]:
    """Return an error for every comparison that cannot be used, with its place."""
    why = unusable(tables)
    rows = np.flatnonzero(why != "")
    table = tables.comparisons.iloc[rows]
    return [
        InputError(reason, place=comparison if pd.isna(source) else source)
        for reason, source, comparison in zip(
            why[rows], table["source"], 'comparison "' + table["comparison_id"] + '"', strict=True
        )
    ]


def _holds_infinite(samples: Samples) -> NDArray[np.bool_]:
    wrong = np.r_[0, np.cumsum(~np.isfinite(samples.values))]
    return wrong[samples.stops] > wrong[samples.starts]


def _note_one_sided(found: NDArray[np.object_], sides: Sides) -> None:
    has = [
        (samples.lengths > 0) | ~np.isnan(five).all(axis=1)
        for samples, five in ((sides.baseline, sides.baseline_five), (sides.target, sides.target_five))
    ]
    rows = np.flatnonzero(has[0] != has[1])
    comparison, threads, in_baseline = sides.comparison[rows], sides.threads[rows], has[0][rows]
    begins = np.flatnonzero(np.diff(comparison, prepend=-1))
    for first, last in zip(begins, np.r_[begins, len(rows)][1:], strict=True):
        only = {
            name: sorted(threads[first:last][in_baseline[first:last] == flag].tolist())
            for name, flag in (("baseline", True), ("target", False))
        }
        told = "; ".join(f"{_list(numbers)} only in the {name}" for name, numbers in only.items() if numbers)
        found[comparison[first]] = f"sides with different thread counts: {told}"


def _note(found: NDArray[np.object_], sides: Sides, wrong: NDArray[np.bool_], text: str) -> None:
    rows = np.flatnonzero(wrong)
    comparison, first = np.unique(sides.comparison[rows], return_index=True)
    free = found[comparison] == ""
    for row, threads in zip(comparison[free], sides.threads[rows][first][free], strict=True):
        found[row] = f"threads {threads}: the {text}"


def _list(numbers: list[int]) -> str:
    return "threads " + ", ".join(map(str, numbers))
