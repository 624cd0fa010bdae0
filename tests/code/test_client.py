"""What the client does with servers that are busy, gone, small, or not perfjudge at all."""

import gzip
import json
import pickle
import socket
import subprocess
import sys
import time
from base64 import b64decode
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from threading import Thread

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfjudge_client import Client, ClientError, RefusedError, UnreachableError, schemas
from perfjudge_client.schemas import Comparison, Configuration
from serving.plugins import all_endpoints
from tests.imports import ROOT
from tests.ports import free_port

DOORS = {door.path: door for door in all_endpoints()}


#: Recorded answers of endpoints whose schemas have no example.
RECORDED = {
    "/v1/comparisons/compare": "two files", "/v1/corun/static": "elsewhere", "/v1/corun/online": "short",
    "/v1/irup": "zlog",
}  # fmt: skip


def question(name, samples=(1.0, 2.0)):
    configuration = {"threads": 1, "baseline": list(samples), "target": list(samples)}
    return {"comparison_id": name, "operation": name, "better": "lower", "configurations": [configuration]}


def example(kind):
    return kind.model_json_schema()["examples"][0]


def judged(asked):
    told = example(DOORS["/v1/comparisons/judge"].answer)
    verdicts = [told["verdicts"][0] | {"comparison_id": one["comparison_id"]} for one in asked["comparisons"]]
    return 200, told | {"verdicts": verdicts, "notes": ["as higher is better"]}, {}


def problem(status, detail, **headers):
    return lambda _: (status, {"status": status, "detail": detail}, headers)


def judge(client, names="a"):
    """Ask for verdicts on comparisons with names of one letter; return the names in the answers."""
    return "".join(one.comparison_id for one in client.judge_comparisons(map(question, names)))


