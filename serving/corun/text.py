"""Answers about co-runs as text for a terminal or a pipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from features.corun.rates import OTHERS, OWN
from serving.corun.model import Online, Static
from serving.corun.online import Sampled
from serving.corun.place import Placed, Put, Saving
from serving.corun.static import ALL, Driver, Explained, Predicted
from serving.models import ModelRef
from serving.pages.tables import printed

if TYPE_CHECKING:
    from rich.table import Table


def static_text(found: Predicted, static: Static) -> str:
    """Return how much slower, the interval, seconds where known, what drives it, and what to know."""
    asked = found.question
    parts = [
        f"{asked.task} beside {', '.join(asked.beside)} on {asked.machine}: {impact_text(found.impact)}",
        interval_text(found.low, found.high, found.confidence),
    ]
    if not math.isnan(found.solo_seconds):
        low, middle, high = (found.solo_seconds * one for one in (found.low, found.impact, found.high))
        parts.append(f"{found.solo_seconds:.4g} s alone, {middle:.4g} s together ({low:.4g} to {high:.4g} s)")
    parts += [f"note: {note}" for note in found.notes]
    if found.explained is not None:
        parts.append("\n" + explained_text(found, found.explained, static.ref))
        parts.append(printed(drivers_table(found.drivers)).rstrip())
    return "\n".join([*parts, model_text(static.ref), ""])


def explained_text(found: Predicted, explained: Explained, ref: ModelRef) -> str:
    """Say which co-run the drivers explain, and which model's answer about it."""
    corun, several = explained.question, len(found.question.beside)
    whole = several == len(corun.beside)
    strongest = "" if whole else f", the strongest of the {several} co-runners, alone"
    return (
        f"what drives it: of {corun.task} beside {', '.join(corun.beside)}{strongest} "
        f"(impact {explained.impact:.3f} by {ref.name} {ref.version})"
    )


def online_text(found: Sampled, online: Online) -> str:
    """Return how much slower the task gets, the interval, what drives it, and what to know about it."""
    parts = [
        f"{impact_text(found.impact)}, from {found.seconds:.1f} s of samples alone and together",
        interval_text(found.low, found.high, found.confidence),
        *(f"note: {note}" for note in found.notes),
    ]
    if found.drivers:
        table = drivers_table(found.drivers, ("together (1/s)", "alone (1/s)"), "an unchanged rate")
        parts.append("\n" + printed(table).rstrip())
    return "\n".join([*parts, model_text(online.ref), ""])


def place_text(found: Placed, static: Static) -> str:
    """Return the placement, its predicted total, and what it saves."""
    how = "no other has less" if found.exact else "found by exchanging tasks"
    first = (
        f"{len(found.tasks)} tasks on {found.room.machines} machines with {found.room.slots} slots each "
        f"({found.machine}): predicted slow-down {found.best.slowdown:.3f} in all, {how}"
    )
    lines = [first, *_run_times(found)]
    lines += [f"note: {note}" for note in found.notes]
    return "\n".join([*lines, "", printed(_placement(found.best)).rstrip(), model_text(static.ref), ""])


def _run_times(found: Placed) -> list[str]:
    """Say what is saved of run time; of slow-downs alone where a solo time is unknown."""
    random, worst = found.against_random, found.against_worst
    if random is None or worst is None:
        slower = f"at random {found.random.mean():.3f} on average, the worst {found.worst.slowdown:.3f}"
        return [slower, "run times are not known: not all tasks ran alone on that machine"]
    times = found.random_seconds
    low, high = np.quantile(times, (0.05, 0.95))
    draws = f"{times.mean():.4g} s on average over {len(times)} draws, 90% of them {low:.4g} to {high:.4g} s"
    return [
        f"{found.best.seconds:.4g} s of run time in all, predicted",
        f"{_saved(random)} than at random ({draws})",
        f"{_saved(worst)} than the worst ({found.worst.seconds:.4g} s)",
    ]


def _saved(saving: Saving) -> str:
    how = "less" if saving.seconds >= 0 else "more"
    return f"{abs(saving.seconds):.3g} s ({abs(saving.share):.1%} of run time) {how}"


def impact_text(impact: float) -> str:
    """Say how much slower in words and as a factor."""
    change = f"{impact - 1:.1%} slower" if impact >= 1 else f"{1 - impact:.1%} faster"
    return f"{change} (impact {impact:.3f})"


def interval_text(low: float, high: float, confidence: float) -> str:
    """Say what the interval of the impact is."""
    return f"{confidence:.0%} interval of the impact: {low:.3f} to {high:.3f}"


def model_text(ref: ModelRef) -> str:
    """Say which model answered."""
    return f"model {ref.name} {ref.version} ({ref.uri})"


def drivers_table(
    drivers: Sequence[Driver], columns: tuple[str, str] = ("here", "usual"), against: str = "the usual value"
) -> Table:
    """Return what drives the answer as a table."""
    from rich.table import Table
    from rich.text import Text

    table = Table("what drives it", caption=f"effect: against {against}")
    for name in (*columns, "effect"):
        table.add_column(name, justify="right")
    for one in drivers:
        table.add_row(
            Text(driver_name(one.feature)),
            _number(one.value),
            _number(one.usual),
            f"{one.contribution:+.1%}",
        )
    return table


def driver_name(feature: str) -> str:
    """Return a feature in words: whose rate, or whose solo time."""
    side, _, what = feature.partition("_")
    if f"{side}_" not in (OWN, OTHERS):
        return feature
    whose = "the task" if f"{side}_" == OWN else "the others"
    told = {"seconds": f"solo time of {whose} (s)", ALL: f"all that is known of {whose}"}
    return told.get(what, f"{what} of {whose} (1/s)")


def _placement(put: Put) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("machine", "tasks")
    for number, group in enumerate(put.groups, 1):
        table.add_row(str(number), Text(", ".join(group)))
    return table


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"
