"""Which tasks to put together: the best placement, beside random ones and the worst."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError
from serving.corun.model import Static
from serving.corun.static import impacts, machine_of, require
from training.corun import placement
from training.corun.placement import Placement, Room

Floats = NDArray[np.float64]
#: Placements at random that a total is compared with.
DRAWS = 1000
#: Of these, so many are listed, to be measured beside the best and the worst.
LISTED = 5


@dataclass(frozen=True)
class Put:
    """One placement of named tasks.

    Attributes
    ----------
    name : str
        ``best``, ``worst``, or ``random-1`` and so on.
    groups : tuple of tuple of str
        The tasks on each machine; machines that stay empty are left out.
    slowdown : float
        Predicted impact - 1, summed over all tasks.
    seconds : float
        Predicted run time, co-run seconds summed over all tasks; NaN where a solo time is unknown.
    """

    name: str
    groups: tuple[tuple[str, ...], ...]
    slowdown: float
    seconds: float


@dataclass(frozen=True)
class Saving:
    """What one placement saves of the run time of another: seconds over all tasks, and their share."""

    seconds: float
    share: float

    @classmethod
    def of(cls, seconds: float, against: float) -> Saving:
        """Return what `seconds` save of `against`."""
        return cls(against - seconds, 1 - seconds / against)


@dataclass(frozen=True)
class Placed:
    """The best placement and what it saves.

    Attributes
    ----------
    tasks : tuple of str
    machine : str
        The kind of machine that the solo runs are of.
    room : Room
    best, worst : Put
    exact : bool
        Whether no placement can have a smaller predicted total.
    random, random_seconds : ndarray of shape (DRAWS,)
        Predicted slow-downs of placements at random, and their run times; NaN where a solo time is unknown.
    drawn : tuple of Put
        The first of them.
    notes : tuple of str
    """

    tasks: tuple[str, ...]
    machine: str
    room: Room
    best: Put
    worst: Put
    exact: bool
    random: Floats
    random_seconds: Floats
    drawn: tuple[Put, ...]
    notes: tuple[str, ...]

    @property
    def against_random(self) -> Saving | None:
        """What is saved against a placement at random, on average; None where a solo time is unknown."""
        return self._saving(float(self.random_seconds.mean()))

    @property
    def against_worst(self) -> Saving | None:
        """What is saved against the worst placement; None where a solo time is unknown."""
        return self._saving(self.worst.seconds)

    def _saving(self, against: float) -> Saving | None:
        return None if math.isnan(against) else Saving.of(self.best.seconds, against)


def place(tasks: Sequence[str], room: Room, machine: str | None, static: Static, seed: int) -> Placed:
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
    alone = float(seconds.sum())

    def put(name: str, found: Placement) -> Put:
        groups = tuple(tuple(everyone[task] for task in group) for group in found.groups)
        return Put(name, groups, found.total, alone + placement.total(list(found.groups), longer))

    best = placement.best(len(everyone), room, cost, seed)
    drawn = placement.drawn(len(everyone), room, cost, LISTED, seed)
    return Placed(
        everyone,
        meant,
        room,
        put("best", best),
        put("worst", placement.worst(len(everyone), room, cost, seed)),
        best.exact,
        placement.random(len(everyone), room, cost, DRAWS, seed),
        alone + placement.random(len(everyone), room, longer, DRAWS, seed),
        tuple(put(f"random-{number}", one) for number, one in enumerate(drawn, 1)),
        tuple(_notes(everyone, meant, source, room, static)),
    )


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
