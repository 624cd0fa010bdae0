"""Labels that come while others are being written are written together: one wait for the disk for all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from anyio import CapacityLimiter, to_thread

from data.comparisons.labels.store.given import Added, GivenLabel
from data.comparisons.labels.store.kept import AT_ONCE, LabelStore


@dataclass(frozen=True)
class Coming:
    """A label, and how it is kept."""

    label: GivenLabel
    added: asyncio.Future[Added | Exception]


class Adding:
    """Adds the labels of one process.

    Parameters
    ----------
    store : LabelStore
    most : int
        How many labels a person may give in a minute.
    """

    def __init__(self, store: LabelStore, most: int) -> None:
        self._store, self._most = store, most
        self._thread = CapacityLimiter(1)
        self._coming: list[Coming] = []
        self._writing: asyncio.Task[None] | None = None

    async def add(self, label: GivenLabel) -> Added:
        """Add one label; raises what `LabelStore.add_all` returns or raises."""
        one = Coming(label, asyncio.get_running_loop().create_future())
        self._coming.append(one)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        added = await one.added
        if isinstance(added, Exception):
            raise added
        return added

    async def _write(self) -> None:
        while self._coming:
            some, self._coming = self._coming[:AT_ONCE], self._coming[AT_ONCE:]
            for one, added in zip(some, await self._added(some), strict=True):
                # who waited may be gone
                if not one.added.done():
                    one.added.set_result(added)

    async def _added(self, some: list[Coming]) -> Sequence[Added | Exception]:
        try:
            labels = [one.label for one in some]
            return await to_thread.run_sync(self._store.add_all, labels, self._most, limiter=self._thread)
        except Exception as exc:  # noqa: BLE001 - goes to whoever waits
            return [exc] * len(some)
