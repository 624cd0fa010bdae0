"""Find the comparisons that cannot be judged, and the reasons."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.comparisons.sides import Floats, Samples, Sides
from data.comparisons.tables import COMPARISON_DTYPES, FIVE_NUMBERS, ComparisonTables
from data.deferred import pd
from data.errors import InputError

#: Columns that comparisons with the same content may differ in; `CONTENT` has the others.
_NO_CONTENT = {"comparison_id", "later_to", "source", "siblings_worse"}
CONTENT = [name for name in COMPARISON_DTYPES if name not in _NO_CONTENT]
REPEATED = "repeats an earlier comparison"


def invalid_reasons(sides: Sides) -> NDArray[np.object_]:
    """Return the reason why each comparison cannot be judged, shape (n_comparisons,); "" where it can.

    The first of these counts: no measurement, or a number of threads that only one side has (a mean alone is
    no measurement); a repeated number of threads; a side given by its five-number summary (minimum,
    quartiles, maximum) that lacks a number, or a value of baseline or target that is not finite; only one
    repetition on a side, at any number of threads; no value above 0 on one side (with the median of the
    other); a value, also in the history, of 0 or less; a five-number summary that descends somewhere. NaN and
    positive infinity in the history are no reason; later versions are not checked.
    """
    reasons = np.full(sides.n_comparisons, "", object)
    if _are_all_usable(sides):
        return reasons
    reasons[sides.per_comparison == 0] = "has no measurement"
    _note_one_sided(reasons, sides)
    _note_wrong(reasons, sides, _repeats_threads(sides), "configuration appears twice")
    for name, samples, five in sides.both_sides:
        wrong = ~np.isfinite(five).all(axis=1) | _has_any(samples, ~np.isfinite(samples.values))
        missing = np.isnan(five) & (samples.lengths == 0)[:, None]
        for pattern in np.unique(missing[missing.any(axis=1)], axis=0):
            lacking = ", ".join(np.array(FIVE_NUMBERS)[pattern])
            same = (missing == pattern).all(axis=1)
            _note_wrong(reasons, sides, same, f"{name} is a summary without {lacking}")
        _note_wrong(reasons, sides, wrong, f"{name} holds a value that is not finite")
    for name, samples, _ in sides.both_sides:
        _note_wrong(reasons, sides, samples.lengths == 1, f"{name} has one repetition only")
    for (name, _, five), (other, _, other_five) in permutations(sides.both_sides):
        appears, median = (five[:, -1] <= 0) & (other_five[:, 2] > 0), other_five[:, 2]
        _note_wrong(reasons, sides, appears, f"{name} holds no value above 0, the {other}'s median", median)
    lowest = {name: five.min(axis=1) for name, _, five in sides.both_sides}
    lowest["history"] = _lowest_nonpositive(sides.history)
    for name, values in lowest.items():
        _note_wrong(reasons, sides, values <= 0, f"{name} holds a value that is not above 0", values)
    for name, samples, five in sides.both_sides:
        descends = (samples.lengths == 0) & (five[:, 1:] < five[:, :-1]).any(axis=1)
        _note_wrong(reasons, sides, descends, f"{name} has five numbers that don't ascend from min to max")
    return reasons


def _are_all_usable(sides: Sides) -> bool:
    """Return True if a fast test shows that all comparisons are valid; False requires the full test."""
    history, lengths = sides.history, sides.pooled_samples.lengths
    five = np.concatenate((sides.baseline_five, sides.target_five))
    summaries = five[lengths == 0]
    return bool(
        sides.per_comparison.all()
        and not _repeats_threads(sides).any()
        and (lengths != 1).all()
        and _are_positive(five)
        and (summaries[:, 1:] >= summaries[:, :-1]).all()
        and history.shares_values(sides.baseline)
        and history.shares_values(sides.target)
        and _are_positive(history.values)  # the values of all lists
    )


def _repeats_threads(sides: Sides) -> NDArray[np.bool_]:
    """Mark configurations with the threads of the one before; configurations are sorted by threads."""
    same = (np.diff(sides.comparison) == 0) & (np.diff(sides.threads) == 0)
    return np.append(np.zeros(min(len(sides.threads), 1), bool), same)


def _are_positive(values: Floats) -> bool:
    return bool(values.min(initial=1.0) > 0 and values.max(initial=1.0) < np.inf)


def unusable_reasons(tables: ComparisonTables) -> NDArray[np.object_]:
    """Return the reason why each comparison cannot be used, shape (n_comparisons,); "" where it can.

    A comparison is unusable if an earlier one in the table of comparisons has the same comparison_id, or
    equal benchmark, operation, machine, and first and last orders of both sides (`REPEATED`, which precedes
    other reasons); or if `invalid_reasons` has a reason, such as a side without measurements or a value that
    is not above 0.
    """
    reasons_found, comparisons = invalid_reasons(Sides.from_tables(tables)), tables.comparisons
    repeated = comparisons.duplicated("comparison_id") | comparisons.duplicated(CONTENT)
    reasons_found[repeated.to_numpy(bool)] = REPEATED
    return reasons_found


def find_errors(tables: ComparisonTables) -> list[InputError]:
    """Return an InputError, which is not raised, per comparison that cannot be used, in order; maybe none.

    Its problem is the reason in `unusable_reasons`; its place is the comparison's ``source``, or ``comparison
    "ID"`` if that is missing. It names no file and no line.
    """
    reasons = unusable_reasons(tables)
    is_wrong = reasons != ""
    return list(map(comparison_error, reasons[is_wrong], tables.comparisons[is_wrong].itertuples()))


def comparison_error(reason: str, comparison: Any) -> InputError:
    """Return an InputError with `reason` about a comparison, a row (named tuple) of the table of comparisons.

    Its place is the row's ``source``, or ``comparison "ID"`` if that is missing.
    """
    name = f'comparison "{comparison.comparison_id}"'
    return InputError(reason, place=name if pd.isna(comparison.source) else comparison.source)


def _has_any(samples: Samples, wrong: NDArray[np.bool_]) -> NDArray[np.bool_]:
    counts = np.r_[0, np.cumsum(wrong)]
    return counts[samples.stops] > counts[samples.starts]


def _lowest_nonpositive(samples: Samples) -> Floats:
    """Return the smallest value of each list that has one of at most 0; NaN for the others."""
    lowest = np.full(len(samples.starts), np.nan)
    for row in np.flatnonzero(_has_any(samples, samples.values <= 0)).tolist():
        lowest[row] = np.nanmin(samples.samples_of_row(row))
    return lowest


def _note_one_sided(reasons: NDArray[np.object_], sides: Sides) -> None:
    has = [(samples.lengths > 0) | ~np.isnan(five).all(axis=1) for _, samples, five in sides.both_sides]
    rows = np.flatnonzero(has[0] != has[1])
    comparison, threads, in_baseline = sides.comparison[rows], sides.threads[rows], has[0][rows]
    edges = np.flatnonzero(np.diff(comparison, prepend=-1, append=-1))
    for first, last in pairwise(edges.tolist()):
        texts = []
        for name, flag in (("baseline", False), ("target", True)):
            missing = sorted(threads[first:last][in_baseline[first:last] == flag].tolist())
            some = len(missing) < sides.per_comparison[comparison[first]]
            place = f"threads {', '.join(map(str, missing))}: " if some else ""
            texts += [f"{place}the {name} has no measurement"] if missing else []
        reasons[comparison[first]] = "; ".join(texts)


def _note_wrong(
    reasons: NDArray[np.object_],
    sides: Sides,
    wrong: NDArray[np.bool_],
    text: str,
    values: Floats | None = None,
) -> None:
    """Set the text of comparisons without one to the first configuration that is `wrong`, with its value."""
    rows = np.flatnonzero(wrong)
    comparison, first = np.unique(sides.comparison[rows], return_index=True)
    free = reasons[comparison] == ""
    for name, row in zip(comparison[free], rows[first][free], strict=True):
        value = "" if values is None else f": {values[row]:g}"
        reasons[name] = f"threads {sides.threads[row]}: the {text}{value}"
