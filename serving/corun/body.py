"""Requests about co-runs become their answers; what is well-formed and cannot be answered says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from data.corun.tables import CorunTables
from data.errors import InputError
from data.measure.perf_stat import TIME
from serving.corun.model import Online, Static
from serving.corun.online.answer import CONFIDENCE, PROGRESS, answer
from serving.corun.schemas import FirstSeconds, OnlineAnswer, OnlineRequest, SoloRun, StaticRequest
from serving.corun.static import Question, ask_each, machine_of
from serving.http.bodies import Answered, request_of


def answer_static(body: bytes, static: Static) -> Answered:
    """Predict the co-runs of a request; of unknown tasks and machines it says that nothing can be told."""
    request = request_of(body, StaticRequest)
    notes: list[str] = []
    rows = list(_rows(request.tasks, static, notes))
    known = static
    if rows:
        known = replace(static, known=static.known.with_others(CorunTables.of_rows(rows, [])))
    questions = [Question(one.task, tuple(one.corunners), one.machine) for one in request.coruns]
    return Answered.of(ask_each(questions, known, notes))


def answer_online(body: bytes, online: Online | None) -> Answered:
    """Answer from the samples of a request, if they can be used; raises as `answer_static`."""
    request = request_of(body, OnlineRequest)
    try:
        solo, corun = (
            _samples(run, name) for name, run in (("solo", request.solo), ("corun", request.corun))
        )
        found = answer(solo, corun, request.machine, online, whole=request.solo_is_whole)
    except InputError as exc:
        found = OnlineAnswer(
            model=PROGRESS if online is None else online.ref.answer,
            impact=None,
            low=None,
            high=None,
            confidence=CONFIDENCE if online is None else online.model.card.confidence,
            sampled_seconds=0.0,
            drivers=[],
            notes=[str(exc)],
        )
    return Answered.of(found)


def _rows(runs: Sequence[SoloRun], static: Static, notes: list[str]) -> Iterator[dict[str, Any]]:
    """Yield solo runs as rows of the table of tasks, with the events that the model knows."""
    before: Counter[tuple[str, str]] = Counter()
    for number, run in enumerate(runs):
        try:
            machine = machine_of(run.machine, static)
        except InputError as exc:
            notes.append(f"tasks[{number}] is not used: {exc}")
            continue
        before[run.task, machine] += 1
        counts = {name: run.events.get(name) for name in static.known.events}
        yield {
            "task": run.task,
            "machine": machine,
            "solo_seconds": run.solo_seconds,
            "repetition": before[run.task, machine],
            **{name: np.nan if count is None else count for name, count in counts.items()},
        }


def _samples(run: FirstSeconds, name: str) -> pd.DataFrame:
    rows = len(run.t_seconds)
    for event, counts in run.events.items():
        if len(counts) != rows:
            problem = f"has {len(counts)} counts; expected {rows}, one per interval"
            raise InputError(problem, place=f"{name}.events.{event}")
        if event == TIME:
            raise InputError("is the name of the column of time", place=f"{name}.events.{event}")
    counted = {event: np.array(counts, np.float64) for event, counts in run.events.items()}
    return pd.DataFrame({TIME: run.t_seconds, **counted})
