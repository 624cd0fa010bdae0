"""Answers about co-runs as text."""

from __future__ import annotations

from collections.abc import Sequence

from features.corun.rates import OTHERS, OWN
from serving.corun.schemas import (
    Estimate,
    ImpactDriverAnswer,
    ImpactShareAnswer,
    OnlineAnswer,
    PlaceAnswer,
    SavingAnswer,
    StaticAnswer,
    StaticPrediction,
)
from serving.corun.static import CORUNS, REST, SECONDS
from serving.http.schemas import ModelAnswer
from serving.reports.text_tables import text_table

_SHARES = ("here", "usual", "adds")
_ADDED = "adds: to the impact of the usual co-run; they sum to the impact"


def static_text(answer: StaticAnswer) -> str:
    """Return an answer as text: impact, interval, seconds if known, notes, contributions and model.

    ValueError unless it has exactly one prediction; TypeError if the prediction has no impact.
    """
    (prediction,) = answer.predictions
    others = ", ".join(prediction.corunners)
    lines = [
        f"{prediction.task} beside {others} on {prediction.machine}: {impact_text(prediction.impact)}",
        interval_text(prediction),
    ]
    if prediction.solo_seconds is not None:
        lines.append(
            f"{prediction.solo_seconds:.4g} s alone, {prediction.corun_seconds:.4g} s together "
            f"({prediction.corun_seconds_low:.4g} to {prediction.corun_seconds_high:.4g} s)"
        )
    attributions = [shares_text(prediction)] if prediction.attributions else []
    return _join_text(lines, [*answer.notes, *prediction.notes], attributions, answer.model)


def shares_text(prediction: StaticPrediction) -> str:
    """Return a line per explained co-run of a prediction, then one table of all contributions.

    A line has the impact as a sum; there are several if the slow-downs by single co-runners were added up.
    """
    several = len(prediction.drivers_explain) > 1
    sums = []
    for part in prediction.drivers_explain:
        others = ", ".join(part.corunners)
        sums.append(
            f"{prediction.task} beside {others}: {part.impact:.3f} is {part.usual_impact:.3f} "
            f"(the usual co-run) {part.own:+.3f} (by {prediction.task}) {part.others:+.3f} (by {others})"
        )
    rows = []
    for driver in prediction.attributions:
        beside = f", beside {', '.join(driver.corunners)}" if several else ""
        rows.append(_driver_row(driver, beside, f"{driver.contribution:+.4f}"))
    table = text_table(("what drives it", *_SHARES), rows, numbers=_SHARES, caption=_ADDED).rstrip()
    return "\n".join([*sums, table])


def online_text(answer: OnlineAnswer) -> str:
    """Return an online answer as text: impact, interval, estimates so far, notes, attributions and model.

    TypeError if it has no impact.
    """
    lines = [
        f"{impact_text(answer.impact)}, from {answer.sampled_seconds:.1f} s of samples alone and together",
        interval_text(answer),
    ]
    for opinion in answer.opinions:
        if opinion.so_far is not None:
            share = "" if opinion.seen is None else f", {opinion.seen:.0%} of the run alone"
            lines.append(f"so far, by {opinion.by}: {impact_text(opinion.so_far)}{share}")
    numbers = ("together (1/s)", "alone (1/s)", "effect")
    rows = [_driver_row(driver, "", f"{driver.contribution:+.1%}") for driver in answer.attributions]
    caption = "effect: against an unchanged rate"
    table = text_table(("what drives it", *numbers), rows, numbers=numbers, caption=caption).rstrip()
    return _join_text(lines, answer.notes, [table] if rows else [], answer.model)


def settling_text(answer: OnlineAnswer) -> str:
    """Return an early answer as a line, ``3.0 s: 12.0% slower (impact 1.120), 1.050 to 1.210, 40% done``.

    An unknown share of the run is left out. TypeError without an interval.
    """
    interval = f"{answer.low:.3f} to {answer.high:.3f}"
    line = f"{answer.sampled_seconds:.1f} s: {impact_text(answer.impact)}, {interval}"
    seen = next((opinion.seen for opinion in answer.opinions if opinion.seen is not None), None)
    return line if seen is None else f"{line}, {seen:.0%} done"


