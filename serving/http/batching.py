"""Micro-batching per endpoint: small bodies are answered together, large ones each in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import groupby
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

from data.errors import InputError
from serving.http.bodies import JSON, Answered
from serving.http.models import HotReloadingModel
from serving.http.schemas import RefusedError
from serving.supply import Endpoint, Together

T = TypeVar("T")
#: The largest body, in bytes, that is answered where requests are read, and how much of all that waits is
#: answered before others are looked after.
SMALL = 32 * 1024


@dataclass(frozen=True)
class Pending:
    """A body, the model that was there when it came, and its answer to be."""

    body: bytes
    model: Any
    answer: asyncio.Future[Answered]


@dataclass
class Waiting:
    """Pending small bodies of one endpoint; those of one turn of the event loop are answered by one call.

    There is no added delay: a single body is answered alone.
    """

    together: Together
    _asked: list[Pending] = field(default_factory=list)

    async def answer(self, body: bytes, model: Any) -> Answered:
        """Return the answer to one body; raises the exceptions of its handler."""
        loop = asyncio.get_running_loop()
        if not self._asked:
            loop.call_soon(self._answer)
        asked = Pending(body, model, loop.create_future())
        self._asked.append(asked)
        return await asked.answer

    def _answer(self) -> None:
        now, self._asked = _turn(self._asked)
        if self._asked:
            asyncio.get_running_loop().call_soon(self._answer)
        for _, some in groupby(now, key=lambda one: id(one.model)):
            self._answer_some(list(some))

    def _answer_some(self, asked: list[Pending]) -> None:
        try:
            answers = self.together([one.body for one in asked], asked[0].model)
        except Exception as exc:  # noqa: BLE001 - goes to whoever waits
            answers = [exc] * len(asked)
        for one, answer in zip(asked, answers, strict=True):
            if one.answer.done():
                # the caller was cancelled
                continue
            if isinstance(answer, Answered):
                one.answer.set_result(answer)
            else:
                one.answer.set_exception(answer)


def _turn(asked: list[Pending]) -> tuple[list[Pending], list[Pending]]:
    """Split off what is answered now: one at least, and `SMALL` bytes at most."""
    size = 0
    for count, one in enumerate(asked):
        size += len(one.body)
        if count and size > SMALL:
            return asked[:count], asked[count:]
    return asked, []


@dataclass(frozen=True)
class RequestBatcher:
    """Runs the handlers of one endpoint, small JSON bodies in batches."""

    door: Endpoint
    model: HotReloadingModel | None
    limiter: CapacityLimiter
    waiting: Waiting | None

    @classmethod
    def of(cls, door: Endpoint, model: HotReloadingModel | None, limiter: CapacityLimiter) -> RequestBatcher:
        """Return the batcher of an endpoint; small bodies are batched only if the endpoint has `together`."""
        return cls(door, model, limiter, None if door.together is None else Waiting(door.together))

    async def answer(self, media_type: str, body: bytes) -> tuple[Answered, Any]:
        """Return the answer to a body and the model used; raises as the handler and `loaded` do."""
        if self.waiting is not None and media_type == JSON and len(body) <= SMALL:
            model = None if self.model is None else self.model.loaded
            if self.model is None or model is not None:
                return await self.waiting.answer(body, model), model
        return await to_the_end(partial(self._answer, media_type, body), self.limiter)

    def _answer(self, media_type: str, body: bytes) -> tuple[Answered, Any]:
        model = None if self.model is None else loaded(self.model, without=self.door.without)
        return self.door.handlers[media_type](body, model), model


def loaded(model: HotReloadingModel, *, without: bool = False) -> Any:
    """Return a loaded model, or None if `without` and no champion exists; else RefusedError with 503."""
    try:
        return model.get()
    except InputError as exc:
        if without and model.absent:
            return None
        raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(exc)) from exc


async def to_the_end(work: Callable[[], T], limiter: CapacityLimiter) -> T:
    """Run `work` in a thread and return its result.

    A caller that is cancelled while waiting for the limiter gives up its place. Work that has started cannot
    be
    stopped: it occupies the limiter until it ends, and its result is discarded.
    """
    place = object()
    await limiter.acquire_on_behalf_of(place)
    begun = asyncio.ensure_future(to_thread.run_sync(work))
    begun.add_done_callback(lambda _: limiter.release_on_behalf_of(place))
    return await asyncio.shield(begun)
