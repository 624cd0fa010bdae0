"""Batching per endpoint: small bodies are answered together, large ones each in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import accumulate, groupby, islice
from typing import Any, Generic, NamedTuple, TypeVar

from anyio import CapacityLimiter, to_thread

from data.errors import InputError
from serving.http.bodies import JSON, Answered
from serving.http.models import HotReloadingModel
from serving.http.schemas import RefusedError
from serving.plugins import Endpoint, HandleBatch

T = TypeVar("T")
Body = TypeVar("Body")
Result = TypeVar("Result")
#: Maximum size in bytes of a body that is answered in the event loop, and of all bodies answered in one turn.
SMALL, TURN = 32 * 1024, 128 * 1024
#: Maximum size in bytes of a body that is answered with others in a thread, and their maximum number.
MEDIUM, TOGETHER = 256 * 1024, 16
#: Seconds without a further body after which a batch for a thread is complete; clients that were answered
#: together send their next bodies within this time.
GATHER = 0.001


class Pending(NamedTuple, Generic[Body, Result]):
    """A body, the model that was loaded when it came, and its future answer."""

    body: Body
    model: Any
    answer: asyncio.Future[Result]


@dataclass
class PendingBatch:
    """Pending small bodies of one endpoint; those that arrive together are answered by one call.

    A batch is complete when a turn of the event loop brings no further body, which delays a single body by
    one turn.
    """

    handle_batch: HandleBatch
    _pending: list[Pending[bytes, Answered]] = field(default_factory=list)
    _n_before: int = 0  # number of bodies pending one turn earlier

    async def answer_body(self, body: bytes, model: Any) -> Answered:
        """Return the answer to one body; raises the exceptions of its handler."""
        loop = asyncio.get_running_loop()
        if not self._pending:
            loop.call_soon(self._answer_pending)
        answer: asyncio.Future[Answered] = loop.create_future()
        self._pending.append(Pending(body, model, answer))
        return await answer

    def _answer_pending(self) -> None:
        """Answer at least one body and at most `TURN` bytes; leave the rest to the next turn."""
        if len(self._pending) > self._n_before:
            self._n_before = len(self._pending)
            asyncio.get_running_loop().call_soon(self._answer_pending)
            return
        sizes = accumulate(len(request.body) for request in self._pending)
        count = max(1, sum(size <= TURN for size in sizes))
        batch, self._pending = self._pending[:count], self._pending[count:]
        self._n_before = len(self._pending)
        if self._pending:
            asyncio.get_running_loop().call_soon(self._answer_pending)
        for _, same_model in groupby(batch, key=lambda request: id(request.model)):
            requests = list(same_model)
            _deliver_answers(requests, _compute_answers(self.handle_batch, requests))


@dataclass
class ThreadedBatch(Generic[Body, Result]):
    """Pending bodies of one endpoint, answered in a thread when `gather` seconds bring no further body."""

    handle_batch: Callable[[Sequence[Body], Any], Sequence[Result | Exception]]
    limiter: CapacityLimiter
    gather: float = GATHER
    max_together: int = TOGETHER
    _pending: list[Pending[Body, Result]] = field(default_factory=list)
    _running: asyncio.Future[None] | None = None

    async def answer_body(self, body: Body, model: Any) -> Result:
        """Return the answer to one body; raises the exceptions of its handler."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._pending.append(Pending(body, model, answer))
        if self._running is None:
            self._running = asyncio.ensure_future(self._answer_pending())
        return await answer

    async def _answer_pending(self) -> None:
        """Answer all pending bodies, at most `max_together` of one model at a time."""
        try:
            while self._pending:
                n_before = 0
                while n_before < len(self._pending) < self.max_together:
                    n_before = len(self._pending)
                    await asyncio.sleep(self.gather)
                first = islice(self._pending, self.max_together)
                batch = list(next(groupby(first, key=lambda request: id(request.model)))[1])
                del self._pending[: len(batch)]
                compute = partial(_compute_answers, self.handle_batch, batch)
                _deliver_answers(batch, await run_in_thread(compute, self.limiter))
        finally:
            self._running = None


def _compute_answers(
    handle_batch: Callable[[Sequence[Body], Any], Sequence[Result | Exception]],
    requests: Sequence[Pending[Body, Any]],
) -> Sequence[Result | Exception]:
    try:
        return handle_batch([request.body for request in requests], requests[0].model)
    except Exception as exc:  # noqa: BLE001 - raised again where the answers are awaited
        return [exc] * len(requests)


def _deliver_answers(
    requests: Sequence[Pending[Body, Result]], answers: Sequence[Result | Exception]
) -> None:
    for request, answer in zip(requests, answers, strict=True):
        if request.answer.done():
            pass  # the caller was cancelled
        elif isinstance(answer, Exception):
            request.answer.set_exception(answer)
        else:
            request.answer.set_result(answer)


class RequestBatcher:
    """Runs the handlers of one endpoint, JSON bodies below a limit in batches if it has a `handle_batch`."""

    def __init__(self, endpoint: Endpoint, model: HotReloadingModel | None, limiter: CapacityLimiter) -> None:
        self._endpoint, self._model, self._limiter = endpoint, model, limiter
        self._batch: PendingBatch | ThreadedBatch[bytes, Answered] | None = None
        self._limit = MEDIUM if endpoint.batch_in_thread else SMALL
        if (handle := endpoint.handle_batch) is not None:
            self._batch = ThreadedBatch(handle, limiter) if endpoint.batch_in_thread else PendingBatch(handle)

    async def answer_body(self, media_type: str, body: bytes) -> tuple[Answered, Any]:
        """Return the answer to a body, and the model that gave it (None if the endpoint needs none).

        Raises the exceptions of the handler, and RefusedError with 503 if the model cannot be loaded.
        """
        if self._batch is not None and media_type == JSON and len(body) <= self._limit:
            model = None if self._model is None else self._model.loaded_model
            if self._model is not None and model is None:
                # bodies that wait for the model are answered together, too
                model = await run_in_thread(self._require_model, self._limiter)
            if self._model is None or model is not None:
                return await self._batch.answer_body(body, model), model
        return await run_in_thread(partial(self._handle_body, media_type, body), self._limiter)

    def _handle_body(self, media_type: str, body: bytes) -> tuple[Answered, Any]:
        model = self._require_model()
        return self._endpoint.handlers[media_type](body, model), model

    def _require_model(self) -> Any:
        if self._model is None:
            return None
        return require_model(self._model, champion_optional=self._endpoint.champion_optional)


def require_model(model: HotReloadingModel, *, champion_optional: bool = False) -> Any:
    """Return the model, loaded if needed; RefusedError with 503 if loading fails.

    With `champion_optional`, the result is None instead if the model has no address, hence is the champion,
    and the registry has none.
    """
    try:
        return model.ensure_loaded()
    except InputError as exc:
        if champion_optional and model.champion_missing:
            return None
        raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(exc)) from exc


async def run_in_thread(work: Callable[[], T], limiter: CapacityLimiter) -> T:
    """Run `work` in a thread and return its result, or raise its exception.

    A caller that is cancelled while waiting for the limiter gives up its place. Work that has started cannot
    be stopped: it occupies the limiter until it ends, and its result is discarded.
    """
    borrower = object()
    await limiter.acquire_on_behalf_of(borrower)
    running = asyncio.ensure_future(to_thread.run_sync(work))
    running.add_done_callback(lambda _: limiter.release_on_behalf_of(borrower))
    return await asyncio.shield(running)
