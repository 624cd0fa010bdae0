"""Impact before the run: of tasks whose solo runs are known (seed 002, equation 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from data.tables.problems import nearest
from features.corun.rates import MOST, OTHERS, OWN, Placed
from serving.corun.model import Static
from serving.corun.schemas import (
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


def some(names: Sequence[str], most: int = 4) -> str:
    """List names, and how many more there are than so many."""
    more = len(names) - most
    listed = ", ".join(names[:most])
    return f"{listed} and {more} more" if more > 0 else listed


#: Number of drivers listed per co-run; the remainder of each side is one more.
NAMED = 4
#: The run times of a side, what its other co-runs showed, and all of it that is not named.
SECONDS, CORUNS, REST = "seconds", "coruns", "rest"


@dataclass(frozen=True)
class Things:
    """Feature groups for attribution: event rates per side, times per side, and times of both together."""

    names: tuple[str, ...]
    owners: NDArray[np.intp]

    @classmethod
    def of(cls, columns: Sequence[str], events: Sequence[str]) -> Things:
        """Tell which thing each column of a model belongs to."""
        owners = [_thing(column, frozenset(events)) for column in columns]
        names = (*dict.fromkeys([f"{OWN}{SECONDS}", f"{OTHERS}{SECONDS}", *filter(None, owners)]), "")
        return cls(names, np.array([names.index(owner) for owner in owners], np.intp))

    def named(self, shares: Sequence[float]) -> dict[str, float]:
        """Return shares by name; the share of both sides' times is split in half between them."""
        *single, both = shares
        found = dict(zip(self.names[:-1], single, strict=True))
        for side in (OWN, OTHERS):
            found[f"{side}{SECONDS}"] += both / 2
        return found


def explained(
    task: str, beside: tuple[str, ...], machine: str, static: Static
) -> tuple[ExplainedAnswer, list[ImpactShareAnswer]]:
    """Return the reference co-run of an explanation, and the contributions of the strongest drivers."""
    columns = static.card.features
    row = static.known.rows(Placed([task], [beside], [machine]), columns)
    usual = static.known.usual(machine, len(beside), columns)
    things = Things.of(columns, static.known.events)
    values = row[list(columns)].to_numpy(np.float64)[0]
    model = Learned(static.quick().model, columns)
    with model_answering(static.card.model):
        found = split(model, Way(values, usual, things.owners, len(things.names), named_of(row)))
        numbers = found.impact, found.usual, found.points, found.shares, found.own.share, found.others.share
        require_finite(static.card.model, "contribution", *numbers)
    shares = things.named(found.shares.tolist())
    seen = dict(zip(columns, zip(values.tolist(), usual.tolist(), strict=True), strict=True))
    rated = [(name, *_seen(name, seen), share) for name, share in shares.items()]
    shown = ((OWN, found.own), (OTHERS, found.others))
    rated += [(f"{side}{CORUNS}", one.value, one.usual, one.share) for side, one in shown]
    each = [_share(name, value, usual, share * found.points, beside) for name, value, usual, share in rated]
    told = ExplainedAnswer(
        corunners=list(beside),
        machine=machine,
        impact=float(np.exp(found.impact)),
        model=f"{static.ref.name} {static.ref.version}",
        usual_impact=float(np.exp(found.usual)),
        own=_side(OWN, each),
        others=_side(OTHERS, each),
    )
    return told, _listed(each, beside)


def strength(share: ImpactShareAnswer) -> tuple[bool, float, str]:
    """Return the sort key of drivers: the strongest first, remainders last."""
    return share.feature.endswith(f"_{REST}"), -abs(share.contribution), share.feature


def _thing(column: str, events: frozenset[str]) -> str:
    for prefix, side in ((OWN, OWN), (OTHERS, OTHERS), (MOST, OTHERS)):
        if column.startswith(prefix):
            event = column.removeprefix(prefix)
            return f"{side}{event}" if event in events else f"{side}{SECONDS}"
    return ""


