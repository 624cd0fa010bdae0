"""Work that goes on in a thread when nobody waits for it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

T = TypeVar("T")


async def to_the_end(work: Callable[[], T], limiter: CapacityLimiter) -> T:
    """Do work in a thread.

    Whoever waits may be cancelled before it begins, and gives up his place in the queue. What has begun
    cannot be stopped: it keeps its place until it ends, and its result is thrown away.
    """
    place = object()
    await limiter.acquire_on_behalf_of(place)
    begun = asyncio.ensure_future(to_thread.run_sync(work))
    begun.add_done_callback(lambda _: limiter.release_on_behalf_of(place))
    return await asyncio.shield(begun)
