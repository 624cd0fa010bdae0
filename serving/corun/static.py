"""Impact before a co-run, from solo runs of its tasks (seed 002, equation 1), and its explanation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from data.tables.problems import nearest
from features.corun.rates import MOST, OTHERS, OWN, Placed
from serving.corun.model import Static
from serving.corun.schemas import (
    CorunQuestion,
    ExplainedAnswer,
    ImpactDriverAnswer,
    ImpactShareAnswer,
    StaticAnswer,
    StaticPrediction,
)
from serving.http.schemas import finite
from training.corun.estimators.arrays import Way, split
from training.corun.estimators.fitting import Learned, named_of
from training.estimators.answering import model_answering, require_finite

Floats = NDArray[np.float64]
#: Number of listed drivers per co-run; the others of each side are summed up.
NAMED = 4
#: Suffixes of drivers: run times, other co-runs, and the sum of unlisted drivers of a side.
SECONDS, CORUNS, REST = "seconds", "coruns", "rest"
#: Number of drivers in an online answer.
REASONS = 3
#: Fields that are null without a prediction.
_UNTOLD = (
    *("impact", "low", "high", "solo_seconds"),
    *("corun_seconds", "corun_seconds_low", "corun_seconds_high"),
)
ONLINE_HINT = (
    "measure 2 s of it alone and of it beside them, and run: perfjudge corun online SOLO.csv CORUN.csv"
)


def some(names: Sequence[str], most: int = 4) -> str:
    """Return the first `most` names, and how many more exist."""
    more = len(names) - most
    listed = ", ".join(names[:most])
    return f"{listed} and {more} more" if more > 0 else listed


def ask(question: CorunQuestion, static: Static) -> StaticAnswer:
    """Predict one co-run; InputError for unknown tasks or machines."""
    prediction = _predict(question.task, *_resolve(question, static), static)
    return StaticAnswer(model=static.ref.answer, predictions=[prediction])


def ask_each(questions: Sequence[CorunQuestion], static: Static, notes: Sequence[str] = ()) -> StaticAnswer:
    """Predict co-runs in order; unknown tasks and machines give no impact, but a note with the reason."""
    predictions = []
    for question in questions:
        try:
            resolved = _resolve(question, static)
        except InputError as exc:
            predictions.append(
                StaticPrediction(
                    **dict.fromkeys(_UNTOLD),
                    confidence=static.card.confidence,
                    task=question.task,
                    corunners=sorted(question.corunners),
                    machine=question.machine,
                    drivers=[],
                    drivers_explain=[],
                    notes=[str(exc)],
                )
            )
        else:
            predictions.append(_predict(question.task, *resolved, static))
    return StaticAnswer(model=static.ref.answer, predictions=predictions, notes=list(notes))


def impacts(tasks: Sequence[str], machine: str, static: Static) -> Floats:
    """Return the impact of each task (column) on each task (row), shape (n_tasks, n_tasks)."""
    number = len(tasks)
    placed = Placed(
        [task for task in tasks for _ in range(number)],
        [(other,) for _ in range(number) for other in tasks],
        [machine] * number**2,
    )
    rows = static.known.rows(placed, static.card.features)
    return static.impacts(rows).reshape(number, number)


def machine_of(machine: str | None, static: Static) -> str:
    """Return the machine, by default the only known one; InputError if several are known."""
    known = sorted(static.known.on)
    if machine is None and len(known) != 1:
        raise InputError(f"knows {len(known)} machines, such as {_quoted(known)}; name one (--machine)")
    return known[0] if machine is None else machine


def require(tasks: Sequence[str], machine: str, static: Static) -> list[str]:
    """Return the machines with usable solo runs of all `tasks`: `machine` if known, else every such machine.

    InputError if a task has no solo run there.
    """
    on = static.known.on
    everywhere = sorted(frozenset().union(*on.values()))
    for task in tasks:
        if task not in everywhere:
            close = nearest(task, everywhere)
            hint = f'did you mean "{close}"?' if close else _quoted(everywhere)
            problem = f"has no solo run among the {len(everywhere)} that are known ({hint}); {ONLINE_HINT}"
            raise InputError(problem, place=f'task "{task}"')
    if machine in on:
        for task in tasks:
            if task not in on[machine]:
                others = [name for name in on if task in on[name]]
                problem = f'has no solo run on "{machine}", but on {_quoted(others)}; {ONLINE_HINT}'
                raise InputError(problem, place=f'task "{task}"')
        return [machine]
    machines = [name for name, names in on.items() if names.issuperset(tasks)]
    if not machines:
        raise InputError(f"no machine has solo runs of all of {', '.join(dict.fromkeys(tasks))}")
    return machines


def _resolve(question: CorunQuestion, static: Static) -> tuple[tuple[str, ...], str, list[str]]:
    """Return the sorted co-runners, the machine, and the machines whose solo runs are used."""
    machine, corunners = machine_of(question.machine, static), tuple(sorted(question.corunners))
    return corunners, machine, require([question.task, *corunners], machine, static)


def _predict(
    task: str, corunners: tuple[str, ...], machine: str, sources: list[str], static: Static
) -> StaticPrediction:
    # pairs are added up where the model has seen fewer co-runners
    is_sum = len(corunners) > 1 and "beside" not in static.card.features
    parts = [(other,) for other in corunners] if is_sum else [corunners]
    by_part = []
    for part in parts:
        placed = Placed([task] * len(sources), [part] * len(sources), list(sources))
        by_part.append(static.impacts(static.known.rows(placed, static.card.features)))
    candidates = 1 + np.sum([values - 1 for values in by_part], axis=0) if is_sum else by_part[0]
    # an unknown machine gets the lower median of the known machines, whose drivers add up
    middle = int(np.argsort(candidates, kind="stable")[(len(candidates) - 1) // 2])
    impact = float(candidates[middle])
    width, notes = _width([task, *corunners], machine, sources, static, is_sum=is_sum)
    with model_answering(static.card.model):
        low, high = impact / np.exp(width), impact * np.exp(width)
    require_finite(static.card.model, "impact", low, high)
    explanations = [explained(task, part, sources[middle], static) for part in parts]
    seconds = static.known.seconds(machine, task)
    return StaticPrediction(
        impact=impact,
        low=low,
        high=high,
        confidence=static.card.confidence,
        task=task,
        corunners=list(corunners),
        machine=machine,
        solo_seconds=finite(seconds),
        corun_seconds=finite(seconds * impact),
        corun_seconds_low=finite(seconds * low),
        corun_seconds_high=finite(seconds * high),
        drivers=sorted((driver for _, drivers in explanations for driver in drivers), key=strength),
        drivers_explain=[explanation for explanation, _ in explanations],
        notes=notes,
    )


def _width(
    tasks: list[str], machine: str, sources: list[str], static: Static, *, is_sum: bool
) -> tuple[float, list[str]]:
    """Return half the width of the interval of log impact, and notes on why it is wider."""
    card = static.card
    width, notes = card.half_width(machine, tasks), []
    strangers = [task for task in dict.fromkeys(tasks) if task not in card.tasks]
    if strangers:
        notes.append(f"the model was not trained on {', '.join(strangers)}: the interval is wider for it")
    if machine not in card.machines:
        note = f'the model was not trained on the machine "{machine}": the interval is wider for it'
        if machine not in static.known.on:
            note += f"; the solo runs are those of {_quoted(sources)}"
        notes.append(note)
    if is_sum:
        # not measured by any split, so the width is that of a machine unlike the training data
        width = max(width, 2 * max(card.half_widths.values()))
        notes.append(
            f"the model has seen no task beside {len(tasks) - 1} others: the slow-downs by each are "
            "added up, and the interval is wider for it"
        )
    return width, notes


def _quoted(names: Sequence[str]) -> str:
    return some([f'"{name}"' for name in names], 5)


def explained(
    task: str, beside: tuple[str, ...], machine: str, static: Static
) -> tuple[ExplainedAnswer, list[ImpactShareAnswer]]:
    """Return the reference co-run of an explanation, and the contributions of the strongest drivers."""
    columns, events = static.card.features, frozenset(static.known.events)
    row = static.known.rows(Placed([task], [beside], [machine]), columns)
    usual = static.known.usual(machine, len(beside), columns)
    values = row[list(columns)].to_numpy(np.float64)[0]
    owners = [_driver_of(column, events) for column in columns]
    # the run times of both sides together have the name ""
    names = [*dict.fromkeys([f"{OWN}{SECONDS}", f"{OTHERS}{SECONDS}", *filter(None, owners)]), ""]
    places = np.array([names.index(owner) for owner in owners], np.intp)
    model = Learned(static.quick().model, columns)
    with model_answering(static.card.model):
        parts = split(model, Way(values, usual, places, len(names), named_of(row)))
        numbers = parts.impact, parts.usual, parts.points, parts.shares, parts.own.share, parts.others.share
        require_finite(static.card.model, "contribution", *numbers)
    shares = dict(zip(names, parts.shares.tolist(), strict=True))
    both_times = shares.pop("")
    for side in (OWN, OTHERS):
        shares[f"{side}{SECONDS}"] += both_times / 2
    seen = dict(zip(columns, zip(values.tolist(), usual.tolist(), strict=True), strict=True))
    drivers = []
    for name, share in shares.items():
        value, typical = seen.get(name, (np.nan, np.nan))
        if name.endswith(f"_{SECONDS}"):
            # the features are logarithms of times
            value, typical = np.exp(value), np.exp(typical)
        drivers.append(_share(name, value, typical, share * parts.points, beside))
    for side, other in ((OWN, parts.own), (OTHERS, parts.others)):
        drivers.append(
            _share(f"{side}{CORUNS}", other.value, other.usual, other.share * parts.points, beside)
        )
    explanation = ExplainedAnswer(
        corunners=list(beside),
        machine=machine,
        impact=float(np.exp(parts.impact)),
        model=f"{static.ref.name} {static.ref.version}",
        usual_impact=float(np.exp(parts.usual)),
        own=_sum_of_side(OWN, drivers),
        others=_sum_of_side(OTHERS, drivers),
    )
    ranked = sorted(drivers, key=strength)
    rest = [
        _share(f"{side}{REST}", np.nan, np.nan, _sum_of_side(side, ranked[NAMED:]), beside)
        for side in (OTHERS, OWN)
    ]
    return explanation, [driver for driver in (*ranked[:NAMED], *rest) if driver.contribution]


def strength(share: ImpactShareAnswer) -> tuple[bool, float, str]:
    """Return the sort key of drivers: the strongest first, remainders last."""
    return share.feature.endswith(f"_{REST}"), -abs(share.contribution), share.feature


def _driver_of(column: str, events: frozenset[str]) -> str:
    """Return the driver of a feature: a rate or the run times of a side; empty: run times of both sides."""
    for prefix, side in ((OWN, OWN), (OTHERS, OTHERS), (MOST, OTHERS)):
        if column.startswith(prefix):
            event = column.removeprefix(prefix)
            return f"{side}{event if event in events else SECONDS}"
    return ""


def _share(
    feature: str, value: float, usual: float, contribution: float, beside: Sequence[str]
) -> ImpactShareAnswer:
    return ImpactShareAnswer(
        feature=feature, value=value, usual=usual, contribution=contribution, corunners=list(beside)
    )


def _sum_of_side(side: str, shares: Sequence[ImpactShareAnswer]) -> float:
    return float(sum(share.contribution for share in shares if share.feature.startswith(side)))


def strongest(drivers: Sequence[ImpactDriverAnswer]) -> list[ImpactDriverAnswer]:
    """Return at most `REASONS` drivers with non-zero contributions, the largest factor first."""
    ranked = sorted(drivers, key=lambda driver: (-abs(np.log1p(driver.contribution)), driver.feature))
    return [driver for driver in ranked[:REASONS] if driver.contribution]
