"""Impact before a co-run, from solo runs of its tasks (co-run paper, equation 1), and its explanation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from data.tables.problems import nearest_name, shorten_names
from features.corun.rates import MOST, OTHERS, OWN, Floats, Placed
from serving.corun.model import Static
from serving.corun.schemas import (
    CorunQuestion,
    ExplainedAnswer,
    ImpactShareAnswer,
    StaticAnswer,
    StaticPrediction,
)
from serving.http.schemas import finite_or_none
from training.corun.estimators.arrays import CorunContrast, LogShares, split_log_impacts
from training.corun.estimators.fitting import FittedImpact
from training.corun.estimators.pressure import Named
from training.estimators.answering import model_answering, require_finite

#: Number of listed drivers per co-run; the others of each side are summed up.
NAMED = 4
#: Suffixes of drivers: run times, other co-runs, and the sum of unlisted drivers of a side.
SECONDS, CORUNS, REST = "seconds", "coruns", "rest"
#: Number of co-runs that are predicted at a time, which bounds memory.
_TOGETHER = 16
#: Fields that are null without a prediction.
_UNTOLD = (
    *("impact", "low", "high", "solo_seconds"),
    *("corun_seconds", "corun_seconds_low", "corun_seconds_high"),
)
ONLINE_HINT = (
    "measure 2 s of it alone and of it beside them, and run: perfjudge corun online SOLO.csv CORUN.csv"
)


def predict_corun(question: CorunQuestion, static: Static) -> StaticAnswer:
    """Return an answer with a single prediction: the impact on the task of `question`, with an interval.

    On a machine without solo runs, it is the lower median of the predictions for the machines that ran all
    tasks of `question` alone. InputError as by `resolve_machine` and `source_machines`, ModelError if the
    prediction is not finite.
    """
    predictions = _predict_resolved([_ResolvedCorun(question, static)], static)
    return StaticAnswer(model=static.ref.model_answer, predictions=predictions, notes=list(static.notes))


def predict_coruns(
    questions: Sequence[CorunQuestion], static: Static, notes: Sequence[str] = ()
) -> StaticAnswer:
    """Return an answer with the ``predictions`` for co-runs, in their order, and with `notes` as ``notes``.

    Where `predict_corun` raises an InputError, for example for an unknown task, a prediction has None as
    impact, interval and seconds, and the reason in its own ``notes``. ModelError if a prediction is not
    finite.
    """
    predictions: list[StaticPrediction | None] = []
    resolved = []
    for question in questions:
        try:
            resolved.append(_ResolvedCorun(question, static))
            predictions.append(None)
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
    blocks = [resolved[start : start + _TOGETHER] for start in range(0, len(resolved), _TOGETHER)]
    predicted = (prediction for block in blocks for prediction in _predict_resolved(block, static))
    ordered = [prediction or next(predicted) for prediction in predictions]
    return StaticAnswer(model=static.ref.model_answer, predictions=ordered, notes=list(notes))


def impact_matrix(tasks: Sequence[str], machine: str, static: Static) -> Floats:
    """Return the impact (co-run time / solo time) of each co-runner (column) on each task (row).

    The shape is (n_tasks, n_tasks); on the diagonal, a task runs with a second copy of itself. Nothing is
    checked: `machine` must have solo runs of all `tasks` (`source_machines`). ModelError if an impact is not
    finite.
    """
    rows = [task for task in tasks for _ in tasks]
    placed = Placed(rows, [(other,) for _ in tasks for other in tasks], [machine] * len(rows))
    features = static.known_tasks.corun_features(placed, static.card.features)
    return static.predict_impacts(features, Named.from_placed(placed)).reshape(len(tasks), -1)


def resolve_machine(machine: str | None, static: Static) -> str:
    """Return `machine`, unchecked; None: the only machine of the training data, else of all solo runs.

    InputError if `machine` is None, and there are several.
    """
    known_machines = sorted(static.known_tasks.tasks_by_machine)
    trained = static.card.machines if len(static.card.machines) == 1 else known_machines
    if machine is None and len(trained) != 1:
        names = _quote_names(known_machines)
        raise InputError(f"knows {len(known_machines)} machines, such as {names}; name the machine")
    return trained[0] if machine is None else machine


def source_machines(tasks: Sequence[str], machine: str, static: Static) -> list[str]:
    """Return a list of machines with solo runs of all `tasks`: only `machine` if it is known, else all such.

    A machine is known if any task ran alone on it. InputError if a task has no solo run (on `machine`, if it
    is known), or no machine has solo runs of all `tasks`.
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


