"""Requests about co-runs become their answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from data.corun.tables import AND, SAMPLE_DTYPES, TASK_DTYPES, CorunTables
from data.errors import InputError
from serving.corun.model import Online, Static
from serving.corun.online import answer
from serving.corun.samples import TIME
from serving.corun.schemas import OnlineRequest, Run, SoloRun, StaticRequest
from serving.corun.static import Question, ask, machine_of
from serving.doors.bodies import Answered, request_of
from training.corun.known_tasks import KnownTasks


def answer_static(body: bytes, static: Static) -> Answered:
    """Predict the co-runs of a request.

    Raises
    ------
    RefusedError
        400 if the body is not JSON, 422 if it is not a request.
    InputError
        If a task or a machine is unknown.
    """
    request = request_of(body, StaticRequest)
    known = _with_tasks(request.tasks, static) if request.tasks else static
    questions = [Question(one.task, tuple(one.corunners), one.machine) for one in request.coruns]
    return Answered.of(ask(questions, known))


def answer_online(body: bytes, online: Online) -> Answered:
    """Answer from the samples of a request; raises as `answer_static`, and if samples cannot be used."""
    request = request_of(body, OnlineRequest)
    solo, corun = _samples(request.solo, "solo"), _samples(request.corun, "corun")
    return Answered.of(answer(solo, corun, request.machine, online))


def _with_tasks(runs: list[SoloRun], static: Static) -> Static:
    """Add the solo runs of a request to those that the model knows."""
    rows: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        if AND in run.task:
            raise InputError(f'task="{run.task}" must be without "{AND}"', place=f"tasks[{number}]")
        machine = machine_of(run.machine, static)
        _require_events(run.events, TASK_DTYPES, f"tasks[{number}].events")
        about = {"task": run.task, "machine": machine, "solo_seconds": run.solo_seconds}
        before = sum(row["task"] == run.task and row["machine"] == machine for row in rows)
        counts = {name: np.nan if count is None else count for name, count in run.events.items()}
        rows.append({**about, "repetition": before + 1, **counts})
    others = KnownTasks.of(CorunTables.of_rows(rows, []))
    return replace(static, known=static.known.with_others(others))


def _samples(run: Run, name: str) -> pd.DataFrame:
    _require_events(run.events, SAMPLE_DTYPES, f"{name}.events")
    rows = len(run.t_seconds)
    for event, counts in run.events.items():
        if len(counts) != rows:
            problem = f"has {len(counts)} counts; expected {rows}, one per interval"
            raise InputError(problem, place=f"{name}.events.{event}")
    counted = {event: np.array(counts, np.float64) for event, counts in run.events.items()}
    return pd.DataFrame({TIME: run.t_seconds, **counted})


def _require_events(events: Iterable[str], columns: Collection[str], place: str) -> None:
    for event in events:
        if event in columns:
            raise InputError(f"{event!r} is no event", place=place)
