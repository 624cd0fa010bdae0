"""HTTP requests about co-runs: model loaders, endpoints, and answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from data.corun.formats import read
from data.corun.synonyms import IntervalCounts
from data.corun.tables import SAMPLE_DTYPES, CorunTables
from data.errors import InputError
from data.tables.problems import shorten_names
from serving.corun.model import (
    IMPACTS,
    SECONDS,
    Online,
    Static,
    load_online,
    load_static,
    online_name,
    static_name,
)
from serving.corun.online_answer import CONFIDENCE, PROGRESS, predict_online
from serving.corun.schemas import (
    FirstSeconds,
    OnlineAnswer,
    OnlineRequest,
    ServedCorun,
    StaticAnswer,
    StaticRequest,
)
from serving.corun.solo_runs import add_solo_runs, match_events
from serving.corun.static import impact_matrix, predict_coruns, resolve_machine
from serving.http.bodies import JSON, Answered, request_of, result_or_error
from serving.models import Head
from serving.plugins import MEBIBYTE, Counts, Endpoint, Loader, Registered
from training.corun.stored import ImpactCard, OnlineCard
from training.registry.champions import Address


def _card_fields(described: Head | Static | Online) -> dict[str, Any]:
    card: ImpactCard | OnlineCard = described.card
    return {
        "estimator": card.model,
        "features": card.features if isinstance(card, ImpactCard) else card.events,
        "data_digest": card.data_digest,
        "machines": card.machines,
        "confidence": card.confidence,
    }


def _load_compiled(uri: Address = None) -> Static:
    static = load_static(uri)
    static.quick()
    return static


def _try_static(static: Static) -> None:
    machine, tasks = next(iter(static.known_tasks.tasks_by_machine.items()))
    impact = impact_matrix([min(tasks)], machine, static).item()
    if not impact > 0:
        raise ValueError(f"impact of {impact}")


def _try_online(online: Online) -> None:
    unchanged = np.zeros((1, len(online.model.card.events)))
    log_impact = np.asarray(online.model.model.second.predict(unchanged), np.float64).item()
    if not np.isfinite(log_impact):
        raise ValueError(f"impact of {log_impact}")


STATIC = Loader(static_name, _load_compiled, _card_fields, ServedCorun, IMPACTS.load_card, _try_static)
ONLINE = Loader(online_name, load_online, _card_fields, ServedCorun, SECONDS.load_card, _try_online)
#: Maximal size of a body in bytes.
LIMIT = 16 * MEBIBYTE


def corun_endpoints(static: Registered, online: Registered) -> list[Endpoint]:
    """Return the endpoints ``/v1/corun/static`` and ``/v1/corun/online`` with these registered models."""
    return [
        Endpoint(
            "/v1/corun/static",
            "predict_coruns",
            "Predict the slow-down of tasks that share a machine, before they run: from their solo runs.",
            StaticRequest,
            StaticAnswer,
            {JSON: answer_static},
            LIMIT,
            static,
            STATIC,
            handle_batch=answer_static_batch,
            batch_in_thread=True,
        ),
        Endpoint(
            "/v1/corun/online",
            "sample_corun",
            "Predict the slow-down of a new task from its first seconds, alone and with its co-runners.",
            OnlineRequest,
            OnlineAnswer,
            {JSON: answer_online},
            LIMIT,
            online,
            ONLINE,
            handle_batch=answer_online_batch,
            batch_in_thread=True,
            champion_optional=True,
        ),
    ]


def imported(kind: str, sources: list[Path], directory: Path, *, keep_going: bool) -> Counts:
    """Write the co-runs in `sources`, of the format `kind`, to tables in `directory`; count rows and errors.

    ``rows`` of the result has the numbers of ``machines, tasks, events, solo_runs, pairs, samples``;
    ``skipped`` has the errors. InputError, before anything is written, if a source cannot be read, or no pair
    or no solo run is left, and without `keep_going` at the first wrong row.
    """
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
    """Answer a request to predict co-runs before they run; RefusedError (400, 413 or 422) if it is invalid.

    Solo runs in the request are used for the co-runs of this request only; one without a machine is ignored,
    with a note, unless the model knows exactly one machine. Missing events get a note. A co-run for which
    `predict_corun` raises an InputError, such as that of an unknown task, gets no impact, but a note.
    ModelError if a prediction is not finite.
    """
    return _answer_request(request_of(body, StaticRequest), static)


def answer_static_batch(bodies: Sequence[bytes], static: Static) -> list[Answered | Exception]:
    """Answer several requests to predict co-runs before they run; return for each its answer or its error.

    An error is a RefusedError or a ModelError; it never affects other requests.
    """
    requests = [result_or_error(partial(request_of, body, StaticRequest)) for body in bodies]
    # requests with their own solo runs are answered separately
    batch = [request for request in requests if not isinstance(request, Exception) and not request.tasks]
    coruns = [corun for request in batch for corun in request.coruns]
    together = result_or_error(partial(predict_coruns, coruns, static))
    predictions = iter([] if isinstance(together, Exception) else together.predictions)

    def answer_request(request: StaticRequest | Exception) -> Answered | Exception:
        if isinstance(request, Exception):
            return request
        # co-runs that the model cannot predict must not fail the other requests
        if request.tasks or isinstance(together, Exception):
            return result_or_error(partial(_answer_request, request, static))
        update = {"predictions": list(islice(predictions, len(request.coruns)))}
        return Answered.from_schema(together.model_copy(update=update))

    return [answer_request(request) for request in requests]


def _answer_request(request: StaticRequest, static: Static) -> Answered:
    notes: list[str] = []
    rows = list(_task_rows(request, static, notes))
    if rows:
        static = add_solo_runs(static, CorunTables.from_rows(rows, []), "tasks")
    return Answered.from_schema(predict_coruns(request.coruns, static, [*notes, *static.notes]))


def answer_online(body: bytes, online: Online | None) -> Answered:
    """Answer a request to predict an impact from samples; RefusedError (400, 413 or 422) if it is invalid.

    `online` None: there is no trained model, and the impact is estimated from the progress of the task only.
    If samples are unusable, or the runs share no usable event, the answer has no impact, but a note.
    ModelError if the model's impact is not finite.
    """
    request = request_of(body, OnlineRequest)
    try:
        solo, corun = _interval_counts(request.solo, "solo"), _interval_counts(request.corun, "corun")
        prediction = predict_online(solo, corun, request.machine, online, whole=request.solo_is_whole)
    except InputError as exc:
        prediction = OnlineAnswer(
            model=PROGRESS if online is None else online.ref.model_answer,
            **dict.fromkeys(("impact", "low", "high")),
            confidence=CONFIDENCE if online is None else online.model.card.confidence,
            sampled_seconds=0.0,
            attributions=[],
            notes=[str(exc)],
        )
    return Answered.from_schema(prediction)


def answer_online_batch(bodies: Sequence[bytes], online: Online | None) -> list[Answered | Exception]:
    """Answer several requests one after the other; return for each its answer or its error (not raised).

    Requests in several threads would take turns at the interpreter, which takes longer.
    """
    return [result_or_error(partial(answer_online, body, online)) for body in bodies]


def _task_rows(request: StaticRequest, static: Static, notes: list[str]) -> Iterator[dict[str, Any]]:
    """Yield solo runs as rows of the table of tasks, with the model's events.

    Synonyms of events are renamed. Notes are added on runs and events that are not used, and on runs that
    replace those of the model. Runs of tasks without a co-run describe a machine that the model does not
    know; on others they have no effect.
    """
    events, known_tasks = static.known_tasks.counted_events, static.known_tasks.tasks_by_machine
    used = {name for corun in request.coruns for name in (corun.task, *corun.corunners)}
    for number, run in enumerate(request.tasks):
        try:
            machine = resolve_machine(run.machine, static)
        except InputError as exc:
            notes.append(f"tasks[{number}] is not used: {exc}")
            continue
        if machine in known_tasks and run.task not in used:
            notes.append(f'tasks[{number}] is not used: no co-run has "{run.task}"')
            continue
        if run.task in known_tasks.get(machine, ()):
            notes.append(f'tasks[{number}] replaces the model\'s solo run of "{run.task}" on "{machine}"')
        counts, source = dict.fromkeys(events, np.nan), dict[str, str]()
        names = match_events(run.events, counts)
        for written, name in names.items():
            count = run.events[written]
            if count is not None and (written == name or np.isnan(counts[name])):
                counts[name], source[name] = count, written
        unused = [
            written
            for written, count in run.events.items()
            if written not in names or (count is not None and source[names[written]] != written)
        ]
        if unused:
            notes.append(f"tasks[{number}]: events that the model does not use: {shorten_names(unused, 5)}")
        yield {
            "task": run.task,
            "machine": machine,
            "solo_seconds": run.solo_seconds,
            "repetition": number,
            **counts,
        }


def _interval_counts(run: FirstSeconds, name: str) -> IntervalCounts:
    rows = len(run.t_seconds)
    for event, counts in run.events.items():
        if len(counts) != rows:
            problem = f"has {len(counts)} counts; expected {rows}, one per interval"
            raise InputError(problem, place=f"{name}.events.{event}")
        if event in SAMPLE_DTYPES:
            raise InputError("is the name of a column of samples", place=f"{name}.events.{event}")
    counts_by_event = np.array(list(run.events.values()), np.float64)
    return IntervalCounts(tuple(run.events), np.array(run.t_seconds), counts_by_event.T)
