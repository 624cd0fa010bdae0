"""What the client does with servers that are busy, gone, small, or not perfjudge at all."""

import gzip
import json
import pickle
import socket
import subprocess
import sys
import time
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from threading import Thread, Timer

import msgspec
import numpy as np
import pytest

from perfjudge_client import Client, ClientError, RefusedError, UnreachableError, schemas
from perfjudge_client.schemas import Comparison, Configuration
from serving.plugins import all_endpoints
from tests.imports import ROOT

DOORS = {door.path: door for door in all_endpoints()}
MODEL = {"name": "n", "version": "1", "uri": "u", "contribution_unit": "log-odds"}


def question(name, samples=(1.0, 2.0)):
    configuration = {"threads": 1, "baseline": list(samples), "target": list(samples)}
    return {"comparison_id": name, "operation": name, "better": "lower", "configurations": [configuration]}


def example(kind):
    return kind.model_json_schema()["examples"][0]


def judged(asked):
    told = example(DOORS["/v1/comparisons/judge"].answer)
    verdict, model = told["verdicts"][0], {**told["model"], **MODEL}
    verdicts = [{**verdict, "comparison_id": one["comparison_id"]} for one in asked["comparisons"]]
    return 200, {"model": model, "verdicts": verdicts, "notes": ["as higher is better"]}, {}


def problem(status, detail, **headers):
    return lambda _: (status, {"status": status, "detail": detail}, headers)


