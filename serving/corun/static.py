"""Impact before the run: of tasks whose solo runs are known (seed 002, equation 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import InputError
from data.tables.nearest import nearest
from features.corun.rates import MOST, OTHERS, OWN, Placed
from serving.corun.model import Static
from serving.corun.named import some
from serving.corun.schemas import ExplainedAnswer, ImpactDriverAnswer, StaticAnswer, StaticPrediction
from serving.doors.schemas import finite

Floats = NDArray[np.float64]
#: How many single reasons an answer gives.
REASONS = 3
#: Names all features of a side.
ALL = "all"
#: No task has this name.
_NOBODY = "+"
#: Names that an error lists.
_LISTED = 5
#: What is null where a question cannot be answered.
_UNTOLD = (
    *("impact", "low", "high", "solo_seconds"),
    *("corun_seconds", "corun_seconds_low", "corun_seconds_high", "drivers_explain"),
)
ONLINE_HINT = (
    "measure 2 s of it alone and of it beside them, and ask: perfjudge corun online SOLO.csv CORUN.csv"
)


@dataclass(frozen=True)
class Question:
    """A task, what runs beside it, and where; without a machine, the only one that is known."""

    task: str
    beside: tuple[str, ...]
    machine: str | None = None


def ask(questions: Sequence[Question], static: Static) -> StaticAnswer:
    """Answer questions, in their order.

    Raises
    ------
    InputError
        If a task or the machine that is to be meant is not known.
    """
    predictions = [_answered(*_meant(question, static), static) for question in questions]
    return StaticAnswer(model=static.ref.answer, predictions=predictions)


def ask_each(questions: Sequence[Question], static: Static, notes: Sequence[str] = ()) -> StaticAnswer:
    """Answer questions, in their order; one that cannot be answered has no impact, and a note that says why.

    Parameters
    ----------
    questions : sequence of Question
    static : Static
    notes : sequence of str
        What holds of all.
    """
    predictions = [_told(question, static) for question in questions]
    return StaticAnswer(model=static.ref.answer, predictions=predictions, notes=list(notes))


def impacts(tasks: Sequence[str], machine: str, static: Static) -> Floats:
    """Return the impact on each task beside each, shape (n_tasks, n_tasks), at once."""
    number = len(tasks)
    placed = Placed(
        [task for task in tasks for _ in range(number)],
        [(other,) for _ in range(number) for other in tasks],
        [machine] * number**2,
    )
    rows = static.known.rows(placed, static.card.features)
    return static.impacts(rows).reshape(number, number)


def machine_of(machine: str | None, static: Static) -> str:
    """Return the machine that is meant: the one named, or the only one that is known.

    Raises
    ------
    InputError
        If none is named and several are known.
    """
    known = sorted(static.known.on)
    if machine is None and len(known) != 1:
        raise InputError(f"knows {len(known)} machines, such as {_some(known)}; name one (--machine)")
    return known[0] if machine is None else machine


def require(tasks: Sequence[str], machine: str, static: Static) -> list[str]:
    """Return the machines whose solo runs of `tasks` can be used: the one meant, else all that have them.

    Raises
    ------
    InputError
        If a task is unknown, or was not run alone there.
    """
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
            notes=[str(exc)],
        )
    return _answered(*meant, static)


def _answered(asked: Question, sources: list[str], static: Static) -> StaticPrediction:
    machine = str(asked.machine)
    found = _impacts(asked, sources, static)
    # of several machines the middle one stands for the unknown
    impact = float(np.median(found))
    width, notes = _width(asked, sources, static)
    low, high = impact / np.exp(width), impact * np.exp(width)
    pair, explained = _strongest(asked, sources[int(np.abs(found - impact).argmin())], static)
    drivers = _drivers(pair, explained.machine, static)
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
        drivers=drivers,
        drivers_explain=explained if drivers else None,
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


def _strongest(question: Question, machine: str, static: Static) -> tuple[Question, ExplainedAnswer]:
    """Return what drivers can explain: all of the co-run, or the strongest of the pairs that are added up."""
    parts = _parts(question, static)
    found = [float(_impacts(part, [machine], static)[0]) for part in parts]
    impact, part = max(found), parts[int(np.argmax(found))]
    model = f"{static.ref.name} {static.ref.version}"
    return part, ExplainedAnswer(corunners=list(part.beside), machine=machine, impact=impact, model=model)


def _drivers(question: Question, machine: str, static: Static) -> list[ImpactDriverAnswer]:
    """Replace one thing after the other by what is usual on that machine, and see what that changes."""
    known, columns = static.known, static.card.features
    row = known.rows(_placed(question, [machine]), columns)
    tasks = sorted(known.on[machine])
    number = len(question.beside)
    everyone = Placed(tasks, [question.beside] * len(tasks), [machine] * len(tasks))
    around = Placed([question.task] * len(tasks), [(task,) * number for task in tasks], everyone.machines)
    own, others = (known.rows(placed, columns)[list(columns)].median() for placed in (everyone, around))
    groups = _sides(columns) | _groups(columns, list(known.solo.rates.columns))
    changed = pd.concat([row] * (len(groups) + 1), ignore_index=True)
    for place, (name, members) in enumerate(groups.items(), 1):
        usual = own if name.startswith(OWN) else others
        changed.loc[place, members] = usual[members].to_numpy()
    for name, who in ((f"{OTHERS}{ALL}", "corunners"), (f"{OWN}{ALL}", "task")):
        changed.loc[1 + list(groups).index(name), who] = _NOBODY
    impact = static.impacts(changed)
    found = []
    for place, (name, members) in enumerate(groups.items(), 1):
        usual = own if name.startswith(OWN) else others
        value, typical = (float(values[members[0]]) for values in (row.iloc[0], usual))
        if members[0].endswith("_seconds"):
            value, typical = np.exp(value), np.exp(typical)
        if name.endswith(f"_{ALL}"):
            value = typical = float("nan")
        found.append(ImpactDriverAnswer.of(name, value, typical, impact[0] / impact[place] - 1))
    # the sides as wholes say most, as events go together and none alone tells much
    sides = len(_sides(columns))
    return [*(one for one in found[:sides] if one.contribution), *strongest(found[sides:])]


def strongest(drivers: Sequence[ImpactDriverAnswer]) -> list[ImpactDriverAnswer]:
    """Return the few that change the answer most, the strongest first."""
    ranked = sorted(drivers, key=lambda one: (-abs(np.log1p(one.contribution)), one.feature))
    return [one for one in ranked[:REASONS] if one.contribution]


def _sides(columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of each side."""
    sides = {OTHERS: (OTHERS, MOST), OWN: (OWN,)}
    return {
        f"{side}{ALL}": [name for name in columns if name.startswith(prefixes)]
        for side, prefixes in sides.items()
    }


def _groups(columns: Sequence[str], events: list[str]) -> dict[str, list[str]]:
    """Return the columns that change together: the rates of an event on one side, all times of a side."""
    groups = {
        f"{side}{event}": [f"{side}{event}", *([f"{MOST}{event}"] if side == OTHERS else [])]
        for side in (OWN, OTHERS)
        for event in events
    }
    rates = {name for members in groups.values() for name in members}
    for side in (OWN, OTHERS):
        times = [name for name in columns if name.startswith(side) and name not in rates]
        first = f"{side}seconds"
        groups[first] = sorted(times, key=lambda name: name != first)
    found = {name: [member for member in members if member in columns] for name, members in groups.items()}
    return {name: members for name, members in found.items() if name in members}


def _some(names: Sequence[str]) -> str:
    return some([f'"{name}"' for name in names], _LISTED)