def place_text(plan: PlaceAnswer) -> str:
    """Return the best placement as text, with the predicted savings and the measured one, if known."""
    best = plan.placements[0]
    search = "no other has less" if plan.exact else "found by exchanging tasks"
    first = (
        f"{sum(map(len, best.groups))} tasks on {plan.machines} machines with {plan.slots} slots each "
        f"({plan.machine}): predicted slow-down {best.slowdown:.3f} in all, {search}"
    )
    rows = [(str(number), ", ".join(group)) for number, group in enumerate(best.groups, 1)]
    placement = text_table(("machine", "tasks"), rows).rstrip()
    return _join_text([first, *_run_times(plan)], plan.notes, [placement], plan.model)


def _join_text(lines: Sequence[str], notes: Sequence[str], tables: Sequence[str], model: ModelAnswer) -> str:
    parts = [*lines, *(f"note: {note}" for note in notes), *([""] if tables else []), *tables]
    return "\n".join([*parts, f"model {model.name} {model.version} ({model.uri})", ""])


def _run_times(plan: PlaceAnswer) -> list[str]:
    random, best, worst = plan.random, plan.placements[0], plan.placements[-1]
    if plan.saved_against_random is None or plan.saved_against_worst is None:
        slower = f"at random {random.mean:.3f} on average, the worst {worst.slowdown:.3f}"
        return [slower, "run times are unknown: not all tasks ran alone on that machine"]
    draws = (
        f"{random.seconds:.4g} s on average over {random.draws} draws, "
        f"90% of them {random.seconds_low:.4g} to {random.seconds_high:.4g} s"
    )
    lines = [
        f"{best.seconds:.4g} s of run time in all, predicted",
        f"{_saving_text(plan.saved_against_random)} than at random ({draws})",
        f"{_saving_text(plan.saved_against_worst)} than the worst by slow-down ({worst.seconds:.4g} s)",
    ]
    if plan.checked:
        checked = plan.checked
        promised = f"; {checked.predicted.share:.1%} was predicted" if checked.predicted else ""
        lines.append(
            f"when such a plan was run ({checked.tasks} tasks): {_saving_text(checked.saved_against_random)} "
            f"than {checked.draws} placements at random{promised}"
        )
    return lines


def _saving_text(saving: SavingAnswer) -> str:
    sign = "less" if saving.seconds >= 0 else "more"
    return f"{abs(saving.seconds):.3g} s ({abs(saving.share):.1%} of run time) {sign}"


def impact_text(impact: float | None) -> str:
    """Return an impact as text: ``12.0% slower (impact 1.120)``, or ``faster``; None: ``no prediction``."""
    if impact is None:
        return "no prediction"
    change = f"{impact - 1:.1%} slower" if impact >= 1 else f"{1 - impact:.1%} faster"
    return f"{change} (impact {impact:.3f})"


def interval_text(estimate: Estimate) -> str:
    """Return the prediction interval of an impact as text; TypeError if `estimate` has none."""
    return f"{estimate.confidence:.0%} interval of the impact: {estimate.low:.3f} to {estimate.high:.3f}"


def driver_name(feature: str) -> str:
    """Return a feature's name as text: ``own_cycles`` becomes "cycles of the task (1/s)".

    A name without ``own_`` or ``others_`` is returned as it is.
    """
    side, _, quantity = feature.partition("_")
    if f"{side}_" not in (OWN, OTHERS):
        return feature
    owner = "the task" if f"{side}_" == OWN else "the others"
    texts = {
        SECONDS: f"solo time of {owner} (s)",
        CORUNS: f"other co-runs of {owner}",
        REST: f"all other features of {owner}",
    }
    return texts.get(quantity, f"{quantity} of {owner} (1/s)")


def _driver_row(
    driver: ImpactShareAnswer | ImpactDriverAnswer, remark: str, contribution: str
) -> tuple[str, ...]:
    numbers = ("-" if value is None else f"{value:.4g}" for value in (driver.value, driver.usual))
    return driver_name(driver.feature) + remark, *numbers, contribution
