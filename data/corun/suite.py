"""What to measure: the typed form of a SUITE.yaml for co-runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from data.corun.tables import AND
from data.errors import InputError
from data.measure.programs import command_of
from data.measure.suite import Count, CountedSuite, Operation, typed, unique
from data.tables.files import yaml_content

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


class CorunSuite(CountedSuite):
    """A measurement of co-runs.

    Each of the ``tasks`` runs alone ``solo`` times, and every combination of ``together`` of them, a task
    with itself included, runs on as many processors at once. ``repeat`` combinations, drawn by ``seed``, are
    measured again.
    """

    kind: Literal["corun"]
    together: Annotated[int, Field(ge=2)] = 2
    solo: Count = 5
    repeat: Annotated[int, Field(ge=0)] = 0
    events: Annotated[tuple[str, ...], Field(min_length=1)]
    tasks: Annotated[tuple[CorunTask, ...], Field(min_length=1)]


def load(path: Path) -> CorunSuite:
    """Read and validate a suite; InputError naming file, key and value."""
    suite = typed(CorunSuite, yaml_content(path), path)
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
