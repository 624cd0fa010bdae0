"""Bodies that are made to keep a server busy, sent while another client looks at its health."""

import json
import re
import time
from threading import Event, Thread

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.system.conftest import Listening, comparison

MEBIBYTE = 2**20
JUDGE = "/v1/comparisons/judge"
#: Seconds in which the server answers any request, and in which it says that it runs.
LIMIT, HEALTHY = 60, 1.0
XML, JSON = "application/xml", "application/json"


def repeated(before, unit, after):
    """Return a function that makes a body of about a size, one unit again and again."""
    return lambda size: before + unit * (size // len(unit)) + after


def numbered(before, unit, after):
    """Return a function that makes a body of about a size, of units with different numbers."""
    many = len(unit % 100_000)
    return lambda size: before + b"".join(unit % number for number in range(size // many)) + after


WHOLE = json.dumps({"comparisons": [comparison()]}).encode()
SAMPLES, REST = re.fullmatch(rb'(.*"baseline": \[)[^]]*(\].*)', WHOLE).groups()
ATTRIBUTES = b" ".join(b'a%d=""' % number for number in range(99))
FAMILIES = {
    "attributes": (XML, numbered(b"<comparison_results", b' a%d="1"', b"/>")),
    "allowed attributes": (XML, repeated(b"<r>", b"<c " + ATTRIBUTES + b"/>", b"</r>")),
    "elements": (XML, repeated(b"<r>", b"<a/>", b"</r>")),
    "names": (XML, numbered(b"<r>", b"<n%d/>", b"</r>")),
    "a long name": (XML, repeated(b"<r><", b"n", b"/></r>")),
    "namespaces": (XML, numbered(b"<r>", b'<a xmlns:n%d="u"/>', b"</r>")),
    "depth": (XML, repeated(b"", b"<a>", b"")),
    "a long text": (XML, repeated(b"<r>", b"y", b"</r>")),
    "lines": (XML, repeated(b"<r>", b"\n", b"</r>")),
    "references": (XML, repeated(b"<r>", b"&#33;", b"</r>")),
    "comments": (XML, repeated(b"<r>", b"<!---->", b"</r>")),
    "a long comment": (XML, repeated(b"<r><!--", b"y", b"--></r>")),
    "sections": (XML, repeated(b"<r>", b"<![CDATA[]]>", b"</r>")),
    "instructions": (XML, repeated(b"<r>", b"<?a b?>", b"</r>")),
    "declarations": (XML, numbered(b"<!DOCTYPE r [", b'<!ENTITY e%d "x">', b"]><r/>")),
    "brackets": (JSON, repeated(b"", b"[", b"")),
    "empty lists": (JSON, repeated(b'{"comparisons":[', b"[],", b"[]]}")),
    "empty objects": (JSON, repeated(b"[", b"{},", b"{}]")),
    "keys": (JSON, numbered(b"{", b'"k%d":1,', b'"z":1}')),
    "escapes": (JSON, repeated(b'"', rb"\u0041", b'"')),
    "surrogates": (JSON, repeated(b'"', rb"\ud83d", b'"')),
    "digits": (JSON, repeated(b'{"comparisons":[0.', b"1", b"]}")),
    "a long number": (JSON, repeated(b'{"comparisons":[', b"1", b"]}")),
    "words for samples": (JSON, repeated(SAMPLES, b'"",', b"1.5" + REST)),
    "right samples": (JSON, repeated(SAMPLES, b"1.5,", b"1.5" + REST)),
    "noise": (JSON, repeated(b"", b"\xff\x00{", b"")),
}


@pytest.fixture(scope="module")
def server(model_directory):
    with Listening(
        "--model", model_directory, "--log-level", "warning", "--timeout", str(LIMIT)
    ) as listening:
        yield listening


def slowness():
    """Return how much longer this machine takes for a second of work than a processor of its own would."""
    wall, own = time.perf_counter(), time.thread_time()
    while time.thread_time() - own < 0.05:
        pass
    return max(1.0, (time.perf_counter() - wall) / 0.05)


class Health(Thread):
    """A client that asks again and again whether the server runs, and keeps the longest time."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.client, self.longest, self.ended = httpx.Client(base_url=server.url, timeout=300), 0.0, Event()

    def run(self):
        while not self.ended.wait(0.02):
            began = time.monotonic()
            assert self.client.get("/healthz").status_code == 200
            self.longest = max(self.longest, time.monotonic() - began)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()
        self.client.close()


def attacked(server, family, size, limit):
    """Return the status of an answer that comes within `limit` seconds, and blocks no other client."""
    (media_type, body), url = FAMILIES[family], server.url + JUDGE
    with Health(server) as health:
        began = time.monotonic()
        answer = httpx.post(url, content=body(size), headers={"content-type": media_type}, timeout=300)
        seconds = time.monotonic() - began
    assert seconds < limit
    assert health.longest < HEALTHY * slowness()
    return answer.status_code


@settings(max_examples=26, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(list(FAMILIES)), st.integers(0, 4 * MEBIBYTE))
def test_no_request_body_blocks_others_for_a_second(server, family, size):
    assert attacked(server, family, size, LIMIT) in {200, 400, 413, 422}


@pytest.mark.parametrize("family", ["allowed attributes", "words for samples"])
def test_the_largest_request_body_does_not_block_others(server, family):
    assert attacked(server, family, 63 * MEBIBYTE, LIMIT * slowness() + 5) in {400, 413, 422, 504}
