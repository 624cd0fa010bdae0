"""``/v1/labels``: labels are put, and read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import pandas as pd
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from data.comparisons.labels.label_store import (
    AT_ONCE,
    Added,
    AwayError,
    GivenLabel,
    KeyTakenError,
    LabelStore,
    NewerError,
    Status,
    TooManyError,
)
from data.comparisons.tables import CANNOT_TELL, ComparisonTables
from data.errors import InputError
from data.paths import Places
from serving.http import schemas
from serving.http.authentication import HEADER, holder
from serving.http.bodies import JSON, BareRoute, body_of, media_type_of, request_of
from serving.http.schemas import RefusedError
from serving.supply import Options
from training.registry.champions import project_root

STARTUP_LOG = logging.getLogger("perfjudge")
#: Labels that one person may give in a minute: more than anybody reads.
RATE = 240


def default_address() -> str:
    """Return where the project keeps its labels."""
    return f"sqlite:///{project_root() / 'labels.db'}"


def begun(options: Options) -> Options:
    """Add what is taken by default, and look whether labels can be kept.

    Raises InputError if the address is none, a newer perfjudge has written the database, the file is none of
    SQLite, its directory is missing, or there are no such comparisons. PostgreSQL that does not answer may do
    so later.
    """
    taken = {"labels": default_address(), "comparisons": ingested(), "label_rate": RATE, **options}
    store = LabelStore(taken["labels"])
    file = store.place.file
    if file is not None and not file.absolute().parent.is_dir():
        raise InputError(
            "there is no such directory; expected one in which labels are kept", file=file.parent
        )
    try:
        store.look()
    except AwayError as exc:
        if isinstance(exc, NewerError) or file is not None:
            raise
        STARTUP_LOG.warning("%s; until then, labels are refused", exc)
    finally:
        store.close()
    if taken["comparisons"] is not None and not Path(taken["comparisons"]).exists():
        raise InputError("no such file or directory", file=taken["comparisons"])
    return taken


def ingested() -> str | None:
    """Return where the project's pipeline keeps its comparisons; None before it has any."""
    directory = Places("comparisons", project_root()).interim
    return str(directory) if (directory / "comparisons.parquet").is_file() else None


class Labellable(Protocol):
    """Comparisons that may be labelled."""

    def identifier(self, name: str) -> str | None:
        """Return the comparison_id that `name`, itself one or the key of a page, stands for; None if none."""


#: What cannot be seen, or changes how the rest is seen: controls, marks of direction, odd blanks.
_UNSEEN = (
    r"\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    r"\ue000-\uf8ff\ufe00-\ufe0f\ufeff\ufff0-\uffff"
)
#: A person's name.
PERSON = rf"^[^ {_UNSEEN}]([^{_UNSEEN}]{{0,62}}[^ {_UNSEEN}])?$"
KEY = r"^[A-Za-z0-9._:-]{1,100}$"
Person = Annotated[str, StringConstraints(pattern=PERSON)]
Key = Annotated[str, StringConstraints(pattern=KEY)]


