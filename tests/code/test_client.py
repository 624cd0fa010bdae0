"""What the client does with servers that are busy, gone, small, or not perfjudge at all."""

import json
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from threading import Thread, Timer

import numpy as np
import pytest
import zstandard

from data.comparisons.request import Comparison, Configuration
from serving.client import Judge, JudgeError
from serving.plugins import all_endpoints

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
        if self.headers.get("content-encoding") == "zstd":
            body = zstandard.decompress(body)
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
        clients.append(Judge(f"http://127.0.0.1:{listening.server_address[1]}/", **given))
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
    assert [one.comparison_id for one in server.says(first, judged).comparisons([question("a")])] == ["a"]
    assert len(server.heard) == 2


def test_a_permanent_refusal_raises_the_servers_message(server):
    judge = server.says(problem(503, "no champion", X_Request_ID="r-1"), retries=1)
    with pytest.raises(JudgeError, match=r"no champion \(503, request r-1\)") as told:
        judge.comparisons([question("a")])
    assert (told.value.status, told.value.detail, told.value.request_id) == (503, "no champion", "r-1")
    assert len(server.heard) == 2


def test_requests_with_client_errors_are_not_retried(server):
    with pytest.raises(JudgeError, match="is not a whole number"):
        server.says(problem(422, "threads is not a whole number")).comparisons([question("a")])
    assert len(server.heard) == 1


def test_answers_of_other_servers_are_recognised_as_foreign(server):
    with pytest.raises(JudgeError, match="is not perfjudge"):
        server.says(lambda _: (200, b"<html>", {})).comparisons([question("a")])
    with pytest.raises(JudgeError, match="Bad Request"):
        server.says(lambda _: (400, b"<html>", {})).comparisons([question("a")])


def test_an_unreachable_server_is_named_in_the_error():
    with pytest.raises(JudgeError, match=r"^http://127.0.0.1:1 does not answer \(.*refused") as told:
        Judge("http://127.0.0.1:1", retries=0, startup_timeout=0).comparisons([question("a")])
    assert told.value.status is None
    with pytest.raises(JudgeError, match="expected http://HOST:PORT"):
        Judge("localhost:8000")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_the_first_request_waits_for_a_starting_server(server, caplog):
    judge = server.says(judged)
    port = free_port()
    judge.url = f"http://127.0.0.1:{port}"
    late = ThreadingHTTPServer(("127.0.0.1", port), Scripted, bind_and_activate=False)
    late.__dict__ |= {name: vars(server)[name] for name in ("script", "heard", "asked", "ports")}
    late.daemon_threads, late.readiness, late.starts = True, [], 2

    def listen():
        late.server_bind()
        late.server_activate()
        late.serve_forever(0.01)

    starting = Timer(1.5, listen)
    starting.start()
    assert [one.comparison_id for one in judge.comparisons([question("a")])] == ["a"]
    judge.comparisons([question("b")])
    # twice not ready, then once ready, and never looked at again
    assert (len(server.heard), late.readiness) == (2, ["/readyz"] * 3)
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        f"{judge.url} is not ready"
    ]
    late.shutdown()
    late.server_close()
    starting.join()


def test_waiting_for_a_server_ends_after_the_timeout(server):
    server.starts = 10**6
    for judge, why in (
        (Judge(f"http://127.0.0.1:{free_port()}", startup_timeout=0.5), "Connection refused"),
        (server.says(judged, startup_timeout=0.5), "503 Service Unavailable"),
    ):
        began = time.monotonic()
        with pytest.raises(JudgeError, match=rf"is not ready after 0\.5 s \(.*{why}"):
            judge.comparisons([question("a")])
        assert 0.5 <= time.monotonic() - began < 3
    assert server.heard == []


def test_a_wrong_address_is_an_error_at_once(server):
    began = time.monotonic()
    with pytest.raises(JudgeError, match=r"nowhere\.invalid:80 does not answer \(.*[Nn]ame"):
        Judge("http://nowhere.invalid:80").comparisons([question("a")])
    with pytest.raises(JudgeError, match=r"what answers at this address is not perfjudge \(404\)"):
        server.says(lambda _: (404, b"<html>", {})).comparisons([question("a")])
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            with other.accept()[0] as connection:
                connection.sendall(b"SSH-2.0-other\r\n")

        answering = Thread(target=answer)
        answering.start()
        with pytest.raises(JudgeError, match=r"does not answer \(.*SSH"):
            Judge(f"http://127.0.0.1:{other.getsockname()[1]}").comparisons([question("a")])
        answering.join()
    assert time.monotonic() - began < 10


def test_requests_are_split_into_10000_comparisons_in_order(server):
    names = [str(number) for number in range(20_001)]
    answers = server.says(judged).comparisons(map(question, names))
    assert [one.comparison_id for one in answers] == names
    assert [len(one["comparisons"]) for one in server.asked] == [10_000, 10_000, 1]
    assert len(server.ports) == 1
    assert ([model.version for model in answers.models], answers.notes) == (["1"], ("as higher is better",))
    assert answers[-1].comparison_id == "20000"