class Scripted(BaseHTTPRequestHandler):
    """Answers as it is told to, one after the other, and remembers what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        server = self.server
        body = self.rfile.read(int(self.headers["content-length"]))
        server.ports.add(self.client_address[1])
        server.heard.append(
            (self.path, {name.lower(): value for name, value in self.headers.items()}, len(body))
        )
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        told = next(server.script)
        if told is None:
            self.close_connection = True
            return
        asked = json.loads(body)
        server.asked.append(asked)
        status, content, headers = told(asked)
        answer = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"content-length": str(len(answer)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self):
        self.server.readiness.append(self.path)
        content = b'{"status": "ok"}'
        self.send_response(503 if len(self.server.readiness) <= self.server.starts else 200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """A server that has a script; `says` gives it one, which is repeated, and returns a client."""
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    listening.daemon_threads = True
    listening.heard, listening.asked, listening.ports = [], [], set()
    listening.readiness, listening.starts = [], 0
    clients = []

    def says(*script, **given):
        listening.script = cycle(script)
        clients.append(Client(f"http://127.0.0.1:{listening.server_address[1]}/", **given))
        return clients[-1]

    listening.says = says
    thread = Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    yield listening
    for client in clients:
        client.close()
    listening.shutdown()
    listening.server_close()
    thread.join()


@pytest.mark.parametrize(
    "first",
    [None, problem(503, "starts"), problem(429, "slower", retry_after="0"), problem(502, "")],
    ids=["cut off", "unavailable", "too many requests", "bad gateway"],
)
def test_requests_to_a_busy_server_are_retried(server, first):
    assert [one.comparison_id for one in server.says(first, judged).judge_comparisons([question("a")])] == [
        "a"
    ]
    assert len(server.heard) == 2


def test_a_permanent_refusal_raises_the_servers_message(server):
    client = server.says(problem(503, "no champion", X_Request_ID="r-1"), retries=1)
    with pytest.raises(RefusedError, match=r"no champion \(503, request r-1\)") as told:
        client.judge_comparisons([question("a")])
    assert (told.value.status, told.value.detail, told.value.request_id) == (503, "no champion", "r-1")
    assert len(server.heard) == 2


def test_requests_with_client_errors_are_not_retried(server):
    with pytest.raises(RefusedError, match="is not a whole number"):
        server.says(problem(422, "threads is not a whole number")).judge_comparisons([question("a")])
    assert len(server.heard) == 1


def test_answers_of_other_servers_are_recognised_as_foreign(server):
    with pytest.raises(ClientError, match=r"^http.* is not perfjudge"):
        server.says(lambda _: (200, b"<html>", {})).judge_comparisons([question("a")])
    with pytest.raises(ClientError, match="Bad Request"):
        server.says(lambda _: (400, b"<html>", {})).judge_comparisons([question("a")])


def test_an_unreachable_server_is_named_in_the_error():
    with pytest.raises(UnreachableError, match=r"^http://127.0.0.1:1 does not answer \(.*refused") as told:
        Client("http://127.0.0.1:1", retries=0, startup_timeout=0).judge_comparisons([question("a")])
    assert told.value.url == "http://127.0.0.1:1"
    assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)
    with pytest.raises(ClientError, match="expected http://HOST:PORT"):
        Client("localhost:8000")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_the_first_request_waits_for_a_starting_server(server, caplog):
    client = server.says(judged)
    port = free_port()
    client.url = f"http://127.0.0.1:{port}"
    late = ThreadingHTTPServer(("127.0.0.1", port), Scripted, bind_and_activate=False)
    late.__dict__ |= {name: vars(server)[name] for name in ("script", "heard", "asked", "ports")}
    late.daemon_threads, late.readiness, late.starts = True, [], 2

    def listen():
        late.server_bind()
        late.server_activate()
        late.serve_forever(0.01)

    starting = Timer(1.5, listen)
    starting.start()
    assert [one.comparison_id for one in client.judge_comparisons([question("a")])] == ["a"]
    client.judge_comparisons([question("b")])
    # twice not ready, then once ready, and never looked at again
    assert (len(server.heard), late.readiness) == (2, ["/readyz"] * 3)
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        f"{client.url} is not ready"
    ]
    late.shutdown()
    late.server_close()
    starting.join()


def test_waiting_for_a_server_ends_after_the_timeout(server):
    server.starts = 10**6
    for client, why in (
        (Client(f"http://127.0.0.1:{free_port()}", startup_timeout=0.5), "Connection refused"),
        (server.says(judged, startup_timeout=0.5), "503 Service Unavailable"),
    ):
        began = time.monotonic()
        with pytest.raises(UnreachableError, match=rf"is not ready after 0\.5 s \(.*{why}"):
            client.judge_comparisons([question("a")])
        assert 0.5 <= time.monotonic() - began < 3
    assert server.heard == []


def test_a_wrong_address_is_an_error_at_once(server):
    began = time.monotonic()
    with pytest.raises(UnreachableError, match=r"nowhere\.invalid:80 does not answer \(.*[Nn]ame"):
        Client("http://nowhere.invalid:80").judge_comparisons([question("a")])
    with pytest.raises(RefusedError, match=r"the server at this address is not perfjudge \(404\)"):
        server.says(lambda _: (404, b"<html>", {})).judge_comparisons([question("a")])
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            with other.accept()[0] as connection:
                connection.sendall(b"SSH-2.0-other\r\n")

        answering = Thread(target=answer)
        answering.start()
        with pytest.raises(UnreachableError, match=r"does not answer \(.*SSH"):
            Client(f"http://127.0.0.1:{other.getsockname()[1]}").judge_comparisons([question("a")])
        answering.join()
    assert time.monotonic() - began < 10


def test_requests_are_split_into_10000_comparisons_in_order(server):
    names = [str(number) for number in range(20_001)]
    answers = server.says(judged).judge_comparisons(map(question, names))
    assert [one.comparison_id for one in answers] == names
    assert [len(one["comparisons"]) for one in server.asked] == [10_000, 10_000, 1]
    assert len(server.ports) == 1
    assert ([model.version for model in answers.models], answers.notes) == (["1"], ("as higher is better",))
    assert answers[-1].comparison_id == "20000"


def test_no_request_is_sent_for_no_comparisons(server):
    assert len(server.says(judged).judge_comparisons([])) == 0
    assert server.heard == []


def test_large_comparisons_go_in_requests_below_the_limit_of_bytes(server):
    names = ["a", "b", "c", "d"]
    large = {"operation": "x" * 12_000_000}
    answers = server.says(judged).judge_comparisons(question(name) | large for name in names)
    assert [one.comparison_id for one in answers] == names
    assert [len(one["comparisons"]) for one in server.asked] == [2, 2]


def test_too_large_requests_are_halved_with_correct_error_positions(server):
    def small(asked):
        many = len(asked["comparisons"])
        if many > 1:
            return problem(413, "too much")(asked)
        wrong = asked["comparisons"][0]["comparison_id"] == "c"
        return problem(422, "comparisons[0].better is wrong")(asked) if wrong else judged(asked)

    client = server.says(small)
    assert [one.comparison_id for one in client.judge_comparisons(map(question, "abd"))] == ["a", "b", "d"]
    with pytest.raises(RefusedError, match=r"comparisons\[2\]\.better"):
        client.judge_comparisons(map(question, "abcd"))


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
    client = server.says(problem(401, "no"), token="secret-given")
    with pytest.raises(ClientError) as told:
        client.judge_comparisons([question("a")])
    with pytest.raises(ClientError):
        server.says(problem(401, "no")).judge_comparisons([question("a")])
    tokens = [headers["authorization"] for _, headers, _ in server.heard]
    assert tokens == ["Bearer secret-given", "Bearer secret-of-the-environment"]
    assert "secret" not in f"{client} {told.value} {told.value!r}"


def test_values_invalid_in_json_are_refused_before_sending(server):
    client = server.says(judged)
    with pytest.raises(ClientError, match=r"comparisons\[1\] cannot be written as JSON"):
        client.judge_comparisons([question("a"), question("b", [float("nan")])])
    with pytest.raises(ClientError, match=r"comparisons\[0\] .* a set is neither"):
        client.judge_comparisons([{"configurations": {1}}])
    assert server.heard == []


def test_typed_requests_and_numpy_numbers_are_serialised(server):
    typed = Comparison(
        comparison_id="a",
        operation="a",
        better="lower",
        configurations=[Configuration(threads=1, baseline=[1.0, 2.0], target=[1.0, 2.0])],
    )
    server.says(judged).judge_comparisons([typed, question("a", np.array([1.0, 2.0]))])
    sent, mapping = server.asked[0]["comparisons"]
    assert mapping == question("a")
    # the default number of threads is left out
    assert sent["configurations"][0] | {"threads": 1} == mapping["configurations"][0]
    assert sent | {"configurations": mapping["configurations"]} == mapping


def test_a_timeout_names_the_address_of_the_server(server):
    def slow(asked):
        time.sleep(0.5)
        return judged(asked)

    client = server.says(slow, timeout=0.1, retries=0)
    with pytest.raises(UnreachableError, match=r"^http://127.*:\d+ does not answer \(Read timed out"):
        client.judge_comparisons([question("a")])


def test_the_client_matches_the_endpoint_of_every_family(server, tmp_path):
    def answered(asked):
        door = DOORS[server.heard[-1][0]]
        door.request.model_validate(asked)
        assert asked == example(door.request)
        shown = door.answer.model_json_schema().get("examples")
        content = door.answer.model_validate(shown[0] if shown else made(door.answer))
        return 200, content.model_dump(mode="json"), {}

    client = server.says(answered)

    def written(uploaded):
        paths = [tmp_path / file["name"] for file in uploaded]
        for path, file in zip(paths, uploaded, strict=True):
            path.write_bytes(b64decode(file["content"]))
        return paths

    ask = {
        "/v1/comparisons/judge": lambda asked: client.judge_comparisons(asked["comparisons"]),
        "/v1/comparisons/compare": lambda asked: client.compare_results(
            written(asked["baseline"]), written(asked["target"]), written(asked["history"])
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


def test_options_of_a_decision_are_sent_with_each_batch(server):
    client = server.says(judged)
    costs = schemas.RequestCosts(false_negative=10, false_positive=2, review=1)
    client.judge_comparisons([question("a")], explain=True, costs=costs)
    client.judge_comparisons([question("a")], max_false_positive_rate=0.1)
    options = [{key: asked[key] for key in asked.keys() - {"comparisons"}} for asked in server.asked]
    assert options == [
        {"explain": True, "costs": {"false_negative": 10, "false_positive": 2, "review": 1}},
        {"max_false_positive_rate": 0.1},
    ]


@pytest.mark.parametrize("path", DOORS)
def test_types_of_the_client_have_all_fields_of_the_server(path):
    for kind, mode in ((DOORS[path].request, "validation"), (DOORS[path].answer, "serialization")):
        schema = kind.model_json_schema(mode=mode)
        for name, part in [(kind.__name__, schema), *schema.get("$defs", {}).items()]:
            if "properties" in part:
                fields = msgspec.structs.fields(getattr(schemas, name))
                assert {field.encode_name for field in fields} == set(part["properties"])


@pytest.mark.slow
def test_the_generated_types_match_those_of_the_server(tmp_path):
    command = [sys.executable, ROOT / "clients/python/generate.py", tmp_path / "schemas.py"]
    subprocess.run(command, check=True, cwd=ROOT)
    committed = ROOT / "clients/python/src/perfjudge_client/schemas.py"
    assert (tmp_path / "schemas.py").read_text() == committed.read_text()


def made(kind):
    """Return an answer of this type whose numbers are 1 and whose words are x."""
    schema = kind.model_json_schema()

    def one(node):
        node = schema["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        if "anyOf" in node:
            return one(node["anyOf"][-1])
        if "enum" in node:
            return node["enum"][0]
        plain = {"number": 1.0, "integer": 1, "string": "x", "null": None}
        if node["type"] == "array":
            return [one(node["items"])]
        return plain[node["type"]] if node["type"] in plain else {
            name: one(part) for name, part in node.get("properties", {}).items()
        }  # fmt: skip

    return one(schema)