def _seen(name: str, seen: dict[str, tuple[float, float]]) -> tuple[float, float]:
    """Return the value of a feature and the usual one; times are known by their logarithms."""
    value, usual = seen.get(name, (np.nan, np.nan))
    return (np.exp(value), np.exp(usual)) if name.endswith(f"_{SECONDS}") else (value, usual)


def _share(
    feature: str, value: float, usual: float, contribution: float, beside: Sequence[str]
) -> ImpactShareAnswer:
    return ImpactShareAnswer(
        feature=feature, value=value, usual=usual, contribution=contribution, corunners=list(beside)
    )


def _side(side: str, shares: Sequence[ImpactShareAnswer]) -> float:
    return float(sum(one.contribution for one in shares if one.feature.startswith(side)))


def _listed(each: Sequence[ImpactShareAnswer], beside: Sequence[str]) -> list[ImpactShareAnswer]:
    """Return the strongest drivers in descending order, and the sum of the others of each side."""
    ranked = sorted(each, key=strength)
    rest = [
        _share(f"{side}{REST}", np.nan, np.nan, _side(side, ranked[NAMED:]), beside) for side in (OTHERS, OWN)
    ]
    return [one for one in (*ranked[:NAMED], *rest) if one.contribution]


Floats = NDArray[np.float64]
#: How many single reasons an answer gives.
REASONS = 3
#: Names that an error lists.
_LISTED = 5
#: What is null where a question cannot be answered.
_UNTOLD = (
    *("impact", "low", "high", "solo_seconds"),
    *("corun_seconds", "corun_seconds_low", "corun_seconds_high"),
)
ONLINE_HINT = (
    "measure 2 s of it alone and of it beside them, and ask: perfjudge corun online SOLO.csv CORUN.csv"
)


@dataclass(frozen=True)
class Question:
    """A task, its co-runners and the machine; None: the only known machine."""

    task: str
    beside: tuple[str, ...]
    machine: str | None = None


def ask(questions: Sequence[Question], static: Static) -> StaticAnswer:
    """Answer questions, in their order."""
    predictions = [_answered(*_meant(question, static), static) for question in questions]
    return StaticAnswer(model=static.ref.answer, predictions=predictions)


def ask_each(questions: Sequence[Question], static: Static, notes: Sequence[str] = ()) -> StaticAnswer:
    """Answer questions in order; an unanswerable one has no impact, and a note that says why."""
    predictions = [_told(question, static) for question in questions]
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
    """Return the machine that is meant: the one named, or the only one that is known."""
    known = sorted(static.known.on)
    if machine is None and len(known) != 1:
        raise InputError(f"knows {len(known)} machines, such as {_some(known)}; name one (--machine)")
    return known[0] if machine is None else machine


def require(tasks: Sequence[str], machine: str, static: Static) -> list[str]:
    """Return the machines whose solo runs of `tasks` can be used: the one meant, else all that have them."""
    on = static.known.on
    everywhere = frozenset().union(*on.values())
    for task in tasks:
        if task not in everywhere:
            close = nearest(task, sorted(everywhere))
            meant = f'did you mean "{close}"?' if close else _some(sorted(everywhere))
            problem = f"has no solo run among the {len(everywhere)} that are known ({meant}); {ONLINE_HINT}"
            raise InputError(problem, place=f'task "{task}"')
    if machine in on:
        for task in tasks:
            if task not in on[machine]:
                there = [name for name in on if task in on[name]]
                problem = f'has no solo run on "{machine}", but on {_some(there)}; {ONLINE_HINT}'
                raise InputError(problem, place=f'task "{task}"')
        return [machine]
    found = [name for name, names in on.items() if names.issuperset(tasks)]
    if not found:
        raise InputError(f"no machine has solo runs of all of {', '.join(dict.fromkeys(tasks))}")
    return found


def _meant(question: Question, static: Static) -> tuple[Question, list[str]]:
    """Return a question with its machine, and the machines whose solo runs answer it."""
    machine = machine_of(question.machine, static)
    if not question.beside:
        raise InputError(
            "runs beside nothing; expected at least one other task", place=f'task "{question.task}"'
        )
    beside = tuple(sorted(question.beside))
    return Question(question.task, beside, machine), require([question.task, *beside], machine, static)


