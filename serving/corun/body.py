"""Requests about co-runs become their answers; what is well-formed and cannot be answered says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.corun.formats import read
from data.corun.tables import CorunTables
from data.errors import InputError
from data.measure.perf_stat import TIME
from serving.corun.model import ONLINE, STATIC, Online, Static
from serving.corun.online_answer import CONFIDENCE, PROGRESS, answer
from serving.corun.schemas import (
    FirstSeconds,
    OnlineAnswer,
    OnlineRequest,
    SoloRun,
    StaticAnswer,
    StaticRequest,
)
from serving.corun.static import Question, ask_each, machine_of
from serving.http.bodies import JSON, Answered, request_of
from serving.supply import MEBIBYTE, Counts, Door, Registered

#: The largest body, in bytes.
LIMIT = 16 * MEBIBYTE


def doors(static: Registered, online: Registered) -> list[Door]:
    """Return the endpoints for co-runs before they run, and from their first seconds."""
    return [
        Door(
            "/v1/corun/static",
            "predict_coruns",
            "Tell how much slower tasks get beside others, before they run: from their solo runs.",
            StaticRequest,
            StaticAnswer,
            {JSON: answer_static},
            LIMIT,
            static,
            STATIC,
        ),
        Door(
            "/v1/corun/online",
            "sample_corun",
            "Tell how much slower a new task gets beside others, from its first seconds alone and with them.",
            OnlineRequest,
            OnlineAnswer,
            {JSON: answer_online},
            LIMIT,
            online,
            ONLINE,
            without=True,
        ),
    ]


def imported(kind: str, sources: list[Path], directory: Path, *, keep_going: bool) -> Counts:
    """Write the tables of co-runs to `directory`; errors as of `data.corun.formats.read`."""
    reading = read(kind, sources, keep_going=keep_going)
    tables = reading.tables
    tables.write(directory)
    rows = {
        "machines": tables.tasks["machine"].nunique(),
        "tasks": tables.tasks["task"].nunique(),
        "events": len(tables.events),
        "solo_runs": len(tables.tasks),
        "pairs": len(tables.pairs),
        "samples": len(tables.samples),
    }
    return Counts(rows, reading.skipped)


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
