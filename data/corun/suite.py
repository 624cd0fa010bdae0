"""What to measure: the typed form of a SUITE.yaml for co-runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from data.corun.tables import AND
from data.errors import InputError
from data.measure.programs import command_of
from data.measure.suite import Count, Operation, content, typed, unique
from data.tables.given import Section

#: Seconds after which stress-ng would end with its work undone; the run has been given up long before.
UNENDING = 86400


class CorunTask(Operation):
    """A program with a fixed amount of work.

    It is a stressor of stress-ng with ``work`` bogo operations, ``work`` units of one of
    `data.measure.workloads`, or any other ``command``. The ``group`` says what it is like.
    """

    work: Count = 1
    command: tuple[str, ...] = ()

    def words(self, report: Path) -> list[str]:
        """Return the command; what it writes goes to `report` and beside it."""
        return list(self.command) or command_of(self, self.work, 1, report, UNENDING)


class CorunSuite(Section):
    """A measurement of co-runs.

    Each of the ``tasks`` runs alone ``solo`` times, and every combination of ``together`` of them, a task
    with itself included, runs on as many processors at once. ``repeat`` combinations, drawn by ``seed``, are
    measured again. Events are counted every ``interval`` seconds; ``events`` are those asked of perf. When
    others use more than the share ``foreign`` of the machine, a measurement is made again, ``attempts`` times
    at most; the least disturbed stays.
    """

    kind: Literal["corun"]
    name: str
    seed: int
    together: Annotated[int, Field(ge=2)] = 2
    solo: Count = 5
    repeat: Annotated[int, Field(ge=0)] = 0
    interval: Annotated[float, Field(ge=0.02, le=10)] = 0.2
    foreign: Annotated[float, Field(gt=0, le=1)] = 0.03
    attempts: Count = 3
    events: Annotated[tuple[str, ...], Field(min_length=1)]
    tasks: Annotated[tuple[CorunTask, ...], Field(min_length=1)]


def load(path: Path) -> CorunSuite:
    """Read and validate a suite.

    Raises
    ------
    InputError
        Naming file, key and value.
    """
    suite = typed(CorunSuite, content(path), path)
    for task in suite.tasks:
        place = f'task "{task.name}"'
        given = [kind for kind in ("stressor", "workload", "command") if getattr(task, kind)]
        if len(given) != 1:
            raise InputError("names a stressor, a workload or a command, one of them", file=path, place=place)
        if AND in task.name:
            raise InputError(f'must be without "{AND}", which joins names', file=path, place=place)
    unique([task.name for task in suite.tasks], "task", path)
    unique(suite.events, "event", path)
    return suite
