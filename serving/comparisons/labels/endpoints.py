"""The endpoints ``/v1/labels``: store and return labels."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, TypeVar

import pandas as pd
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

from data.comparisons.labels.label_store import (
    AT_ONCE,
    LONG_AGO,
    Added,
    IncompatibleStoreError,
    KeyTakenError,
    LabelStore,
    NewLabel,
    Status,
    TooManyLabelsError,
    UnreachableError,
)
from data.comparisons.tables import CANNOT_TELL, ComparisonTables
from data.errors import InputError
from data.paths import FamilyPaths
from data.people import PERSON
from data.tables.documents import JsonSection
from serving.http import schemas
from serving.http.authentication import HEADER, request_token
from serving.http.batching import ThreadedBatch
from serving.http.bodies import JSON, BareRoute, body_of, media_type_of, request_of
from serving.http.schemas import RefusedError
from serving.plugins import Options
from training.registry.champions import project_root

T = TypeVar("T")
STARTUP_LOG = logging.getLogger("perfjudge")
LOG = logging.getLogger("perfjudge.labels")
#: Most labels that one person may give in a minute: more than anyone can read.
RATE = 240
PATH = "/v1/labels"
#: Most bytes of a request.
LIMIT = 16 * 1024
AWAY = "the store of labels does not answer; a label is to be sent again, with the same key"
#: Seconds until a client may retry, without an answer of the store, and with too many labels.
_RETRY_AWAY, _RETRY_QUICK = "2", "5"


def default_address() -> str:
    """Return ``sqlite:///`` with the path of ``labels.db`` in `project_root()`; the file need not exist."""
    return f"sqlite:///{project_root() / 'labels.db'}"


def begun(options: Options) -> Options:
    """Return `options` with defaults for ``labels``, ``comparisons`` and ``label_rate``; check the store.

    The defaults are labels.db in the project, the project's ingested comparisons (None if there are none),
    and 240 labels per person and minute. Raises InputError if the address is invalid, the database was
    written by a newer perfjudge, the file cannot be read as an SQLite database, its directory is missing, or
    the comparisons do not exist. A PostgreSQL server may be unavailable, which is logged. An existing
    database gets its tables; a missing file is not created.
    """
    defaults = {"labels": default_address(), "comparisons": ingested_directory(), "label_rate": RATE}
    options = {**defaults, **options}
    with closing(LabelStore(options["labels"])) as store:
        file = store.address.sqlite_file
        if file is not None and not file.absolute().parent.is_dir():
            problem = "the directory does not exist; expected one for the store of labels"
            raise InputError(problem, file=file.parent)
        try:
            store.check_reachable()
        except UnreachableError as exc:
            if isinstance(exc, IncompatibleStoreError) or file is not None:
                raise
            STARTUP_LOG.warning("%s; until then, labels are refused", exc)
    if options["comparisons"] is not None and not Path(options["comparisons"]).exists():
        raise InputError("no such file or directory", file=options["comparisons"])
    return options


def ingested_directory() -> str | None:
    """Return the directory of the project's ingested comparisons; None before the pipeline has run."""
    directory = FamilyPaths("comparisons", project_root()).interim
    return str(directory) if (directory / "comparisons.parquet").is_file() else None


def count_new_labels(app: FastAPI) -> int | None:
    """Return the number of current labels pass and fail that the pipeline has not ingested.

    Current is the last label of each annotator on each comparison. An ingested label has an equal comparison,
    annotator and status. None if there is no store, or the store does not answer. All count if the table of
    ingested labels is missing or cannot be read.
    """
    store: LabelStore | None = app.state.labels
    if store is None:
        return None
    try:
        current = store.current_labels()
    except UnreachableError:
        return None
    current = current[current["status"] != CANNOT_TELL]
    file = FamilyPaths("comparisons", project_root()).interim / "labels.parquet"
    try:
        labels = ComparisonTables.SPECS["labels"].read(file)
    except InputError:
        return len(current)
    columns = ["comparison_id", "annotator", "status"]
    ingested_rows = pd.MultiIndex.from_frame(labels[columns])
    return int((~pd.MultiIndex.from_frame(current[columns]).isin(ingested_rows)).sum())


