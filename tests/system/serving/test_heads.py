"""Heads of requests of any size and speed, sent byte by byte to a server in a process of its own."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.http.server import LONGEST_ADDRESS, MOST_BYTES, MOST_LINES, SECONDS
from tests.system.serving.load import BODY

#: Bytes of the status line to the end of an answer's head, and the body that its Content-Length announces.
ANSWER = re.compile(rb"HTTP/1.1 (\d+)[^\r]*\r\n((?:[^\r]+\r\n)*)\r\n")


def head(request, fields):
    return f"{request} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode()


def get(path="/healthz", fields=""):
    return head(f"GET {path}", fields)


def post(fields):
    return head("POST /v1/comparisons/judge", f"Content-Type: application/json\r\n{fields}")


SIZED, CHUNKED = f"Content-Length: {len(BODY)}\r\n", post("Transfer-Encoding: chunked\r\n")


def chunked(*chunks, trailers=""):
    parts = "".join(f"{len(chunk):x}\r\n{chunk}\r\n" for chunk in chunks)
    return CHUNKED + f"{parts}0\r\n{trailers}\r\n".encode()


def send(connection, content):
    """Send all of it, or as much as the server takes before it closes the connection."""
    try:
        connection.sendall(content)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def received(connection):
    """Return what comes until the server closes the connection."""
    parts = []
    with suppress(ConnectionResetError):
        while part := connection.recv(2**16):
            parts.append(part)
    return b"".join(parts)


def statuses_in(content):
    found = []
    while content:
        answer = ANSWER.match(content)
        length = int(re.search(rb"content-length: (\d+)", answer[2], re.IGNORECASE)[1])
        found.append(int(answer[1]))
        content = content[answer.end() + length :]
    return found


def statuses(server, *parts):
    """Return the statuses of the answers on one connection, which the server or the last request closes."""
    with server.connect() as connection:
        for part in parts:
            if not send(connection, part):
                break
        return statuses_in(received(connection))


CLOSE = "Connection: close\r\n"


@settings(max_examples=15)
@given(st.data())
def test_request_heads_are_refused_exactly_beyond_the_limits(listening, data):
    lines = data.draw(st.integers(0, MOST_LINES - 2) | st.integers(MOST_LINES - 4, MOST_LINES + 40))
    size = data.draw(st.integers(0, 2_000) | st.integers(MOST_BYTES - 6_000, MOST_BYTES + 200_000))
    fields = CLOSE + "".join(f"x-{number}: 1\r\n" for number in range(lines)) + f"y: {'z' * size}\r\n"
    sent = get(fields=fields)
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=6))), len(sent)]
    parts = [sent[start:stop] for start, stop in pairwise(cuts)]
    # names and values count, and neither colons nor ends of lines
    bytes_of = sum(len(line) - 2 for line in sent.decode().split("\r\n")[1:-2]) + len("/healthz")
    wanted = 431 if lines + 3 > MOST_LINES or bytes_of > MOST_BYTES else 200
    assert statuses(listening, *parts) == [wanted]


def test_an_address_beyond_its_limit_is_refused(listening):
    room = LONGEST_ADDRESS - len("/healthz?")
    assert statuses(listening, get("/healthz?" + "a" * room, CLOSE)) == [200]
    assert statuses(listening, get("/healthz?" + "a" * (room + 1), CLOSE)) == [414]


def test_a_refusal_has_problem_details_and_closes_the_connection(listening):
    with listening.connect() as connection:
        send(connection, get(fields=f"y: {'z' * 2 * MOST_BYTES}\r\n"))
        content = received(connection)
    problem = json.loads(content.partition(b"\r\n\r\n")[2])
    assert statuses_in(content) == [problem["status"]] == [431]
    assert problem["title"] == "Request Header Fields Too Large"
    assert b"application/problem+json" in content
    assert b"connection: close" in content.lower()


def resident(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


ENDLESS = {
    "one field": (get()[:-2] + b"y: ", b"z" * 2**16),
    "many fields": (get()[:-2], b"abcdefg: 1234567\r\n" * 2**12),
    "the address": (b"GET /", b"z" * 2**16),
    "a field after a chunked body": (chunked(BODY)[:-2] + b"y: ", b"z" * 2**16),
    "an extension of a chunk": (CHUNKED + b"1;", b"z" * 2**16),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_endless_head_neither_costs_memory_nor_blocks(listening, kind):
    begin, more = ENDLESS[kind]
    httpx.get(listening.url + "/healthz")
    before, sent = resident(listening), 0
    with listening.connect() as connection:
        connection.settimeout(1)
        send(connection, begin)
        with suppress(TimeoutError):
            while sent < 32 * 2**20 and send(connection, more):
                sent += len(more)
        began = time.monotonic()
        assert httpx.get(listening.url + "/healthz").status_code == 200
        assert time.monotonic() - began < 1
        assert resident(listening) - before < 8 * 2**20


def outlasted(connection, interval, parts):
    """Send a part at a time, until the server closes the connection; return the seconds and what it said."""
    began, parts = time.monotonic(), iter(parts)
    connection.settimeout(interval)
    content = b""
    while time.monotonic() - began < 3 * SECONDS:
        if (part := next(parts, None)) is not None:
            send(connection, part)
        try:
            more = connection.recv(2**16)
        except TimeoutError:
            continue
        except ConnectionResetError:
            break
        content += more
        if not more:
            break
    return time.monotonic() - began, content


def parts_of(content, size):
    return [content[start : start + size] for start in range(0, len(content), size)]


def test_slow_heads_are_ended_and_slow_bodies_go_on(listening):
    unread = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    slow = {
        "bytes": parts_of(get(fields="x: 1\r\n" * 20), 1),
        "fields": [get()[:-2], *[b"x: 1\r\n"] * 40],
        "nothing": [],
        "empty lines": [b"\r\n"] * 40,
        "a body refused unread": [unread, *[b"x"] * 100],
    }
    # a body may take longer than a head
    patient = [post(SIZED + CLOSE), *parts_of(BODY.encode(), len(BODY) // 12 + 1)]
    kept = HTTPConnection(listening.url.removeprefix("http://"))
    kept.request("GET", "/healthz")
    socket, answered = kept.sock, kept.getresponse().read()
    with ThreadPoolExecutor(len(slow) + 1) as pool, ExitStack() as stack, closing(kept):
        each = [stack.enter_context(listening.connect()) for _ in range(len(slow) + 1)]
        ends = list(pool.map(outlasted, each, [1] * len(each), [*slow.values(), patient]))
        kept.request("GET", "/healthz")
        assert (kept.getresponse().read(), kept.sock) == (answered, socket)
    *ended, (_, judged) = ends
    assert all(SECONDS - 1 < seconds < SECONDS + 4 for seconds, _ in ended[:-1])
    assert ended[-1][0] < SECONDS + 4
    said = [statuses_in(content) for _, content in ended]
    assert dict(zip(slow, said, strict=True)) == {
        "bytes": [408], "fields": [408], "nothing": [], "empty lines": [], "a body refused unread": [404],
    }  # fmt: skip
    assert statuses_in(judged) == [200]


def test_pipelined_and_chunked_requests_are_answered_in_order(listening):
    judged, trailers = post(SIZED) + BODY.encode(), "x-checksum: 1\r\n" * 3
    requests = [get(), judged, chunked(BODY[:10], BODY[10:], trailers=trailers), get("/nowhere"), judged]
    content = b"".join([*requests, get(fields=CLOSE)])
    for size in (len(content), 1000, 7):
        assert statuses(listening, *parts_of(content, size)) == [200, 200, 200, 404, 200, 200]


def test_requests_before_a_refused_one_are_answered(listening):
    judged, bad = post(SIZED) + BODY.encode(), get(fields=f"y: {'z' * 2 * MOST_BYTES}\r\n")
    assert statuses(listening, judged + get() + bad) in ([200, 200], [200, 200, 431])
    assert statuses(listening, judged * 2 + b"no HTTP\r\n\r\n") in ([200, 200], [200, 200, 400])
