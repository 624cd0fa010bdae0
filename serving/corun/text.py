"""Answers about co-runs as text for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Sequence

from features.corun.rates import OTHERS, OWN
from serving.corun.schemas import (
    Estimate,
    ExplainedAnswer,
    ImpactDriverAnswer,
    OnlineAnswer,
    OnlineOpinion,
    PlaceAnswer,
    SavingAnswer,
    StaticAnswer,
    StaticPrediction,
)
from serving.corun.static import ALL
from serving.doors.schemas import ModelAnswer
from serving.pages.tables import tabulated


def static_text(answer: StaticAnswer) -> str:
    """Return how much slower, the interval, seconds where known, what drives it, and what to know."""
    (found,) = answer.predictions
    told = [
        f"{found.task} beside {', '.join(found.corunners)} on {found.machine}: {impact_text(found.impact)}",
        interval_text(found),
    ]
    if found.solo_seconds is not None:
        low, middle, high = (found.corun_seconds_low, found.corun_seconds, found.corun_seconds_high)
        told.append(f"{found.solo_seconds:.4g} s alone, {middle:.4g} s together ({low:.4g} to {high:.4g} s)")
    explained = found.drivers_explain
    drivers = [explained_text(found, explained), drivers_table(found.drivers)] if explained else []
    return _text(told, found.notes, drivers, answer.model)


def explained_text(found: StaticPrediction, explained: ExplainedAnswer) -> str:
    """Say which co-run the drivers explain, and which model's answer about it."""
    several = len(found.corunners)
    whole = several == len(explained.corunners)
    strongest = "" if whole else f", the strongest of the {several} co-runners, alone"
    return (
        f"what drives it: of {found.task} beside {', '.join(explained.corunners)}{strongest} "
        f"(impact {explained.impact:.3f} by {explained.model})"
    )


def online_text(found: OnlineAnswer) -> str:
    """Return how much slower the task gets, the interval, what drives it, and what to know about it."""
    told = [
        f"{impact_text(found.impact)}, from {found.sampled_seconds:.1f} s of samples alone and together",
        interval_text(found),
    ]
    told += [opinion_text(one) for one in found.opinions if one.so_far is not None]
    columns = ("together (1/s)", "alone (1/s)")
    drivers = [drivers_table(found.drivers, columns, "an unchanged rate")] if found.drivers else []
    return _text(told, found.notes, drivers, found.model)


def opinion_text(told: OnlineOpinion) -> str:
    """Say how much slower it was so far, and how much of the run alone that is."""
    share = "" if told.seen is None else f", {told.seen:.0%} of the run alone"
    return f"so far, by {told.by}: {impact_text(told.so_far)}{share}"


def settling_text(found: OnlineAnswer) -> str:
    """Return the answer in a line, while it settles."""
    told = f"{found.sampled_seconds:.1f} s: {impact_text(found.impact)}, {found.low:.3f} to {found.high:.3f}"
    seen = next((one.seen for one in found.opinions if one.seen is not None), None)
    return told if seen is None else f"{told}, {seen:.0%} done"


def place_text(found: PlaceAnswer) -> str:
    """Return the placement, its predicted total, and what it saves."""
    best = found.placements[0]
    how = "no other has less" if found.exact else "found by exchanging tasks"
    first = (
        f"{sum(map(len, best.groups))} tasks on {found.machines} machines with {found.slots} slots each "
        f"({found.machine}): predicted slow-down {best.slowdown:.3f} in all, {how}"
    )
    rows = [(str(number), ", ".join(group)) for number, group in enumerate(best.groups, 1)]
    placement = tabulated(("machine", "tasks"), rows).rstrip()
    return _text([first, *_run_times(found)], found.notes, [placement], found.model)


def _text(told: Sequence[str], notes: Sequence[str], tables: Sequence[str], model: ModelAnswer) -> str:
    """Return what is told, what to know about it, tables after an empty line, and which model answered."""
    lines = [*told, *(f"note: {note}" for note in notes), *([""] if tables else []), *tables]
    return "\n".join([*lines, f"model {model.name} {model.version} ({model.uri})", ""])


def _run_times(found: PlaceAnswer) -> list[str]:
    """Say what is saved of run time; of slow-downs alone where a solo time is unknown."""
    random, best, worst = found.random, found.placements[0], found.placements[-1]
    if found.saved_against_random is None or found.saved_against_worst is None:
        slower = f"at random {random.mean:.3f} on average, the worst {worst.slowdown:.3f}"
        return [slower, "run times are not known: not all tasks ran alone on that machine"]
    draws = (
        f"{random.seconds:.4g} s on average over {random.draws} draws, "
        f"90% of them {random.seconds_low:.4g} to {random.seconds_high:.4g} s"
    )
    return [
        f"{best.seconds:.4g} s of run time in all, predicted",
        f"{_saved(found.saved_against_random)} than at random ({draws})",
        f"{_saved(found.saved_against_worst)} than the worst ({worst.seconds:.4g} s)",
    ]


def _saved(saving: SavingAnswer) -> str:
    how = "less" if saving.seconds >= 0 else "more"
    return f"{abs(saving.seconds):.3g} s ({abs(saving.share):.1%} of run time) {how}"


def impact_text(impact: float | None) -> str:
    """Say how much slower in words and as a factor."""
    if impact is None:
        return "nothing can be told"
    change = f"{impact - 1:.1%} slower" if impact >= 1 else f"{1 - impact:.1%} faster"
    return f"{change} (impact {impact:.3f})"


def interval_text(found: Estimate) -> str:
    """Say what the interval of the impact is."""
    return f"{found.confidence:.0%} interval of the impact: {found.low:.3f} to {found.high:.3f}"


def drivers_table(
    drivers: Sequence[ImpactDriverAnswer],
    columns: tuple[str, str] = ("here", "usual"),
    against: str = "the usual value",
) -> str:
    """Return what drives the answer as a table."""
    numbers = (*columns, "effect")
    rows = [
        (driver_name(one.feature), _number(one.value), _number(one.usual), f"{one.contribution:+.1%}")
        for one in drivers
    ]
    caption = f"effect: against {against}"
    return tabulated(("what drives it", *numbers), rows, numbers=numbers, caption=caption).rstrip()


def driver_name(feature: str) -> str:
    """Return a feature in words: whose rate, or whose solo time."""
    side, _, what = feature.partition("_")
    if f"{side}_" not in (OWN, OTHERS):
        return feature
    whose = "the task" if f"{side}_" == OWN else "the others"
    told = {"seconds": f"solo time of {whose} (s)", ALL: f"all that is known of {whose}"}
    return told.get(what, f"{what} of {whose} (1/s)")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