KEY = r"^[A-Za-z0-9._:-]{1,100}$"
_EXAMPLE: JsonDict = {"status": "fail", "key": "4f0c2b7e", "labelled_by": "anna", "saw_verdict": False}
Person = Annotated[str, StringConstraints(pattern=PERSON)]
Key = Annotated[str, StringConstraints(pattern=KEY)]


class LabelRequest(JsonSection):
    """A person's label of a comparison."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    status: Status | None = Field(
        description="null withdraws the person's previous label; cannot_tell counts as neither pass nor fail."
    )
    key: Key = Field(description="Idempotency key, chosen by the client: an equal key is the same label.")
    labelled_by: Person | None = Field(
        default=None, description="The annotator; by default, and necessarily, the token's name."
    )
    saw_verdict: bool | None = Field(
        default=None, description="Whether the annotator saw the model's verdict before; null: unknown."
    )


class SignedLabelRequest(LabelRequest):
    """A person's label of a comparison, on a server without tokens."""

    labelled_by: Person = Field(description="The annotator.")


#: The time of a label; the store has `LONG_AGO` for labels that were imported without one.
LabelTime = Annotated[
    datetime | None,
    BeforeValidator(lambda at: None if at == LONG_AGO else at),
    Field(description="UTC; null if unknown."),
]


class LabelEntry(BaseModel):
    """A stored label."""

    model_config = ConfigDict(from_attributes=True)

    number: int
    comparison_id: str
    status: Status | None
    labelled_by: str
    labelled_at: LabelTime
    saw_verdict: bool | None
    model: str = Field(description="The model whose verdict was shown; empty if none was.")


class LabelHistory(BaseModel):
    """All labels of a comparison, the oldest first."""

    comparison_id: str
    history: list[LabelEntry]


class LabelAnswer(BaseModel):
    """The stored label, and all labels of its comparison, the oldest first."""

    model_config = ConfigDict(from_attributes=True)

    label: LabelEntry
    history: list[LabelEntry]


class CurrentLabel(BaseModel):
    """A person's current label of a comparison."""

    comparison_id: str
    status: Status
    labelled_by: str
    labelled_at: LabelTime


class CurrentLabels(BaseModel):
    """All current labels, without withdrawn ones."""

    labels: list[CurrentLabel]


def install_endpoints(app: FastAPI) -> None:
    """Add PUT and GET ``/v1/labels/COMPARISON_ID`` and GET ``/v1/labels`` to `app`.

    ``app.state`` must have ``settings`` (tokens, and the options ``labels``, the store's address, and
    ``label_rate``, the most labels per person and minute, by default 240) and ``failure_checks``; before the
    first request, also ``pool``, ``models`` and ``metrics``. Sets ``app.state.labels``, None without an
    address (then requests get 503), and adds a failure check for an unreachable store, which is not contacted
    here. InputError if the address is invalid.
    """
    options = app.state.settings.options
    address = options.get("labels")
    app.state.labels = store = None if address is None else LabelStore(address)
    app.state.failure_checks.append(lambda: AWAY if store and store.is_unreachable else None)
    app.add_exception_handler(UnreachableError, _store_away)
    kind = SignedLabelRequest if app.state.settings.tokens is None else LabelRequest
    rate = options.get("label_rate") or RATE
    writing = ThreadedBatch[NewLabel, Added](
        lambda labels, store: store.add_all(labels, rate), CapacityLimiter(1), 0, AT_ONCE
    )
    handlers = LabelHandlers(app, kind, rate, writing)
    comparison = f"{PATH}/{{comparison_id:path}}"
    text, origin = {"type": "string"}, "Sent by pages of this server; not needed by programs."
    by_id = {"name": "comparison_id", "in": "path", "required": True, "schema": {**text, "minLength": 1}}
    put = {
        "parameters": [by_id, {"name": HEADER, "in": "header", "schema": text, "description": origin}],
        "requestBody": {"required": True, "content": {JSON: {"schema": kind.model_json_schema()}}},
    }
    refusals = (400, 403, 404, 409, 413, 415, 422, 429, 503)
    for path, method, endpoint, answer, statuses, described in (
        (comparison, "PUT", handlers.put, LabelAnswer, refusals, put),
        (comparison, "GET", handlers.history, LabelHistory, (404, 503), {"parameters": [by_id]}),
        (PATH, "GET", handlers.current, CurrentLabels, (503,), {}),
    ):
        app.router.add_api_route(
            path,
            endpoint,
            route_class_override=BareRoute,
            methods=[method],
            name=f"label_{endpoint.__name__}",
            response_model=answer,
            openapi_extra=described,
            responses=schemas.refusal_responses(*statuses),
        )


