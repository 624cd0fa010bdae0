"""Profiles and differences as text for a terminal or a pipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from serving.pages.tables import printed
from training.fingerprints.differences import Difference
from training.fingerprints.prediction import Prediction
from training.fingerprints.profiles import Profile, Trust

if TYPE_CHECKING:
    from rich.table import Table

#: Stressors that are printed; ``--json`` has them all.
SHOWN = 10
_UNKNOWN = "-"


def profile_text(profile: Profile, predictions: Sequence[Prediction], *, predicting: bool) -> str:
    """Return the verdict on the profile, its trust figures, the ranking, and the predictions asked for.

    A profile that cannot be trusted says so before its ranking and on every line of it.
    """
    measured, trust = profile.measured, profile.trust
    parts = [f"{profile.application} ({measured.metric}, {measured.better} is better): {trust.verdict}"]
    parts.append(f"{trust_text(trust)}\n")
    parts.append(printed(_ranking(profile)))
    if predicting:
        parts.append(printed(_predictions(predictions)) if predictions else _NOTHING_TO_PREDICT)
    return "\n".join(parts)


_NOTHING_TO_PREDICT = "Every machine with a fingerprint has a value: there is nothing to predict.\n"


def trust_text(trust: Trust) -> str:
    """Return the figures of trust in one line."""
    return (
        f"{trust.machines} machines of {trust.cpus} CPU models; with whole CPU models held out R2 "
        f"{_number(trust.r2)}, median error {_percent(trust.median_error)}; top five overlap by "
        f"{_number(trust.stability)} between resamples"
    )


def difference_text(difference: Difference) -> str:
    """Return what really moved, what the seed's algorithm says, and the largest changes."""
    lines = [f"{difference.a} -> {difference.b}: {_moved(difference)}", *difference.reasons]
    stops = difference.stops_at
    seed = f"stops at {stops}: not equivalent" if stops else "walks to the end: equivalent"
    lines.append(f"the seed's algorithm (tolerance {difference.tolerance:g}) {seed}")
    return "\n".join([*lines, "", printed(_changes(difference))])


def _moved(difference: Difference) -> str:
    if difference.reasons:
        return "cannot be told, because"
    moved = difference.moved
    return f"really moved: {', '.join(moved)}" if moved else "no stressor really moved"


def _ranking(profile: Profile) -> Table:
    from rich.table import Table
    from rich.text import Text

    enough = profile.trust.enough
    rest = len(profile.features) - SHOWN
    caption = f"{rest} more with --json" if rest > 0 else None
    if not enough:
        caption = "not enough diversity: this order means nothing" + (f"; {caption}" if caption else "")
    table = Table("stressor", "categories", caption=caption)
    for name in ("importance", "interval", "permutation"):
        table.add_column(name, justify="right")
    if not enough:
        table.add_column("trusted")
    for row in profile.features.head(SHOWN).to_dict("records"):
        cells = [
            Text(str(row["stressor"])),
            Text(str(row["categories"])),
            Text(_number(row["importance"], 0)),
            Text(_interval(row["low"], row["high"], 0)),
            Text(_number(row["permutation"], 0)),
        ]
        table.add_row(*cells, *([] if enough else ["no"]))
    return table


def _predictions(predictions: Sequence[Prediction]) -> Table:
    from rich.table import Table
    from rich.text import Text

    first = predictions[0]
    caption = "; ".join(
        dict.fromkeys(f"do not rely on it: {why}" for one in predictions for why in one.reasons)
    )
    table = Table("machine", caption=caption or None)
    table.add_column(f"predicted {first.metric}", justify="right")
    table.add_column(f"{first.confidence:.0%} interval", justify="right")
    for one in predictions:
        table.add_row(Text(one.machine), f"{one.value:.4g}", f"{one.low:.4g} to {one.high:.4g}")
    return table


def _changes(difference: Difference) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("stressor", caption="importances: most important = 100; p is adjusted for all stressors")
    for name in ("before", "after", "change", "p"):
        table.add_column(name, justify="right")
    table.add_column("really moved")
    for row in difference.features.head(SHOWN).to_dict("records"):
        table.add_row(
            Text(str(row["stressor"])),
            _number(row["importance_a"], 0),
            _number(row["importance_b"], 0),
            f"{row['change']:+.0f}",
            _number(row["p_value"], 3),
            "cannot be told" if difference.reasons else "yes" if row["moved"] else "no",
        )
    return table


def _number(value: float, digits: int = 2) -> str:
    return _UNKNOWN if math.isnan(value) else f"{value:.{digits}f}"


def _percent(share: float) -> str:
    return _UNKNOWN if math.isnan(share) else f"{share:.1%}"


def _interval(low: float, high: float, digits: int) -> str:
    return _UNKNOWN if math.isnan(low) else f"{low:.{digits}f} to {high:.{digits}f}"
