"""Heads of requests of any size and speed, sent byte by byte to a server in a process of its own."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.http.server import LONGEST_ADDRESS, MOST_BYTES, MOST_LINES, SECONDS
from tests.system.serving.load import BODY

GET = "GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"
POST = (
    "POST /v1/comparisons/judge HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{fields}\r\n"
)
CHUNKED = POST.format(fields="Transfer-Encoding: chunked\r\n")
#: Bytes of the status line to the end of an answer's head, and the body that its Content-Length announces.
ANSWER = re.compile(rb"HTTP/1.1 (\d+)[^\r]*\r\n((?:[^\r]+\r\n)*)\r\n")


def get(path="/healthz", fields=""):
    return GET.format(path=path, fields=fields).encode()


def post(fields=""):
    return POST.format(fields=f"Content-Length: {len(BODY)}\r\n{fields}").encode()


def chunked(*chunks, trailers=""):
    parts = "".join(f"{len(chunk):x}\r\n{chunk}\r\n" for chunk in chunks)
    return (CHUNKED + f"{parts}0\r\n{trailers}\r\n").encode()


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


def first_answer(connection):
    """Return the status of the next answer, of which head and body may come apart."""
    content = b""
    while b"\r\n\r\n" not in content or not content.endswith(b"}"):
        part = connection.recv(2**16)
        assert part, content
        content += part
    return answers(content)[0][0]


def answers(content):
    """Return the status and the body of each answer."""
    found = []
    while content:
        head = ANSWER.match(content)
        length = int(re.search(rb"content-length: (\d+)", head[2], re.IGNORECASE)[1])
        found.append((int(head[1]), content[head.end() : head.end() + length]))
        content = content[head.end() + length :]
    return found


def statuses(server, *parts):
    """Return the statuses of the answers on one connection, which the server or the last request closes."""
    with server.connect() as connection:
        for part in parts:
            if not send(connection, part):
                break
        return [status for status, _ in answers(received(connection))]


CLOSE = "Connection: close\r\n"


@settings(max_examples=15)
@given(st.data())
def test_request_heads_are_refused_exactly_beyond_the_limits(listening, data):
    lines = data.draw(st.integers(0, MOST_LINES - 2) | st.integers(MOST_LINES - 4, MOST_LINES + 40))
    size = data.draw(st.integers(0, 2_000) | st.integers(MOST_BYTES - 6_000, MOST_BYTES + 200_000))
    fields = CLOSE + "".join(f"x-{number}: 1\r\n" for number in range(lines)) + f"y: {'z' * size}\r\n"
    head = get(fields=fields)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(head)), max_size=6)))
    parts = [head[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(head)], strict=True)]
    # names and values count, and neither colons nor ends of lines
    bytes_of = sum(len(line) - 2 for line in head.decode().split("\r\n")[1:-2]) + len("/healthz")
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
    ((status, body),) = answers(content)
    problem = json.loads(body)
    assert (status, problem["status"], problem["title"]) == (431, 431, "Request Header Fields Too Large")
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
    "an extension of a chunk": (CHUNKED.encode() + b"1;", b"z" * 2**16),
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


def single(content):
    return [content[place : place + 1] for place in range(len(content))]


def test_slow_heads_are_ended_and_slow_bodies_go_on(listening):
    unread = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    slow = {
        "bytes": single(get(fields="x: 1\r\n" * 20)),
        "fields": [get()[:-2], *[b"x: 1\r\n"] * 40],
        "nothing": [],
        "empty lines": [b"\r\n"] * 40,
        "a body refused unread": [unread, *[b"x"] * 100],
    }
    # a body may take longer than a head
    step = len(BODY) // 12 + 1
    patient = [post(CLOSE), *(BODY[start : start + step].encode() for start in range(0, len(BODY), step))]
    with ThreadPoolExecutor(len(slow) + 1) as pool, ExitStack() as stack:
        kept = stack.enter_context(listening.connect())
        send(kept, get())
        assert first_answer(kept) == 200
        each = [stack.enter_context(listening.connect()) for _ in range(len(slow) + 1)]
        ends = list(pool.map(outlasted, each, [1] * len(each), [*slow.values(), patient]))
        assert send(kept, get(fields=CLOSE))
        assert [status for status, _ in answers(received(kept))] == [200]
    *ended, (_, judged) = ends
    assert all(SECONDS - 1 < seconds < SECONDS + 4 for seconds, _ in ended[:-1])
    assert ended[-1][0] < SECONDS + 4
    said = [[status for status, _ in answers(content)] for _, content in ended]
    assert dict(zip(slow, said, strict=True)) == {
        "bytes": [408], "fields": [408], "nothing": [], "empty lines": [], "a body refused unread": [404],
    }  # fmt: skip
    assert [status for status, _ in answers(judged)] == [200]


def test_pipelined_and_chunked_requests_are_answered_in_order(listening):
    judged, trailers = post() + BODY.encode(), "x-checksum: 1\r\n" * 3
    requests = [get(), judged, chunked(BODY[:10], BODY[10:], trailers=trailers), get("/nowhere"), judged]
    content = b"".join([*requests, get(fields=CLOSE)])
    for size in (len(content), 1000, 7):
        parts = [content[start : start + size] for start in range(0, len(content), size)]
        assert statuses(listening, *parts) == [200, 200, 200, 404, 200, 200]


def test_requests_before_a_refused_one_are_answered(listening):
    judged, bad = post() + BODY.encode(), get(fields=f"y: {'z' * 2 * MOST_BYTES}\r\n")
    assert statuses(listening, judged + get() + bad) in ([200, 200], [200, 200, 431])
    assert statuses(listening, judged * 2 + b"no HTTP\r\n\r\n") in ([200, 200], [200, 200, 400])
