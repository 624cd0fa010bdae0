"""Profiles and differences as text for a terminal or a pipe."""

from __future__ import annotations

import math
from collections.abc import Sequence

from serving.pages.tables import tabulated
from training.fingerprints.differences import ProfileDifference
from training.fingerprints.prediction import Prediction
from training.fingerprints.profiles import Profile

#: Stressors that are printed; ``--json`` has them all.
SHOWN = 10
_UNKNOWN = "-"


def profile_text(profile: Profile, predictions: Sequence[Prediction], *, predicting: bool) -> str:
    """Return the verdict on the profile, its trust figures, the ranking, and the predictions asked for.

    A profile that cannot be trusted says so before its ranking and on every line of it.
    """
    measured, trust = profile.measured, profile.trust
    error = _UNKNOWN if math.isnan(trust.median_error) else f"{trust.median_error:.1%}"
    parts = [
        f"{profile.application} ({measured.metric}, {measured.better} is better): {trust.verdict}",
        (
            f"{trust.machines} machines of {trust.cpus} CPU models; with whole CPU models held out R2 "
            f"{_number(trust.r2)}, median error {error}: {trust.predicting}\n"
        ),
        _ranking(profile),
    ]
    if predicting:
        parts.append(_predictions(predictions) if predictions else _NOTHING_TO_PREDICT)
    return "\n".join(parts)


_NOTHING_TO_PREDICT = "Every machine with a fingerprint has a value: there is nothing to predict.\n"


def difference_text(difference: ProfileDifference) -> str:
    """Return what really moved, what the seed's algorithm says, and the largest changes."""
    lines = [f"{difference.a} -> {difference.b}: {_moved(difference)}", *difference.reasons]
    stops = difference.stops_at
    seed = f"stops at {stops}: not equivalent" if stops else "walks to the end: equivalent"
    lines.append(f"the seed's algorithm (tolerance {difference.tolerance:g}) {seed}")
    return "\n".join([*lines, "", _changes(difference)])


def _moved(difference: ProfileDifference) -> str:
    if difference.reasons:
        return "cannot be told, because"
    moved = difference.moved
    return f"really moved: {', '.join(moved)}" if moved else "no stressor really moved"


def _ranking(profile: Profile) -> str:
    enough = profile.trust.enough
    rest = len(profile.features) - SHOWN
    caption = f"{rest} more with --json" if rest > 0 else None
    if not enough:
        caption = "not enough diversity: this order means nothing" + (f"; {caption}" if caption else "")
    numbers = "importance", "interval", "permutation"
    rows = [
        (
            str(row["stressor"]),
            str(row["categories"]),
            _number(row["importance"], 0),
            _UNKNOWN if math.isnan(row["low"]) else f"{row['low']:.0f} to {row['high']:.0f}",
            _number(row["permutation"], 0),
            *(() if enough else ("no",)),
        )
        for row in profile.features.head(SHOWN).to_dict("records")
    ]
    columns = ("stressor", "categories", *numbers, *(() if enough else ("trusted",)))
    return tabulated(columns, rows, numbers=numbers, caption=caption)


def _predictions(predictions: Sequence[Prediction]) -> str:
    first = predictions[0]
    caption = "; ".join(
        dict.fromkeys(f"do not rely on it: {why}" for one in predictions for why in one.reasons)
    )
    numbers = f"predicted {first.metric}", f"{first.confidence:.0%} interval"
    rows = [(one.machine, f"{one.value:.4g}", f"{one.low:.4g} to {one.high:.4g}") for one in predictions]
    return tabulated(("machine", *numbers), rows, numbers=numbers, caption=caption or None)


def _changes(difference: ProfileDifference) -> str:
    numbers = "before", "after", "change", "p"
    rows = [
        (
            str(row["stressor"]),
            _number(row["importance_a"], 0),
            _number(row["importance_b"], 0),
            f"{row['change']:+.0f}",
            _number(row["p_value"], 3),
            "cannot be told" if difference.reasons else "yes" if row["moved"] else "no",
        )
        for row in difference.features.head(SHOWN).to_dict("records")
    ]
    caption = "importances: most important = 100; p is adjusted for all stressors"
    return tabulated(("stressor", *numbers, "really moved"), rows, numbers=numbers, caption=caption)


def _number(value: float, digits: int = 2) -> str:
    return _UNKNOWN if math.isnan(value) else f"{value:.{digits}f}"
