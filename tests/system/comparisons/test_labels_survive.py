"""Twenty people label at once while servers are killed: what was acknowledged is there, and nothing twice.

``PERFJUDGE_LABELS_EACH=200`` lets each of them give more labels.
"""

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import select

from data.comparisons.labels.database import LABELS, StoreAddress
from data.comparisons.tables import ComparisonTables
from tests.imports import ROOT
from tests.ports import free_port
from tests.system.conftest import Listening

PEOPLE, EACH = 20, int(os.environ.get("PERFJUDGE_LABELS_EACH", "30"))
SOURCE = ROOT / "data/raw/measured"


def label_all(name, port, comparison_ids, acknowledged):
    """Label one comparison after the other, and send again what was not acknowledged."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}/v1/labels/", timeout=30) as client:
        for number, comparison_id in enumerate(comparison_ids):
            key = f"{name}-{number}"
            given = {"status": ("pass", "fail")[number % 2], "key": key, "labelled_by": name}
            while key not in acknowledged:
                with suppress(httpx.TransportError):
                    answer = client.put(quote(comparison_id), json=given)
                    assert answer.status_code in {200, 503}, answer.text
                    if answer.status_code == 200:
                        acknowledged[key] = answer.json()["label"]["number"]
                        break
                time.sleep(0.1)


def labelled(port, accidents):
    """Let all label while each accident happens, at its share of all labels; return numbers by key."""
    acknowledged = {}
    ids = ComparisonTables.SPECS["comparisons"].read(SOURCE / "comparisons.parquet")["comparison_id"].tolist()
    with ThreadPoolExecutor(PEOPLE) as people:
        writing = [
            people.submit(label_all, f"p{one}", port, (ids[one * 20 :] + ids)[:EACH], acknowledged)
            for one in range(PEOPLE)
        ]
        for share, accident in accidents:
            while len(acknowledged) < share * PEOPLE * EACH and not all(one.done() for one in writing):
                time.sleep(0.02)
            accident()
        for one in writing:
            one.result()
    return acknowledged


class Killed:
    """A server of labels that is killed, and started again at the same port."""

    def __init__(self, model, url):
        self.port = free_port()
        given = {"--model": model, "--labels": url, "--comparisons": SOURCE, "--port": self.port}
        self.arguments = [str(part) for option in given.items() for part in option]
        self.server = Listening(*self.arguments)

    def again(self):
        self.server.process.kill()
        self.server.stop()
        self.server = Listening(*self.arguments)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_no_acknowledged_label_is_lost_or_kept_twice(kind, request, tmp_path, model_directory):
    postgres = request.getfixturevalue("postgres") if kind == "postgresql" else None
    url = postgres.url("survive") if postgres else f"sqlite:///{tmp_path}/labels.db"

    def crash():
        postgres.kill()
        time.sleep(0.3)
        postgres.start()

    killed = Killed(model_directory, url)
    accidents = [(0.3, killed.again), *([(0.7, crash)] if postgres else [])]
    try:
        acknowledged = labelled(killed.port, accidents)
    finally:
        killed.server.stop()
    engine = StoreAddress.from_address(url).new_engine()
    with engine.connect() as connection:
        kept = [tuple(row) for row in connection.execute(select(LABELS.c.key, LABELS.c.number))]
    engine.dispose()
    assert len(kept) == len(acknowledged) == PEOPLE * EACH
    assert dict(kept) == acknowledged
    assert max(Counter(number for _, number in kept).values()) == 1
