"""Micro-batching: small bodies of the same turn of the event loop are answered by one call."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from anyio import CapacityLimiter

from serving.http.batching import SMALL, TOGETHER, TURN, PendingBatch, RequestBatcher, ThreadedBatch
from serving.http.bodies import JSON, Answered

MODEL = object()


class Answering:
    def __init__(self):
        self.calls, self.alone = [], []

    def handle_batch(self, bodies, model):
        self.calls.append((list(bodies), model))
        if b"all" in bodies:
            raise RuntimeError("all")
        return [ValueError(body) if body == b"bad" else Answered(body) for body in bodies]

    def handle(self, body, model):
        self.alone.append((len(body), model))
        return Answered(body)


@pytest.mark.parametrize(
    ("bodies", "answers"),
    [([b"a", b"bad", b"b"], [b"a", "b'bad'", b"b"]), ([b"all", b"a"], ["all", "all"])],
    ids=["one is refused", "an error of the batch"],
)
def test_requests_of_a_batch_are_answered_individually(bodies, answers):
    answering = Answering()

    async def asked():
        waiting = PendingBatch(answering.handle_batch)
        asks = [waiting.answer_body(body, MODEL) for body in bodies]
        return await asyncio.gather(*asks, return_exceptions=True)

    found = asyncio.run(asked())
    assert [one.content if isinstance(one, Answered) else str(one) for one in found] == answers
    assert answering.calls == [(bodies, MODEL)]


def test_the_event_loop_runs_between_batches_of_one_model():
    answering, turns = Answering(), []
    half, later = b"x" * (TURN // 2), object()

    async def asked():
        waiting = PendingBatch(answering.handle_batch)
        asks = [waiting.answer_body(half, MODEL if place < 3 else later) for place in range(4)]
        answers = asyncio.gather(*asks)
        while not answers.done():
            turns.append(len(answering.calls))
            await asyncio.sleep(0)
        assert len(await answers) == 4

    asyncio.run(asked())
    assert [(len(bodies), model) for bodies, model in answering.calls] == [(2, MODEL), (1, MODEL), (1, later)]
    assert {0, 1, 3} <= set(turns)


def test_a_cancelled_request_does_not_block_its_batch():
    async def asked():
        waiting = PendingBatch(Answering().handle_batch)
        gone, there = (asyncio.ensure_future(waiting.answer_body(body, MODEL)) for body in (b"a", b"b"))
        await asyncio.sleep(0)
        gone.cancel()
        return (await there).content

    assert asyncio.run(asked()) == b"b"


def test_bodies_gather_while_a_thread_answers_others():
    answering, free = Answering(), threading.Event()

    def handle_batch(bodies, model):
        free.wait(10)
        return answering.handle_batch(bodies, model)

    async def asked():
        waiting, asks = ThreadedBatch(handle_batch, CapacityLimiter(1)), []
        for bodies in ([b"a"], [*[b"b"] * TOGETHER, b"bad"]):
            asks += [asyncio.ensure_future(waiting.answer_body(body, MODEL)) for body in bodies]
            await asyncio.sleep(0.01)
        free.set()
        return await asyncio.gather(*asks, return_exceptions=True)

    *answers, bad = asyncio.run(asked())
    assert [answer.content for answer in answers] == [b"a", *[b"b"] * TOGETHER]
    assert str(bad) == "b'bad'"
    assert [len(bodies) for bodies, _ in answering.calls] == [1, TOGETHER, 1]


@pytest.mark.parametrize(
    ("media_type", "size", "loaded", "batched"),
    [(JSON, SMALL + 1, True, False), ("text/xml", 1, True, False), (JSON, 1, False, True)],
    ids=["large", "XML", "waited for the model"],
)
def test_requests_unsuited_for_batching_run_in_a_thread(media_type, size, loaded, batched):
    answering, body = Answering(), b"x" * size
    handlers = dict.fromkeys((JSON, "text/xml"), answering.handle)
    endpoint = SimpleNamespace(
        handle_batch=answering.handle_batch, batch_in_thread=False, handlers=handlers, champion_optional=False
    )
    model = SimpleNamespace(loaded_model=MODEL if loaded else None, ensure_loaded=lambda: MODEL)

    async def asked():
        return await RequestBatcher(endpoint, model, CapacityLimiter(1)).answer_body(media_type, body)

    answered, model = asyncio.run(asked())
    assert (answered.content, model) == (body, MODEL)
    assert answering.calls == ([([body], MODEL)] if batched else [])
    assert answering.alone == ([] if batched else [(size, MODEL)])


def test_bodies_that_come_shortly_after_another_share_its_thread():
    answering = Answering()

    async def asked():
        waiting = ThreadedBatch(answering.handle_batch, CapacityLimiter(1))
        first = asyncio.ensure_future(waiting.answer_body(b"a", MODEL))
        await asyncio.sleep(0)
        return await asyncio.gather(first, waiting.answer_body(b"b", MODEL))

    assert [answer.content for answer in asyncio.run(asked())] == [b"a", b"b"]
    assert answering.calls == [([b"a", b"b"], MODEL)]
