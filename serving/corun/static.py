"""Impact before a co-run, from solo runs of its tasks (co-run paper, equation 1), and its explanation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from data.tables.problems import nearest_name
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
from serving.http.schemas import finite_or_none
from training.corun.estimators.arrays import CorunContrast, split_log_impact
from training.corun.estimators.fitting import FittedImpact, named_of
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


def shorten_names(names: Sequence[str], max_names: int = 4) -> str:
    """Return the first `max_names` names, joined by commas, and the number of others."""
    more = len(names) - max_names
    listed = ", ".join(names[:max_names])
    return f"{listed} and {more} more" if more > 0 else listed


def predict_corun(question: CorunQuestion, static: Static) -> StaticAnswer:
    """Return the prediction for one co-run; InputError if a task or the machine is unknown."""
    prediction = _predict_impact(question.task, *_resolve_question(question, static), static)
    return StaticAnswer(model=static.ref.model_answer, predictions=[prediction])


def predict_coruns(
    questions: Sequence[CorunQuestion], static: Static, notes: Sequence[str] = ()
) -> StaticAnswer:
    """Predict co-runs in order; unknown tasks and machines give no impact, but a note with the reason."""
    predictions = []
    for question in questions:
        try:
            resolved = _resolve_question(question, static)
        except InputError as exc:
            predictions.append(
                StaticPrediction(
                    **dict.fromkeys(_UNTOLD),
                    confidence=static.card.confidence,
                    task=question.task,
                    corunners=sorted(question.corunners),
                    machine=question.machine,
                    attributions=[],
                    drivers_explain=[],
                    notes=[str(exc)],
                )
            )
        else:
            predictions.append(_predict_impact(question.task, *resolved, static))
    return StaticAnswer(model=static.ref.model_answer, predictions=predictions, notes=list(notes))


def impact_matrix(tasks: Sequence[str], machine: str, static: Static) -> Floats:
    """Return the impact of each co-runner (column) on each task (row), shape (n_tasks, n_tasks).

    On the diagonal, a task runs beside a second copy of itself.
    """
    number = len(tasks)
    placed = Placed(
        [task for task in tasks for _ in range(number)],
        [(other,) for _ in range(number) for other in tasks],
        [machine] * number**2,
    )
    rows = static.known_tasks.corun_features(placed, static.card.features)
    return static.predict_impacts(rows).reshape(number, number)


def resolve_machine(machine: str | None, static: Static) -> str:
    """Return `machine`, or if None the only known one; InputError if then several or none are known."""
    known_machines = sorted(static.known_tasks.tasks_by_machine)
    if machine is None and len(known_machines) != 1:
        raise InputError(
            f"knows {len(known_machines)} machines, such as {_quote_names(known_machines)}; name one "
            "(--machine)"
        )
    return known_machines[0] if machine is None else machine


def source_machines(tasks: Sequence[str], machine: str, static: Static) -> list[str]:
    """Return the machines with usable solo runs of all `tasks`: `machine` if known, else every such machine.

    InputError if a task has no solo run on them, or no machine has solo runs of all.
    """
    on = static.known_tasks.tasks_by_machine
    everywhere = sorted(frozenset().union(*on.values()))
    for task in tasks:
        if task not in everywhere:
            close = nearest_name(task, everywhere)
            hint = f'did you mean "{close}"?' if close else _quote_names(everywhere)
            problem = f"has no solo run among the {len(everywhere)} that are known ({hint}); {ONLINE_HINT}"
            raise InputError(problem, place=f'task "{task}"')
    if machine in on:
        for task in tasks:
            if task not in on[machine]:
                others = [name for name in on if task in on[name]]
                problem = f'has no solo run on "{machine}", but on {_quote_names(others)}; {ONLINE_HINT}'
                raise InputError(problem, place=f'task "{task}"')
        return [machine]
    machines = [name for name, names in on.items() if names.issuperset(tasks)]
    if not machines:
        raise InputError(f"no machine has solo runs of all of {', '.join(dict.fromkeys(tasks))}")
    return machines


def _resolve_question(question: CorunQuestion, static: Static) -> tuple[tuple[str, ...], str, list[str]]:
    """Return the sorted co-runners, the machine, and the machines whose solo runs are used."""
    machine, corunners = resolve_machine(question.machine, static), tuple(sorted(question.corunners))
    return corunners, machine, source_machines([question.task, *corunners], machine, static)


def _predict_impact(
    task: str, corunners: tuple[str, ...], machine: str, sources: list[str], static: Static
) -> StaticPrediction:
    # pairs are added up where the model has seen fewer co-runners
    is_sum = len(corunners) > 1 and "beside" not in static.card.features
    parts = [(other,) for other in corunners] if is_sum else [corunners]
    by_part = []
    for part in parts:
        placed = Placed([task] * len(sources), [part] * len(sources), list(sources))
        by_part.append(
            static.predict_impacts(static.known_tasks.corun_features(placed, static.card.features))
        )
    candidates = 1 + np.sum([values - 1 for values in by_part], axis=0) if is_sum else by_part[0]
    # an unknown machine gets the lower median of the known machines, whose drivers add up
    middle = int(np.argsort(candidates, kind="stable")[(len(candidates) - 1) // 2])
    impact = float(candidates[middle])
    width, notes = _interval_half_width([task, *corunners], machine, sources, static, is_sum=is_sum)
    with model_answering(static.card.model):
        low, high = impact / np.exp(width), impact * np.exp(width)
    require_finite(static.card.model, "impact", low, high)
    explanations = [explain_corun(task, part, sources[middle], static) for part in parts]
    seconds = static.known_tasks.solo_seconds(machine, task)
    return StaticPrediction(
        impact=impact,
        low=low,
        high=high,
        confidence=static.card.confidence,
        task=task,
        corunners=list(corunners),
        machine=machine,
        solo_seconds=finite_or_none(seconds),
        corun_seconds=finite_or_none(seconds * impact),
        corun_seconds_low=finite_or_none(seconds * low),
        corun_seconds_high=finite_or_none(seconds * high),
        attributions=sorted(
            (driver for _, attributions in explanations for driver in attributions), key=strength_key
        ),
        drivers_explain=[explanation for explanation, _ in explanations],
        notes=notes,
    )


def _interval_half_width(
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
        if machine not in static.known_tasks.tasks_by_machine:
            note += f"; the solo runs are those of {_quote_names(sources)}"
        notes.append(note)
    if is_sum:
        # not measured by any split, so the width is that of a machine unlike the training data
        width = max(width, 2 * max(card.half_widths.values()))
        notes.append(
            f"the model has seen no task beside {len(tasks) - 1} others: the slow-downs by each are "
            "added up, and the interval is wider for it"
        )
    return width, notes


def _quote_names(names: Sequence[str]) -> str:
    return shorten_names([f'"{name}"' for name in names], 5)


def explain_corun(
    task: str, corunners: tuple[str, ...], machine: str, static: Static
) -> tuple[ExplainedAnswer, list[ImpactShareAnswer]]:
    """Return the sums of a prediction's explanation, and the contributions to the impact.

    The `NAMED` strongest come first, then the sum of the others of each side unless it is 0. ModelError if
    the model gives no finite contributions.
    """
    columns, events = static.card.features, frozenset(static.known_tasks.counted_events)
    row = static.known_tasks.corun_features(Placed([task], [corunners], [machine]), columns)
    usual = static.known_tasks.usual_features(machine, len(corunners), columns)
    values = row[list(columns)].to_numpy(np.float64)[0]
    owners = [_driver_of(column, events) for column in columns]
    # the run times of both sides together have the name ""
    names = [*dict.fromkeys([f"{OWN}{SECONDS}", f"{OTHERS}{SECONDS}", *filter(None, owners)]), ""]
    positions = np.array([names.index(owner) for owner in owners], np.intp)
    model = FittedImpact(static.quick().model, columns)
    with model_answering(static.card.model):
        parts = split_log_impact(model, CorunContrast(values, usual, positions, len(names), named_of(row)))
        numbers = (
            parts.impact,
            parts.usual,
            parts.points_per_log_share,
            parts.shares,
            parts.of_task.share,
            parts.of_corunners.share,
        )
        require_finite(static.card.model, "contribution", *numbers)
    shares = dict(zip(names, parts.shares.tolist(), strict=True))
    both_times = shares.pop("")
    for side in (OWN, OTHERS):
        shares[f"{side}{SECONDS}"] += both_times / 2
    seen = dict(zip(columns, zip(values.tolist(), usual.tolist(), strict=True), strict=True))
    attributions = []
    for name, share in shares.items():
        value, typical = seen.get(name, (np.nan, np.nan))
        if name.endswith(f"_{SECONDS}"):
            # the features are logarithms of times
            value, typical = np.exp(value), np.exp(typical)
        attributions.append(
            _impact_share(name, value, typical, share * parts.points_per_log_share, corunners)
        )
    for side, other in ((OWN, parts.of_task), (OTHERS, parts.of_corunners)):
        attributions.append(
            _impact_share(
                f"{side}{CORUNS}",
                other.value,
                other.usual,
                other.share * parts.points_per_log_share,
                corunners,
            )
        )
    explanation = ExplainedAnswer(
        corunners=list(corunners),
        machine=machine,
        impact=float(np.exp(parts.impact)),
        model=f"{static.ref.name} {static.ref.version}",
        usual_impact=float(np.exp(parts.usual)),
        own=_sum_of_side(OWN, attributions),
        others=_sum_of_side(OTHERS, attributions),
    )
    ranked = sorted(attributions, key=strength_key)
    rest = [
        _impact_share(f"{side}{REST}", np.nan, np.nan, _sum_of_side(side, ranked[NAMED:]), corunners)
        for side in (OTHERS, OWN)
    ]
    return explanation, [driver for driver in (*ranked[:NAMED], *rest) if driver.contribution]


def strength_key(share: ImpactShareAnswer) -> tuple[bool, float, str]:
    """Return the sort key of contributions: largest absolute value first, ties by name.

    The sums of unlisted features (``own_rest``, ``others_rest``) come last.
    """
    return share.feature.endswith(f"_{REST}"), -abs(share.contribution), share.feature


def _driver_of(column: str, events: frozenset[str]) -> str:
    """Return the driver of a feature: a rate or the run times of a side; empty: run times of both sides."""
    for prefix, side in ((OWN, OWN), (OTHERS, OTHERS), (MOST, OTHERS)):
        if column.startswith(prefix):
            event = column.removeprefix(prefix)
            return f"{side}{event if event in events else SECONDS}"
    return ""


def _impact_share(
    feature: str, value: float, usual: float, contribution: float, corunners: Sequence[str]
) -> ImpactShareAnswer:
    return ImpactShareAnswer(
        feature=feature, value=value, usual=usual, contribution=contribution, corunners=list(corunners)
    )


def _sum_of_side(side: str, shares: Sequence[ImpactShareAnswer]) -> float:
    return float(sum(share.contribution for share in shares if share.feature.startswith(side)))


def strongest_attributions(attributions: Sequence[ImpactDriverAnswer]) -> list[ImpactDriverAnswer]:
    """Return at most `REASONS` non-zero contributions, the largest factor up or down first, ties by name."""
    ranked = sorted(attributions, key=lambda driver: (-abs(np.log1p(driver.contribution)), driver.feature))
    return [driver for driver in ranked[:REASONS] if driver.contribution]