class LabelRequest(BaseModel):
    """What a person says of a comparison."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"status": "fail", "key": "4f0c2b7e", "labelled_by": "anna", "saw_verdict": False}]
        },
    )

    status: Status | None = Field(
        description="null withdraws what the person said before; cannot_tell never counts as pass or fail."
    )
    key: Key = Field(
        description="Chosen by who sends it: sent again with the same key, it is the same label."
    )
    labelled_by: Person | None = Field(
        default=None, description="Who says so: the token's name, also if it is left out."
    )
    saw_verdict: bool | None = Field(
        default=None, description="Whether the model's verdict was shown before; null: nobody knows."
    )


class SignedLabelRequest(LabelRequest):
    """What a person says of a comparison, where no token tells who that is."""

    labelled_by: Person = Field(description="Who says so.")


class LabelEntry(BaseModel):
    """A label that is kept."""

    model_config = ConfigDict(from_attributes=True)

    number: int
    comparison_id: str
    status: Status | None
    labelled_by: str
    labelled_at: datetime
    saw_verdict: bool | None
    model: str = Field(description="Whose verdict was shown; empty if none was.")


class LabelHistory(BaseModel):
    """All that people said of a comparison, the oldest first."""

    comparison_id: str
    history: list[LabelEntry]


class LabelAnswer(BaseModel):
    """The label that is kept, and all that people said of the comparison, the oldest first."""

    model_config = ConfigDict(from_attributes=True)

    label: LabelEntry
    history: list[LabelEntry]


class CurrentLabel(BaseModel):
    """What a person says of a comparison now."""

    comparison_id: str
    status: Status
    labelled_by: str
    labelled_at: datetime


class CurrentLabels(BaseModel):
    """What everybody says now; withdrawn labels are left out."""

    labels: list[CurrentLabel]


_LABEL = ["comparison_id", "annotator", "status"]


def unseen(app: FastAPI) -> int | None:
    """Count current labels that the pipeline has not ingested; None if the store does not answer."""
    store: LabelStore | None = app.state.labels
    if store is None:
        return None
    try:
        kept = store.current()
        kept = kept[kept["status"] != CANNOT_TELL]
    except AwayError:
        return None
    file = Places("comparisons", project_root()).interim / "labels.parquet"
    try:
        ingested = ComparisonTables.SPECS["labels"].read(file)
    except InputError:
        return len(kept)
    known = pd.MultiIndex.from_frame(ingested[_LABEL])
    return int((~pd.MultiIndex.from_frame(kept[_LABEL]).isin(known)).sum())


class Adding:
    """Adds the labels of one process.

    `most`: how many labels a person may give in a minute.
    """

    def __init__(self, store: LabelStore, most: int) -> None:
        self._store, self._most = store, most
        self._thread = CapacityLimiter(1)
        self._coming: list[tuple[GivenLabel, asyncio.Future[Added | Exception]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def add(self, label: GivenLabel) -> Added:
        """Add one label; raises what `LabelStore.add_all` returns or raises."""
        coming: asyncio.Future[Added | Exception] = asyncio.get_running_loop().create_future()
        self._coming.append((label, coming))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        added = await coming
        if isinstance(added, Exception):
            raise added
        return added

    async def _write(self) -> None:
        while self._coming:
            some, self._coming = self._coming[:AT_ONCE], self._coming[AT_ONCE:]
            labels, coming = zip(*some, strict=True)
            try:
                found: Sequence[Added | Exception] = await to_thread.run_sync(
                    self._store.add_all, labels, self._most, limiter=self._thread
                )
            except Exception as exc:  # noqa: BLE001 - goes to whoever waits
                found = [exc] * len(some)
            for one, added in zip(coming, found, strict=True):
                # who waited may be gone
                if not one.done():
                    one.set_result(added)


T = TypeVar("T")
LOG = logging.getLogger("perfjudge.labels")
PATH = "/v1/labels"
#: Bytes of a request.
LIMIT = 16 * 1024
AWAY = "the store of labels does not answer; a label is to be sent again, with the same key"
#: Seconds after which to try again: a store that does not answer, and what came too quickly.
_AWAY, _QUICK = "2", "5"
_TEXT = {"type": "string"}
_ID = {"name": "comparison_id", "in": "path", "required": True, "schema": {**_TEXT, "minLength": 1}}
_FORGERY = {
    "name": HEADER,
    "in": "header",
    "schema": _TEXT,
    "description": "What pages of this server send; programs don't need it.",
}


def install(app: FastAPI) -> None:
    """Let `app`, whose ``state`` has a ``pool``, take and tell labels; the ``state`` gets ``labels``.

    They are None where the server was told of no place for them.
    """
    options = app.state.settings.options
    address = options.get("labels")
    app.state.labels = None if address is None else LabelStore(address)
    app.state.troubles.append(lambda: AWAY if app.state.labels and app.state.labels.away else None)
    app.add_exception_handler(AwayError, _away)
    kind = SignedLabelRequest if app.state.settings.tokens is None else LabelRequest
    batcher = LabelDesk(app, kind, options.get("label_rate") or RATE)
    one = f"{PATH}/{{comparison_id:path}}"
    for path, method, endpoint, answer, refusals, described in (
        (one, "PUT", batcher.put, LabelAnswer, (400, 403, 404, 409, 413, 415, 422, 429, 503), _put(kind)),
        (one, "GET", batcher.history, LabelHistory, (404, 503), {"parameters": [_ID]}),
        (PATH, "GET", batcher.current, CurrentLabels, (503,), {}),
    ):
        app.router.add_api_route(
            path,
            endpoint,
            route_class_override=BareRoute,
            methods=[method],
            name=f"label_{endpoint.__name__}",
            response_model=answer,
            openapi_extra=described,
            responses=schemas.responses(*refusals),
        )


@dataclass
class LabelDesk:
    """Answers requests about labels."""

    app: FastAPI
    kind: type[LabelRequest]  # of requests
    most: int  # how many labels a person may give in a minute
    adding: Adding | None = None  # what keeps them, from the first one on
    # a store that hangs keeps no thread busy that others need
    #: those in which the store is asked
    threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))

    async def put(self, request: Request) -> Response:
        """Keep what a person says of a comparison."""
        media_type_of(request, [JSON])
        asked = request_of(await body_of(request, LIMIT), self.kind)
        store = self._store()
        label = self._given(request, asked, await self._identifier(request.path_params["comparison_id"]))
        if self.adding is None:
            self.adding = Adding(store, self.most)
        try:
            added = await self.adding.add(label)
        except KeyTakenError as exc:
            raise RefusedError(HTTPStatus.CONFLICT, str(exc)) from exc
        except TooManyError as exc:
            told = f"{exc}: at most {self.most} labels in a minute"
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, told, {"retry-after": _QUICK}) from exc
        if added.fresh:
            self._tell(label)
        return _json(LabelAnswer.model_validate(added))

    async def history(self, request: Request) -> Response:
        """Tell all that people said of a comparison."""
        comparison_id = request.path_params["comparison_id"]
        found = await self._read(partial(self._store().history, comparison_id))
        history = [LabelEntry.model_validate(one) for one in found]
        if not history:
            await self._identifier(comparison_id)
        return _json(LabelHistory(comparison_id=comparison_id, history=history))

    async def current(self, _request: Request) -> Response:
        """Tell what everybody says now."""
        labels = await self._read(self._store().current)
        rows = labels.drop(columns="annotator").to_dict("records")
        return _json(CurrentLabels(labels=rows))

    async def _read(self, ask: Callable[[], T]) -> T:
        return await to_thread.run_sync(ask, limiter=self.threads)

    def _store(self) -> LabelStore:
        store: LabelStore | None = self.app.state.labels
        if store is None:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, "no labels are kept here; perfjudge serve --labels URL"
            )
        return store

    async def _identifier(self, name: str) -> str:
        """Return the comparison_id of an offered comparison; 404 if there is none of this name or key."""
        pool: Labellable | None = self.app.state.pool
        try:
            found = None if pool is None else await self._read(partial(pool.identifier, name))
        except InputError as exc:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, f"the comparisons cannot be read: {exc}"
            ) from exc
        if found is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, f"there is no comparison {name[:200]!r}")
        return found

    def _given(self, request: Request, asked: LabelRequest, comparison_id: str) -> GivenLabel:
        model = self.app.state.models.get("model")
        ref = None if model is None or not asked.saw_verdict else model.ref
        return GivenLabel(
            comparison_id,
            asked.status,
            _person(request, asked),
            asked.key,
            asked.saw_verdict,
            "" if ref is None else f"{ref.name} {ref.version}",
        )

    def _tell(self, label: GivenLabel) -> None:
        status = label.status or "withdrawn"
        self.app.state.metrics.labels.labels(status).inc()
        told = {"labelled_by": label.labelled_by, "comparison_id": label.comparison_id, "label": status}
        LOG.info("%s says %s of %r", label.labelled_by, status, label.comparison_id, extra=told)


def _person(request: Request, asked: LabelRequest) -> str:
    """Return who labels: whoever has the token, where one is needed."""
    token = holder(request.scope)
    if token is None:
        # what a server without tokens takes has a name
        return asked.labelled_by or ""
    if asked.labelled_by not in {None, token.name}:
        told = f'the token is that of "{token.name}", labelled_by="{asked.labelled_by}" is not'
        raise RefusedError(HTTPStatus.FORBIDDEN, told)
    return token.name


def _json(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), media_type=JSON)


async def _away(_request: Request, exc: Exception) -> Response:
    LOG.warning("%s", exc)
    return schemas.answer(HTTPStatus.SERVICE_UNAVAILABLE, AWAY, {"retry-after": _AWAY})


def _put(kind: type[LabelRequest]) -> dict[str, Any]:
    """Return what OpenAPI says of a request to put a label."""
    body = {"required": True, "content": {JSON: {"schema": kind.model_json_schema()}}}
    return {"parameters": [_ID, _FORGERY], "requestBody": body}