class Scripted(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        server = self.server
        body = self.rfile.read(int(self.headers["content-length"]))
        server.ports.add(self.client_address[1])
        server.heard.append((self.path, self.headers, len(body)))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        told = next(server.script)
        if told is None:
            self.close_connection = True
            return
        asked = json.loads(body)
        server.asked.append(asked)
        status, content, headers = told(asked)
        self.send(status, content if isinstance(content, bytes) else json.dumps(content).encode(), headers)

    def do_GET(self):
        self.server.readiness.append(self.path)
        self.send(503 if len(self.server.readiness) <= self.server.starts else 200, b'{"status": "ok"}', {})

    def send(self, status, content, headers):
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """A server that has a script; `says` gives it one, which is repeated, and returns a client."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as listening, ExitStack() as clients:
        listening.heard, listening.asked, listening.ports = [], [], set()
        listening.daemon_threads, listening.readiness, listening.starts = True, [], 0

        def says(*script, **given):
            listening.script = cycle(script)
            return clients.enter_context(Client(f"http://127.0.0.1:{listening.server_port}/", **given))

        listening.says = says
        thread = Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield listening
        clients.close()
        listening.shutdown()
    thread.join()


@pytest.mark.parametrize(
    "first",
    [None, problem(503, "starts"), problem(429, "slower", retry_after="0"), problem(502, "")],
    ids=["cut off", "unavailable", "too many requests", "bad gateway"],
)
def test_requests_to_a_busy_server_are_retried(server, first):
    assert judge(server.says(first, judged)) == "a"
    assert len(server.heard) == 2


@pytest.mark.parametrize(("status", "requests"), [(503, 2), (422, 1)])
def test_a_refusal_is_retried_only_while_the_server_is_busy(server, status, requests):
    client = server.says(problem(status, "no luck", X_Request_ID="r-1"), retries=1)
    with pytest.raises(RefusedError, match=rf"no luck \({status}, request r-1\)") as told:
        judge(client)
    assert (told.value.status, told.value.detail, told.value.request_id) == (status, "no luck", "r-1")
    assert len(server.heard) == requests


@pytest.mark.parametrize(
    ("status", "told"),
    [(200, "^http.* is not perfjudge"), (400, "Bad Request"), (404, r"not perfjudge \(404\)")],
)
def test_answers_of_other_servers_are_recognised_as_foreign(server, status, told):
    with pytest.raises(ClientError, match=told):
        judge(server.says(lambda _: (status, b"<html>", {})))
    assert len(server.heard) == 1


def test_an_unreachable_or_slow_server_is_named_in_the_error(server):
    gone = Client("http://127.0.0.1:1", retries=0, startup_timeout=0)
    slow = server.says(lambda asked: time.sleep(0.5) or judged(asked), timeout=0.1, retries=0)
    for client, why in ((gone, ".*refused"), (slow, "Read timed out")):
        with pytest.raises(UnreachableError, match=rf"^{client.url} does not answer \({why}") as told:
            judge(client)
        assert told.value.url == client.url
        assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)


def test_the_first_request_waits_for_a_starting_server(server, caplog):
    client, server.starts = server.says(judged), 2
    assert judge(client) == judge(client) == "a"
    # twice not ready, then once ready, and never looked at again
    assert (len(server.heard), server.readiness) == (2, ["/readyz"] * 3)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{client.url} is not ready (")


@pytest.mark.parametrize("listens", [True, False])
def test_waiting_for_a_server_ends_after_the_timeout(server, listens):
    server.starts = 10**6
    client = server.says(judged, startup_timeout=0.5)
    client.url = client.url if listens else f"http://127.0.0.1:{free_port()}"
    why = "503 Service Unavailable" if listens else "Connection refused"
    began = time.monotonic()
    with pytest.raises(UnreachableError, match=rf"is not ready after 0\.5 s \(.*{why}"):
        judge(client)
    assert 0.5 <= time.monotonic() - began < 3
    assert server.heard == []


def test_a_wrong_address_is_an_error_at_once():
    began = time.monotonic()
    with pytest.raises(ClientError, match="expected http://HOST:PORT"):
        Client("localhost:8000")
    with pytest.raises(UnreachableError, match=r"nowhere\.invalid:80 does not answer \(.*[Nn]ame"):
        judge(Client("http://nowhere.invalid:80"))
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            with other.accept()[0] as connection:
                connection.sendall(b"SSH-2.0-other\r\n")

        answering = Thread(target=answer)
        answering.start()
        with pytest.raises(UnreachableError, match=r"does not answer \(.*SSH"):
            judge(Client(f"http://127.0.0.1:{other.getsockname()[1]}"))
        answering.join()
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("number", "letters", "sizes"), [(20_001, 1, [10_000, 10_000, 1]), (4, 12_000_000, [2, 2])]
)
def test_comparisons_are_split_by_number_and_bytes_in_order(server, number, letters, sizes):
    names = [str(number) for number in range(number)]
    operation = {"operation": "x" * letters}
    answers = server.says(judged).judge_comparisons(question(name) | operation for name in names)
    assert [one.comparison_id for one in answers] == names
    assert answers[-1].comparison_id == names[-1]
    assert [len(one["comparisons"]) for one in server.asked] == sizes
    assert (len(server.ports), len(answers.models), answers.notes) == (1, 1, ("as higher is better",))


def test_too_large_requests_are_halved_with_correct_error_positions(server):
    def small(asked):
        many = len(asked["comparisons"])
        if many > 1:
            return problem(413, "too much")(asked)
        wrong = asked["comparisons"][0]["comparison_id"] == "c"
        return problem(422, "comparisons[0].better is wrong")(asked) if wrong else judged(asked)

    client = server.says(small)
    assert judge(client, "abd") == "abd"
    with pytest.raises(RefusedError, match=r"comparisons\[2\]\.better"):
        judge(client, "abcd")


def test_large_bodies_are_compressed_if_the_server_accepts_it(server):
    large = [question(str(number), range(100)) for number in range(200)]

    def plain(asked):
        packed = "content-encoding" in server.heard[-1][1]
        return problem(415, "no zstd")(asked) if packed else judged(asked)

    assert len(server.says(judged).judge_comparisons(large)) == 200
    assert server.heard[0][2] < len(json.dumps(large)) / 4
    client = server.says(plain)
    assert len(client.judge_comparisons(large)) == len(client.judge_comparisons(large)) == 200
    assert ["content-encoding" in headers for _, headers, _ in server.heard] == [True, True, False, False]


def test_the_token_is_sent_and_never_shown(server, monkeypatch):
    monkeypatch.setenv("PERFJUDGE_TOKEN", "secret-of-the-environment")
    for options, sent in (({"token": "secret-given"}, "secret-given"), ({}, "secret-of-the-environment")):
        client = server.says(problem(401, "no"), **options)
        with pytest.raises(ClientError) as told:
            judge(client)
        assert server.heard[-1][1]["authorization"] == f"Bearer {sent}"
        assert "secret" not in f"{client} {told.value} {told.value!r}"


@given(st.sampled_from("\n \r\t\u00e9\u20ac\x7f\0"), st.sampled_from(["{0}t0ken", "t0{0}ken", "t0ken{0}"]))
def test_a_token_is_stripped_and_an_invalid_one_is_refused_without_its_value(char, form):
    token = form.format(char)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PERFJUDGE_TOKEN", token.replace("\0", "\x7f"))
        for arguments in ((token,), ()):
            if token.strip() == "t0ken":
                client = Client("http://h", *arguments)
                assert client._pool.headers["authorization"] == "Bearer t0ken"
                continue
            problem = "^the token is invalid; expected visible ASCII characters without spaces$"
            with pytest.raises(ClientError, match=problem) as told:
                Client("http://h", *arguments)
            assert told.value.__cause__ is told.value.__context__ is None


def test_a_base_rate_is_estimated_in_one_request_or_not_at_all(server):
    comparisons = [question(str(number)) for number in range(10_001)]
    client = server.says(judged)
    with pytest.raises(ClientError, match=r"10001 comparisons do not fit .* at most about 10000, .*estimate"):
        client.judge_comparisons(comparisons, base_rate="estimate")
    assert server.heard == []
    assert len(client.judge_comparisons(comparisons[1:], base_rate="estimate")) == 10_000
    assert [len(client.judge_comparisons(comparisons, base_rate=0.1)), len(server.heard)] == [10_001, 3]
    client = server.says(problem(413, "too much"))
    with pytest.raises(ClientError, match=r"2 comparisons do not fit .* about 1, .*estimate"):
        client.judge_comparisons(comparisons[:2], base_rate="estimate")


def test_nothing_is_sent_for_invalid_values_or_no_comparisons(server):
    client = server.says(judged)
    assert len(client.judge_comparisons([])) == 0
    for values in ([1.0, float("nan")], np.array([1.0, np.nan])):
        with pytest.raises(
            ClientError, match=r"^comparisons\[1\]\.configurations\[0\]\.\w+\[1\]=nan is not fin"
        ):
            client.judge_comparisons([question("a"), question("b", values)])
    with pytest.raises(ClientError, match=r"comparisons\[0\] .* a set is neither"):
        client.judge_comparisons([{"configurations": {1}}])
    assert server.heard == []


def test_typed_requests_options_and_numpy_numbers_are_serialised(server):
    configuration = Configuration(threads=1, baseline=[1.0, 2.0], target=[1.0, 2.0])
    typed = Comparison(comparison_id="a", operation="a", better="lower", configurations=[configuration])
    costs = schemas.RequestCosts(false_negative=10, false_positive=2, review=1)
    numbers = question("a", np.array([1.0, 2.0]))
    server.says(judged).judge_comparisons([typed, numbers], explain=True, costs=costs)
    sent, mapping = server.asked[0].pop("comparisons")
    assert server.asked[0] == {"explain": True, "costs": msgspec.to_builtins(costs)}
    assert mapping == question("a")
    # the default number of threads is left out
    assert sent["configurations"][0] | {"threads": 1} == mapping["configurations"][0]
    assert sent | {"configurations": mapping["configurations"]} == mapping


def test_the_client_matches_the_endpoint_of_every_family(server, tmp_path):
    recorded = json.loads(gzip.decompress((ROOT / "tests/system/golden/answers/http.json.gz").read_bytes()))

    def answered(asked):
        path = server.heard[-1][0]
        assert asked == example(DOORS[path].request)
        real = (
            recorded[f"POST {path} {RECORDED[path]}"]["body"]
            if path in RECORDED
            else example(DOORS[path].answer)
        )
        return 200, DOORS[path].answer.model_validate(real).model_dump(mode="json"), {}

    client = server.says(answered)

    def written(uploaded):
        paths = [tmp_path / file["name"] for file in uploaded]
        for path, file in zip(paths, uploaded, strict=True):
            path.write_bytes(b64decode(file["content"]))
        return paths

    ask = {
        "/v1/comparisons/judge": lambda asked: client.judge_comparisons(asked["comparisons"]),
        # a path, paths as texts, and none
        "/v1/comparisons/compare": lambda asked: client.compare_results(
            written(asked["baseline"])[0], [*map(str, written(asked["target"]))], written(asked["history"])
        ),
        "/v1/matrices/judge": lambda asked: client.judge_matrices(asked["pairs"], asked["units"]),
        "/v1/corun/static": lambda asked: client.predict_coruns(asked["coruns"], asked["tasks"]),
        "/v1/corun/online": lambda asked: client.predict_corun_online(asked["solo"], asked["corun"]),
        "/v1/irup": lambda asked: client.profile_application(asked["machines"], asked["application"]),
    }
    assert set(ask) == set(DOORS)
    for path, asking in ask.items():
        told = asking(example(DOORS[path].request))
        assert isinstance(told, getattr(schemas, DOORS[path].answer.__name__)) or len(told) == 1
    assert [path for path, _, _ in server.heard] == list(ask)


@pytest.mark.slow
def test_the_generated_types_match_those_of_the_server(tmp_path):
    # a process of its own: schemas list choices in the order of the first import that names them
    generator, path = ROOT / "clients/python/generate.py", tmp_path / "schemas.py"
    code = (
        f"import pathlib, runpy; runpy.run_path({str(generator)!r})['generate'](pathlib.Path({str(path)!r}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    committed = ROOT / "clients/python/src/perfjudge_client/schemas.py"
    assert path.read_text() == committed.read_text()