def _told(question: Question, static: Static) -> StaticPrediction:
    try:
        meant = _meant(question, static)
    except InputError as exc:
        return StaticPrediction(
            **dict.fromkeys(_UNTOLD),
            confidence=static.card.confidence,
            task=question.task,
            corunners=sorted(question.beside),
            machine=question.machine,
            drivers=[],
            drivers_explain=[],
            notes=[str(exc)],
        )
    return _answered(*meant, static)


def _answered(asked: Question, sources: list[str], static: Static) -> StaticPrediction:
    machine = str(asked.machine)
    found = _impacts(asked, sources, static)
    # of several machines the middle one stands for the unknown, itself, so that its drivers add up
    middle = int(np.argsort(found, kind="stable")[(len(found) - 1) // 2])
    impact = float(found[middle])
    width, notes = _width(asked, sources, static)
    with model_answering(static.card.model):
        low, high = impact / np.exp(width), impact * np.exp(width)
    require_finite(static.card.model, "impact", low, high)
    parts = [explained(one.task, one.beside, sources[middle], static) for one in _parts(asked, static)]
    seconds = static.known.seconds(machine, asked.task)
    return StaticPrediction(
        impact=impact,
        low=low,
        high=high,
        confidence=static.card.confidence,
        task=asked.task,
        corunners=list(asked.beside),
        machine=machine,
        solo_seconds=finite(seconds),
        corun_seconds=finite(seconds * impact),
        corun_seconds_low=finite(seconds * low),
        corun_seconds_high=finite(seconds * high),
        drivers=sorted((one for _, own in parts for one in own), key=strength),
        drivers_explain=[told for told, _ in parts],
        notes=notes,
    )


def _parts(question: Question, static: Static) -> list[Question]:
    """Return the pairs that are added up where the model has seen fewer co-runners, else the co-run."""
    if len(question.beside) > 1 and "beside" not in static.card.features:
        return [replace(question, beside=(other,)) for other in question.beside]
    return [question]


def _impacts(question: Question, machines: Sequence[str], static: Static) -> Floats:
    """Return the impact on each machine, shape (n_machines,)."""
    parts = _parts(question, static)
    if len(parts) > 1:
        return 1 + np.sum([_impacts(part, machines, static) - 1 for part in parts], axis=0)
    rows = static.known.rows(_placed(question, machines), static.card.features)
    return static.impacts(rows)


def _placed(question: Question, machines: Sequence[str]) -> Placed:
    number = len(machines)
    return Placed([question.task] * number, [question.beside] * number, list(machines))


def _width(question: Question, sources: list[str], static: Static) -> tuple[float, list[str]]:
    """Return the half width of the interval on the scale of log impact, and why it is that wide."""
    card, machine = static.card, str(question.machine)
    everyone = [question.task, *question.beside]
    width = card.half_width(machine, everyone)
    notes = []
    strangers = [task for task in dict.fromkeys(everyone) if task not in card.tasks]
    if strangers:
        notes.append(f"the model was not trained on {', '.join(strangers)}: the interval is wider for it")
    if machine not in card.machines:
        told = f'the model was not trained on the machine "{machine}": the interval is wider for it'
        if machine not in static.known.on:
            told += f"; the solo runs are those of {_some(sources)}"
        notes.append(told)
    if len(_parts(question, static)) > 1:
        # no design measured this; the same allowance as for a machine that training knew nothing like
        width = max(width, 2 * max(card.half_widths.values()))
        notes.append(
            f"the model has seen no task beside {len(question.beside)} others: the slow-downs by each are "
            "added up, and the interval is wider for it"
        )
    return width, notes


def strongest(drivers: Sequence[ImpactDriverAnswer]) -> list[ImpactDriverAnswer]:
    """Return the few that change the answer most, the strongest first."""
    ranked = sorted(drivers, key=lambda one: (-abs(np.log1p(one.contribution)), one.feature))
    return [one for one in ranked[:REASONS] if one.contribution]


def _some(names: Sequence[str]) -> str:
    return some([f'"{name}"' for name in names], _LISTED)