class _ResolvedCorun:
    """A co-run of known tasks: sorted co-runners, and the machines (`sources`) whose solo runs are used.

    InputError as by `resolve_machine` and `source_machines`.
    """

    def __init__(self, question: CorunQuestion, static: Static) -> None:
        self.task, self.corunners = question.task, tuple(sorted(question.corunners))
        self.machine = resolve_machine(question.machine, static)
        self.sources = source_machines([self.task, *self.corunners], self.machine, static)
        # pairs are added up where the model has seen fewer co-runners
        self.is_sum = len(self.corunners) > 1 and "beside" not in static.card.features

    @property
    def parts(self) -> list[tuple[str, ...]]:
        """The co-runners that are predicted together."""
        return [(other,) for other in self.corunners] if self.is_sum else [self.corunners]


def _predict_resolved(coruns: Sequence[_ResolvedCorun], static: Static) -> list[StaticPrediction]:
    """Return the predictions; that for a co-run does not depend on the others."""
    rows = [
        (corun.task, part, source) for corun in coruns for part in corun.parts for source in corun.sources
    ]
    placed = Placed(*map(list, zip(*rows, strict=True)))
    features = static.known_tasks.corun_features(placed, static.card.features)
    named = Named.from_placed(placed)
    by_row = static.predict_impacts(features, named)
    impacts, explained, start = [], [], 0
    for corun in coruns:
        shape = len(corun.parts), len(corun.sources)
        by_part = by_row[start : start + shape[0] * shape[1]].reshape(shape)
        candidates = add_slowdowns(by_part) if corun.is_sum else by_part[0]
        # an unknown machine gets the lower median of the known machines, whose drivers add up
        middle = int(np.argsort(candidates, kind="stable")[(shape[1] - 1) // 2])
        impacts.append(float(candidates[middle]))
        # a speed-up that does not count has no drivers, so that those of the others add up to the impact
        counts = by_part[:, middle] >= 1
        counts[by_part[:, middle].argmin()] = True
        explained.append(start + middle + shape[1] * np.flatnonzero(counts))
        start += by_part.size
    chosen = np.concatenate(explained)
    chosen_rows = [rows[row] for row in chosen]
    explanations = iter(explain_coruns(chosen_rows, features[chosen], named[chosen], static))
    return [
        _static_prediction(corun, impact, list(islice(explanations, len(counted))), static)
        for corun, impact, counted in zip(coruns, impacts, explained, strict=True)
    ]


def add_slowdowns(impacts: Floats) -> Floats:
    """Return 1 + the sum of slow-downs over the first axis; of speed-ups, only the largest counts."""
    return np.asarray(np.minimum(impacts.min(axis=0), 1) + np.maximum(impacts - 1, 0).sum(axis=0))


def _static_prediction(
    corun: _ResolvedCorun,
    impact: float,
    explanations: Sequence[tuple[ExplainedAnswer, list[ImpactShareAnswer]]],
    static: Static,
) -> StaticPrediction:
    width, notes = _interval_half_width(corun, static)
    with model_answering(static.card.model):
        low, high = impact / np.exp(width), impact * np.exp(width)
    require_finite(static.card.model, "impact", low, high)
    seconds = static.known_tasks.solo_seconds(corun.machine, corun.task)
    shares = [share for _, attributions in explanations for share in attributions]
    return StaticPrediction(
        impact=impact,
        low=low,
        high=high,
        confidence=static.card.confidence,
        task=corun.task,
        corunners=list(corun.corunners),
        machine=corun.machine,
        solo_seconds=finite_or_none(seconds),
        corun_seconds=finite_or_none(seconds * impact),
        corun_seconds_low=finite_or_none(seconds * low),
        corun_seconds_high=finite_or_none(seconds * high),
        attributions=sorted(shares, key=strength_key),
        drivers_explain=[explanation for explanation, _ in explanations],
        notes=notes,
    )


def _interval_half_width(corun: _ResolvedCorun, static: Static) -> tuple[float, list[str]]:
    """Return half the width of the interval of log impact, and notes on why it is wider."""
    card, machine, tasks = static.card, corun.machine, [corun.task, *corun.corunners]
    width, notes = card.half_width(machine, tasks), []
    strangers = [task for task in dict.fromkeys(tasks) if task not in card.tasks]
    if strangers:
        notes.append(f"the model was not trained on {', '.join(strangers)}: the interval is wider for it")
    if machine not in card.machines:
        note = f'the model was not trained on the machine "{machine}": the interval is wider for it'
        if machine not in static.known_tasks.tasks_by_machine:
            note += f"; the solo runs are those of {_quote_names(corun.sources)}"
        notes.append(note)
    if corun.is_sum:
        # not measured by any split, so the width is that of a machine unlike the training data
        width = max(width, 2 * max(card.half_widths.values()))
        notes.append(
            f"the model has seen no task beside {len(corun.corunners)} others: the slow-downs by each are "
            "added up, and the interval is wider for it"
        )
    return width, notes


def _quote_names(names: Sequence[str]) -> str:
    return shorten_names([f'"{name}"' for name in names], 5)


def explain_coruns(
    coruns: Sequence[tuple[str, tuple[str, ...], str]], features: Floats, named: Named, static: Static
) -> list[tuple[ExplainedAnswer, list[ImpactShareAnswer]]]:
    """Return, for each co-run, its predicted impact as a sum, and a list of contributions to the impact.

    A co-run is task, co-runners, and machine of the solo runs; `features` and `named` are the model's input,
    one row per co-run. In the sum, ``impact`` is ``usual_impact`` (for median features on the machine) plus
    the contributions of the task (``own``) and of the co-runners (``others``). The list has ``feature, value,
    usual, contribution`` of the four strongest contributions of features, then the sums of both sides' other
    features (``others_rest, own_rest``); contributions of 0 are left out. ModelError if a contribution is not
    finite.
    """
    card = static.card
    owners, positions = _owners_of(card.features, static.known_tasks.counted_events)
    contrasts = []
    for row, (_, corunners, machine) in enumerate(coruns):
        usual = static.known_tasks.usual_features(machine, len(corunners), card.features)
        names = named[np.array([row])]
        contrasts.append(CorunContrast(features[row], usual, positions, len(owners), names))
    with model_answering(card.model):
        shares = split_log_impacts(FittedImpact(static.quick().model, card.features), contrasts)
    return [
        _explained_answer(corun, contrast, parts, owners, static)
        for corun, contrast, parts in zip(coruns, contrasts, shares, strict=True)
    ]


def _explained_answer(
    corun: tuple[str, tuple[str, ...], str],
    contrast: CorunContrast,
    parts: LogShares,
    owners: Sequence[str],
    static: Static,
) -> tuple[ExplainedAnswer, list[ImpactShareAnswer]]:
    others, machine, features = list(corun[1]), corun[2], static.card.features
    points_per_log_share = parts.points_per_log_share
    evidence = {f"{OWN}{CORUNS}": parts.of_task, f"{OTHERS}{CORUNS}": parts.of_corunners}
    numbers = parts.impact, parts.usual, points_per_log_share, *(side.share for side in evidence.values())
    require_finite(static.card.model, "contribution", numbers, parts.shares)
    shares = dict(zip(owners, parts.shares.tolist(), strict=True))
    both_times = shares.pop("")
    for side in (OWN, OTHERS):
        shares[f"{side}{SECONDS}"] += both_times / 2
    shares |= {name: other.share for name, other in evidence.items()}
    points = {name: share * points_per_log_share for name, share in shares.items()}
    ranked = sorted(points, key=lambda name: (-abs(points[name]), name))

    def seen_values(name: str) -> tuple[float, float]:
        if name in evidence:
            return evidence[name].value, evidence[name].usual
        if name not in features:
            return np.nan, np.nan
        column = features.index(name)
        value, typical = contrast.row[column], contrast.usual[column]
        # features of times are logarithms
        return (np.exp(value), np.exp(typical)) if name.endswith(f"_{SECONDS}") else (value, typical)

    explanation = ExplainedAnswer(
        corunners=others,
        machine=machine,
        impact=float(np.exp(parts.impact)),
        model=f"{static.ref.name} {static.ref.version}",
        usual_impact=float(np.exp(parts.usual)),
        own=_sum_of_side(OWN, points, points),
        others=_sum_of_side(OTHERS, points, points),
    )
    listed = {name: points[name] for name in ranked[:NAMED]}
    listed |= {f"{side}{REST}": _sum_of_side(side, ranked[NAMED:], points) for side in (OTHERS, OWN)}
    attributions = [
        ImpactShareAnswer(feature=name, value=value, usual=usual, contribution=share, corunners=others)
        for name, share in listed.items()
        for value, usual in [seen_values(name)]
        if share
    ]
    return explanation, attributions


def strength_key(share: ImpactShareAnswer) -> tuple[bool, float, str]:
    """Return the sort key of contributions: largest absolute value first, sums of unlisted features last."""
    return share.feature.endswith(f"_{REST}"), -abs(share.contribution), share.feature


@lru_cache(maxsize=8)
def _owners_of(
    features: tuple[str, ...], events: tuple[str, ...]
) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Return the drivers of `features`, the last for run times of both sides, and each feature's position."""
    by_feature = [_driver_of(name, events) for name in features]
    owners = (*dict.fromkeys([f"{OWN}{SECONDS}", f"{OTHERS}{SECONDS}", *filter(None, by_feature)]), "")
    return owners, np.array([owners.index(owner) for owner in by_feature], np.intp)


def _driver_of(column: str, events: Collection[str]) -> str:
    """Return the driver of a feature: a rate or the run times of a side; empty: run times of both sides."""
    for prefix, side in ((OWN, OWN), (OTHERS, OTHERS), (MOST, OTHERS)):
        if column.startswith(prefix):
            event = column.removeprefix(prefix)
            return f"{side}{event if event in events else SECONDS}"
    return ""


def _sum_of_side(side: str, names: Iterable[str], points: Mapping[str, float]) -> float:
    return float(sum(points[name] for name in names if name.startswith(side)))
