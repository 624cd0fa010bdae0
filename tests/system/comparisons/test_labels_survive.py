"""Twenty people label at once while servers are killed: what was acknowledged is there, and nothing twice.

``PERFJUDGE_LABELS_EACH=200`` lets each of them give more labels.
"""

import asyncio
import json
import os
import time
from collections import Counter
from contextlib import suppress

import pytest
from sqlalchemy import select

from data.comparisons.labels.database import LABELS, StoreAddress
from data.comparisons.tables import ComparisonTables
from tests.imports import ROOT
from tests.ports import free_port
from tests.system.conftest import Listening

PEOPLE, EACH = 20, int(os.environ.get("PERFJUDGE_LABELS_EACH", "30"))
SOURCE = ROOT / "data/raw/measured"


class Person:
    """Labels one comparison after the other, and sends what was not acknowledged again."""

    def __init__(self, name, port, acknowledged):
        self.name, self.port, self.acknowledged = name, port, acknowledged
        self.connection = None

    async def label(self, comparison_ids):
        for number, comparison_id in enumerate(comparison_ids):
            key = f"{self.name}-{number}"
            given = {"status": ("pass", "fail")[number % 2], "key": key, "labelled_by": self.name}
            while (label := await self.sent(comparison_id, json.dumps(given))) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            self.acknowledged[key] = label
        await self.hung_up()

    async def hung_up(self):
        connection, self.connection = self.connection, None
        if connection is not None:
            connection[1].close()
            with suppress(OSError):
                await connection[1].wait_closed()

    async def sent(self, comparison_id, body):
        """Return the number of the label; None if nobody says that it is kept."""
        try:
            if self.connection is None:
                self.connection = await asyncio.open_connection("127.0.0.1", self.port)
            reader, writer = self.connection
            path = comparison_id.replace(" ", "%20")
            writer.write(
                f"PUT /v1/labels/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\n\r\n{body}".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            answer = json.loads(await reader.readexactly(int(length)))
        except (OSError, asyncio.IncompleteReadError):
            await self.hung_up()
            return None
        status = int(head.split(b" ", 2)[1])
        assert status in {200, 503}, answer
        return answer["label"]["number"] if status == 200 else None


async def reached(acknowledged, share):
    while len(acknowledged) < share * PEOPLE * EACH:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def labelled(port, accidents):
    """Let all label while each accident happens, at its share of all labels."""
    acknowledged = {}
    ids = ComparisonTables.SPECS["comparisons"].read(SOURCE / "comparisons.parquet")["comparison_id"].tolist()
    writing = [
        asyncio.create_task(Person(f"p{one}", port, acknowledged).label((ids[one * 20 :] + ids)[:EACH]))
        for one in range(PEOPLE)
    ]
    for share, accident in accidents:
        await reached(acknowledged, share)
        await asyncio.to_thread(accident)
    await asyncio.gather(*writing)
    return acknowledged


class Killed:
    """A server of labels that is killed, and started again at the same port."""

    def __init__(self, model, url):
        self.port = free_port()
        self.arguments = [
            *("--model", str(model), "--labels", url, "--comparisons", str(SOURCE)),
            *("--port", str(self.port)),
        ]
        self.server = Listening(*self.arguments)

    def again(self):
        self.server.process.kill()
        self.server.stop()
        self.server = Listening(*self.arguments)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_no_acknowledged_label_is_lost_or_kept_twice(kind, request, tmp_path, model_directory):
    accidents = []
    url = f"sqlite:///{tmp_path}/labels.db"
    if kind == "postgresql":
        database = request.getfixturevalue("postgres")
        url = database.url("survive")

        def crashed():
            database.kill()
            time.sleep(0.3)
            database.start()

        accidents.append((0.7, crashed))
    killed = Killed(model_directory, url)
    try:
        acknowledged = asyncio.run(labelled(killed.port, [(0.3, killed.again), *accidents]))
    finally:
        killed.server.stop()
    engine = StoreAddress.from_address(url).new_engine()
    with engine.connect() as connection:
        kept = [tuple(row) for row in connection.execute(select(LABELS.c.key, LABELS.c.number))]
    engine.dispose()
    assert len(kept) == len(acknowledged) == PEOPLE * EACH
    assert dict(kept) == acknowledged
    assert max(Counter(number for _, number in kept).values()) == 1
