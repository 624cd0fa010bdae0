"""Which tasks to put together: the best placement, beside random ones and the worst."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from serving.corun.model import Static
from serving.corun.schemas import PlaceAnswer, PlacementAnswer, RandomAnswer, SavingAnswer
from serving.corun.static import impacts, machine_of, require
from serving.doors.schemas import finite
from training.corun import placement
from training.corun.placement import Placement, Room

Floats = NDArray[np.float64]
#: Placements at random that a total is compared with.
DRAWS = 1000
#: Of these, so many are listed, to be measured beside the best and the worst.
LISTED = 5


def place(tasks: Sequence[str], room: Room, machine: str | None, static: Static, seed: int) -> PlaceAnswer:
    """Place tasks on equal machines.

    Parameters
    ----------
    tasks : sequence of str
        One name may stand several times. Empty: all that are known on the machine.

    Raises
    ------
    InputError
        If a task or the machine is unknown, or the tasks find no room.
    """
    meant = machine_of(machine, static)
    everyone = tuple(tasks) or tuple(sorted(static.known.on.get(meant, ())))
    if not everyone:
        raise InputError(f'no task ran alone on "{meant}"; name the tasks to place')
    source = require(everyone, meant, static)[0]
    room.require(len(everyone))
    names, numbers = np.unique(np.array(everyone, np.str_), return_inverse=True)
    predicted = impacts(names.tolist(), source, static)[np.ix_(numbers, numbers)]
    known = {name: static.known.seconds(meant, name) for name in names.tolist()}
    seconds = np.array([known[task] for task in everyone])
    cost = placement.pairwise(predicted - 1)
    longer = placement.pairwise((predicted - 1) * seconds[:, None])
    alone, number = float(seconds.sum()), len(everyone)

    def put(name: str, found: Placement) -> PlacementAnswer:
        groups = [[everyone[task] for task in group] for group in found.groups]
        total = finite(alone + placement.total(list(found.groups), longer))
        return PlacementAnswer(name=name, groups=groups, slowdown=found.total, seconds=total)

    best = placement.best(number, room, cost, seed)
    first, last = put("best", best), put("worst", placement.worst(number, room, cost, seed))
    drawn = placement.drawn(number, room, cost, LISTED, seed)
    totals, times = (placement.random(number, room, one, DRAWS, seed) for one in (cost, longer))
    random = _random(totals, alone + times)
    return PlaceAnswer(
        model=static.ref.answer,
        machine=meant,
        machines=room.machines,
        slots=room.slots,
        exact=best.exact,
        saved_against_random=_saving(first.seconds, random.seconds),
        saved_against_worst=_saving(first.seconds, last.seconds),
        random=random,
        placements=[first, *(put(f"random-{place}", one) for place, one in enumerate(drawn, 1)), last],
        notes=_notes(everyone, meant, source, room, static),
    )


def _random(totals: Floats, times: Floats) -> RandomAnswer:
    (low, high), (shortest, longest) = (np.quantile(one, (0.05, 0.95)) for one in (totals, times))
    return RandomAnswer(
        draws=len(totals),
        mean=totals.mean(),
        low=low,
        high=high,
        seconds=finite(times.mean()),
        seconds_low=finite(shortest),
        seconds_high=finite(longest),
    )


def _saving(seconds: float | None, against: float | None) -> SavingAnswer | None:
    """Return what `seconds` save of `against`; None where a solo time is unknown."""
    if seconds is None or against is None:
        return None
    return SavingAnswer(seconds=against - seconds, share=1 - seconds / against)


def _notes(tasks: Sequence[str], machine: str, source: str, room: Room, static: Static) -> list[str]:
    notes = []
    if machine not in static.card.machines:
        told = f'the model was not trained on the machine "{machine}"'
        notes.append(told if source == machine else f'{told}; the solo runs are those of "{source}"')
    strangers = [task for task in dict.fromkeys(tasks) if task not in static.card.tasks]
    if strangers:
        notes.append(f"the model was not trained on {', '.join(strangers)}")
    if room.slots > 2:  # noqa: PLR2004 - more than a pair
        notes.append("slow-downs by several co-runners are added up from pairs")
    return notes