@dataclass
class LabelHandlers:
    """The handlers of requests about labels."""

    app: FastAPI
    kind: type[LabelRequest]  # of requests
    max_per_minute: int  # labels that one person may give in a minute
    writing: ThreadedBatch[NewLabel, Added]  # adds the labels of one process to a store, in batches
    #: threads that read the store; separate, so that a store that hangs does not block other requests
    threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))

    async def put(self, request: Request) -> Response:
        """Store a label of a comparison, and return its history."""
        media_type_of(request, [JSON])
        posted = request_of(await body_of(request, LIMIT), self.kind)
        store = self._require_store()
        comparison_id = await self._find_identifier(request.path_params["comparison_id"])
        model = self.app.state.models.get("model")
        ref = None if model is None or not posted.saw_verdict else model.ref
        seen, person = "" if ref is None else f"{ref.name} {ref.version}", _request_annotator(request, posted)
        label = NewLabel(comparison_id, posted.status, person, posted.key, posted.saw_verdict, seen)
        try:
            added = await self.writing.answer_body(label, store)
        except KeyTakenError as exc:
            raise RefusedError(HTTPStatus.CONFLICT, str(exc)) from exc
        except TooManyLabelsError as exc:
            detail = f"{exc}: at most {self.max_per_minute} labels in a minute"
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, detail, {"retry-after": _RETRY_QUICK}) from exc
        if added.fresh:
            status = label.status or "withdrawn"
            self.app.state.metrics.labels.labels(status).inc()
            extra = {"labelled_by": person, "comparison_id": comparison_id, "label": status}
            LOG.info("%s says %s of %r", person, status, comparison_id, extra=extra)
        return _json_response(LabelAnswer.model_validate(added))

    async def history(self, request: Request) -> Response:
        """Return all labels of a comparison."""
        comparison_id, store = request.path_params["comparison_id"], self._require_store()
        labels = await self._read_in_thread(partial(store.label_history, comparison_id))
        if not labels:
            comparison_id = await self._find_identifier(comparison_id)
            labels = await self._read_in_thread(partial(store.label_history, comparison_id))
        history = [LabelEntry.model_validate(label) for label in labels]
        return _json_response(LabelHistory(comparison_id=comparison_id, history=history))

    async def current(self, _request: Request) -> Response:
        """Return all current labels."""
        labels = await self._read_in_thread(self._require_store().current_labels)
        rows = labels.drop(columns="annotator").to_dict("records")
        return _json_response(CurrentLabels(labels=rows))

    async def _read_in_thread(self, read: Callable[[], T]) -> T:
        return await to_thread.run_sync(read, limiter=self.threads)

    def _require_store(self) -> LabelStore:
        store: LabelStore | None = self.app.state.labels
        if store is None:
            detail = "no labels are kept here; perfjudge serve --labels URL"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, detail)
        return store

    async def _find_identifier(self, name: str) -> str:
        """Return the comparison_id of an offered comparison; RefusedError with status 404 without one."""
        find: Callable[[str], str | None] = self.app.state.pool.find_identifier
        try:
            identifier = await self._read_in_thread(partial(find, name))
        except InputError as exc:
            detail = f"the comparisons cannot be read: {exc}"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, detail) from exc
        if identifier is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, f"there is no comparison {name[:200]!r}")
        return identifier


def _request_annotator(request: Request, posted: LabelRequest) -> str:
    token = request_token(request.scope)
    if token is None:
        return posted.labelled_by or ""
    if posted.labelled_by not in {None, token.name}:
        detail = f'the token is that of "{token.name}", labelled_by="{posted.labelled_by}" is not'
        raise RefusedError(HTTPStatus.FORBIDDEN, detail)
    return token.name


def _json_response(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), media_type=JSON)


async def _store_away(_request: Request, exc: Exception) -> Response:
    LOG.warning("%s", exc)
    return schemas.problem_response(HTTPStatus.SERVICE_UNAVAILABLE, AWAY, {"retry-after": _RETRY_AWAY})