def test_no_request_is_sent_for_no_comparisons(server):
    assert len(server.says(judged).comparisons([])) == 0
    assert server.heard == []


def test_large_comparisons_go_in_requests_below_the_limit_of_bytes(server):
    names = ["a", "b", "c", "d"]
    large = {"operation": "x" * 12_000_000}
    answers = server.says(judged).comparisons(question(name) | large for name in names)
    assert [one.comparison_id for one in answers] == names
    assert [len(one["comparisons"]) for one in server.asked] == [2, 2]


def test_too_large_requests_are_halved_with_correct_error_positions(server):
    def small(asked):
        many = len(asked["comparisons"])
        if many > 1:
            return problem(413, "too much")(asked)
        wrong = asked["comparisons"][0]["comparison_id"] == "c"
        return problem(422, "comparisons[0].better is wrong")(asked) if wrong else judged(asked)

    judge = server.says(small)
    assert [one.comparison_id for one in judge.comparisons(map(question, "abd"))] == ["a", "b", "d"]
    with pytest.raises(JudgeError, match=r"comparisons\[2\]\.better"):
        judge.comparisons(map(question, "abcd"))


def test_large_bodies_are_compressed_if_the_server_accepts_it(server):
    large = [question(str(number), range(100)) for number in range(200)]

    def plain(asked):
        packed = "content-encoding" in server.heard[-1][1]
        return problem(415, "no zstd")(asked) if packed else judged(asked)

    assert len(server.says(judged).comparisons(large)) == 200
    assert server.heard[0][2] < len(json.dumps(large)) / 4
    judge = server.says(plain)
    assert len(judge.comparisons(large)) == len(judge.comparisons(large)) == 200
    assert ["content-encoding" in headers for _, headers, _ in server.heard] == [True, True, False, False]


def test_the_token_is_sent_and_never_shown(server, monkeypatch):
    monkeypatch.setenv("PERFJUDGE_TOKEN", "secret-of-the-environment")
    judge = server.says(problem(401, "no"), token="secret-given")
    with pytest.raises(JudgeError) as told:
        judge.comparisons([question("a")])
    with pytest.raises(JudgeError):
        server.says(problem(401, "no")).comparisons([question("a")])
    tokens = [headers["authorization"] for _, headers, _ in server.heard]
    assert tokens == ["Bearer secret-given", "Bearer secret-of-the-environment"]
    assert "secret" not in f"{judge} {told.value} {told.value!r}"


def test_values_invalid_in_json_are_refused_before_sending(server):
    judge = server.says(judged)
    with pytest.raises(JudgeError, match=r"comparisons\[1\] cannot be written as JSON"):
        judge.comparisons([question("a"), question("b", [float("nan")])])
    with pytest.raises(JudgeError, match=r"comparisons\[0\] .* a set is neither"):
        judge.comparisons([{"configurations": {1}}])
    assert server.heard == []


def test_typed_requests_and_numpy_numbers_are_serialised(server):
    samples = [1.0, 2.0]
    typed = Comparison(
        comparison_id="a",
        operation="a",
        better="lower",
        configurations=[Configuration(threads=1, baseline=samples, target=samples)],
    )
    server.says(judged).comparisons([typed, question("a", np.array(samples))])
    assert server.asked[0]["comparisons"] == [question("a"), question("a")]


def test_the_client_matches_the_endpoint_of_every_family(server):
    def answered(asked):
        door = DOORS[server.heard[-1][0]]
        door.request.model_validate(asked)
        assert asked == example(door.request)
        shown = door.answer.model_json_schema().get("examples")
        return 200, shown[0] if shown else made(door.answer), {}

    judge = server.says(answered)
    ask = {
        "/v1/comparisons/judge": lambda asked: judge.comparisons(asked["comparisons"]),
        "/v1/matrices/judge": lambda asked: judge.matrices(asked["pairs"], asked["units"]),
        "/v1/corun/static": lambda asked: judge.corun_static(asked["coruns"], asked["tasks"]),
        "/v1/corun/online": lambda asked: judge.corun_online(asked["solo"], asked["corun"]),
        "/v1/irup": lambda asked: judge.irup(asked["machines"], asked["application"]),
    }
    assert set(ask) == set(DOORS)
    for path, asking in ask.items():
        told = asking(example(DOORS[path].request))
        assert isinstance(told, DOORS[path].answer) or len(told) == 1
    assert [path for path, _, _ in server.heard] == list(ask)


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
            name: one(part) for name, part in node["properties"].items()
        }  # fmt: skip

    return one(schema)


def test_importing_the_client_loads_no_heavy_libraries():
    code = (
        "import sys; import serving.client; first = set(sys.modules)\n"
        "import serving.comparisons.schemas, serving.matrices.schemas, serving.corun.schemas\n"
        "import serving.fingerprints.schemas, data.comparisons.request\n"
        "heavy = {'pandas', 'numpy', 'scipy', 'sklearn', 'mlflow', 'fastapi', 'lxml', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)), 'pydantic' in first)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"
