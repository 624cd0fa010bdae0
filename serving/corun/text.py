"""Answers about co-runs as text for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Sequence

from features.corun.rates import OTHERS, OWN
from serving.corun.schemas import (
    CheckedAnswer,
    Estimate,
    ExplainedAnswer,
    ImpactDriverAnswer,
    ImpactShareAnswer,
    OnlineAnswer,
    OnlineOpinion,
    PlaceAnswer,
    SavingAnswer,
    StaticAnswer,
    StaticPrediction,
)
from serving.corun.static import CORUNS, REST, SECONDS
from serving.http.schemas import ModelAnswer
from serving.reports.text_tables import tabulated

_SHARES = ("here", "usual", "adds")
_ADDED = "adds: to the impact of the usual co-run; they sum to the impact"


def static_text(answer: StaticAnswer) -> str:
    """Return a static answer as text: impact, interval, seconds where known, drivers and notes."""
    (found,) = answer.predictions
    told = [
        f"{found.task} beside {', '.join(found.corunners)} on {found.machine}: {impact_text(found.impact)}",
        interval_text(found),
    ]
    if found.solo_seconds is not None:
        low, middle, high = (found.corun_seconds_low, found.corun_seconds, found.corun_seconds_high)
        told.append(f"{found.solo_seconds:.4g} s alone, {middle:.4g} s together ({low:.4g} to {high:.4g} s)")
    drivers = [shares_text(found)] if found.drivers else []
    return _text(told, found.notes, drivers, answer.model)


def shares_text(found: StaticPrediction) -> str:
    """Return the drivers of a prediction as a table, after the sum for each explained co-run."""
    several = len(found.drivers_explain) > 1
    sums = [
        f"{found.task} beside {_others(one)}: {one.impact:.3f} is {one.usual_impact:.3f} (the usual co-run) "
        f"{one.own:+.3f} (by what is known of {found.task}) {one.others:+.3f} (of {_others(one)})"
        for one in found.drivers_explain
    ]
    rows = [
        (
            driver_name(one.feature) + (f", beside {_others(one)}" if several else ""),
            _number(one.value), _number(one.usual), f"{one.contribution:+.4f}",
        )
        for one in found.drivers
    ]  # fmt: skip
    table = tabulated(("what drives it", *_SHARES), rows, numbers=_SHARES, caption=_ADDED).rstrip()
    return "\n".join([*sums, table])


def _others(told: ExplainedAnswer | ImpactShareAnswer) -> str:
    return ", ".join(told.corunners)


def online_text(found: OnlineAnswer) -> str:
    """Return an online answer as text: impact, interval, drivers and notes."""
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
    """Return the placement, its predicted total, and the time saved."""
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
    """Join lines, notes and tables, and name the model."""
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
        *([_checked(found.checked)] if found.checked else []),
    ]


def _checked(checked: CheckedAnswer) -> str:
    promised = f"; {checked.predicted.share:.1%} was predicted" if checked.predicted else ""
    return (
        f"when such a plan was run ({checked.tasks} tasks): {_saved(checked.saved_against_random)} "
        f"than {checked.draws} placements at random{promised}"
    )


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
    """Return the prediction interval of the impact in words."""
    return f"{found.confidence:.0%} interval of the impact: {found.low:.3f} to {found.high:.3f}"


def drivers_table(
    drivers: Sequence[ImpactDriverAnswer],
    columns: tuple[str, str] = ("here", "usual"),
    against: str = "the usual value",
) -> str:
    """Return the drivers as a text table."""
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
    told = {
        SECONDS: f"solo time of {whose} (s)",
        CORUNS: f"what other co-runs of {whose} showed",
        REST: f"all else that is known of {whose}",
    }
    return told.get(what, f"{what} of {whose} (1/s)")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
