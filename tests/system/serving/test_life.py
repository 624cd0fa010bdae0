"""A server under load, while its registry, models, processes, tokens and itself come and go."""

import json
import os
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, closing, suppress
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from serving.http.authentication import add_token
from serving.http.server import MOST_WAITS, PATIENCE, UNRESPONSIVE, stop_handshakes
from tests.commands import perfjudge
from tests.system.conftest import MLFLOW_WARNINGS, PROGRAM, Listening, comparison, refused, wait_until
from tests.system.serving.load import BODY, Load
from tests.system.serving.registry import NAME, registry_in, truncate, with_a_feature_of_tomorrow

#: The seconds for which the registry is away.
AWAY = float(os.environ.get("PERFJUDGE_AWAY", "1"))
pytestmark = MLFLOW_WARNINGS


@pytest.fixture(scope="module")
def store(tmp_path_factory, empty_store):
    with registry_in(tmp_path_factory.mktemp("store"), empty_store) as registry:
        for _ in range(3):
            registry.add()
        yield registry


@pytest.fixture
def registry(store):
    store.lead("1")
    return store


def serving(*arguments):
    # a line per request is not looked at here
    return Listening("--watch", "0.1", "--log-level", "warning", "--log-format", "text", *arguments)


def listens(server):
    with suppress(ConnectionRefusedError), server.connect():
        return True
    return False


def state(server, path="/readyz"):
    """Return the status of one of the processes, and version and load failure of its model."""
    answer = httpx.get(server.url + path, timeout=60).raise_for_status().json()
    (own,) = (one for one in answer["models"] if one["serves"] == NAME)
    return answer.get("status"), own["version"], own["load_failure"]


def said(server):
    """Return what stands in its log, which it goes on to write."""
    return os.pread(server.said.fileno(), 2**20, 0).decode()


def until_it_answers(server, load, version):
    """Wait until all is well with a version; asked several times, for nobody knows which process answers."""
    well = "ok", version, None
    wait_until(lambda: load.now == {version} and all(state(server) == well for _ in range(8)))


def test_no_request_fails_while_registry_models_and_workers_change(registry):
    with serving("--workers", "2") as server, Load(server) as load:
        for version in ("2", "3", "2", "3"):
            registry.lead(version)
            until_it_answers(server, load, version)

        changed = registry.add()
        truncate(registry.files(changed) / "model.npz")
        registry.lead(changed)
        wait_until(lambda: said(server).count("have changed since it was registered") == 2)
        status, version, trouble = state(server)
        assert (status, version, "have changed since" in trouble) == ("degraded", "3", True)
        assert state(server, "/v1/models") == (None, "3", trouble)

        registry.lead(registry.add(spoil=lambda directory: truncate(directory / "card.json")))
        wait_until(lambda: said(server).count("card.json") == 2)
        registry.lead(registry.add(spoil=with_a_feature_of_tomorrow))
        wait_until(lambda: said(server).count("'medians_tomorrow' is no longer computed") == 2)
        registry.lead("2")
        until_it_answers(server, load, "2")

        registry.go()
        wait_until(lambda: said(server).count("which does not exist") == 2)
        time.sleep(AWAY)
        status, version, trouble = state(server)
        assert (status, version, "which does not exist" in trouble) == ("degraded", "2", True)
        assert load.failed == []

        before = server.children("spawn_main")
        os.kill(min(before), signal.SIGKILL)
        # the next one has its model from the one that is left, for the registry is still away
        wait_until(lambda: said(server).count("which does not exist") == 3)
        assert len(server.children("spawn_main") & before) == 1
        registry.come_back()
        last = registry.add()
        registry.lead(last)
        until_it_answers(server, load, last)
        lost = len(load.failed)
        assert lost <= len(load.clients)
        assert [why for why in load.failed if not why.startswith("gone: ")] == []

        code, log = server.stop()
    assert (code, len(load.failed)) == (0, lost)
    assert all(client.refused for client in load.clients)
    assert set(load.answered) == {"1", "2", "3", last}
    # a line where trouble begins, and one where it ends, of each process; one was killed in between
    assert (log.count("have changed since"), log.count("which does not exist")) == (2, 3)
    assert log.count("all is well again") == 4
    assert log.count("another takes its place") == 1


def test_a_single_process_reloads_and_ends_after_its_last_answer(registry):
    with serving() as server, Load(server, 4) as load:
        registry.lead("2")
        until_it_answers(server, load, "2")
        code, log = server.stop()
    assert (code, log, load.failed) == (0, "", [])
    assert all(client.refused for client in load.clients)
    assert set(load.answered) == {"1", "2"}


@pytest.mark.parametrize(("ending", "restarts"), [("3", 0), ("7", 2)])
def test_workers_that_cannot_start_end_the_server_with_their_code(
    ending, restarts, model_directory, tmp_path, monkeypatch
):
    script = f"import os, sys\nif 'spawn_main' in ' '.join(sys.orig_argv):\n    os._exit({ending})\n"
    (tmp_path / "sitecustomize.py").write_text(script)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = [PROGRAM, "serve", "--port", "0", "--workers", "2", "--model", model_directory]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3
    assert f"a worker cannot start (exit code {ending}); the server ends" in done.stderr
    assert restarts <= done.stderr.count("another takes its place") <= 2 * restarts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_begun_requests_are_answered_until_a_second_signal(model_directory, workers, number, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////nowhere/mlflow.db")
    with serving("--model", model_directory, "--workers", workers) as server:
        length = str(len(BODY))
        begun, stuck = (server.begin_request("Content-Length", length, is_read=True) for _ in range(2))
        begun.send(BODY[:20].encode())
        # uvicorn has other default headers every second
        time.sleep(1.1)
        server.process.send_signal(number)
        wait_until(lambda: not listens(server))
        begun.send(BODY[20:].encode())
        answer = begun.getresponse()
        assert (answer.status, answer.getheader("connection")) == (200, "close")
        assert json.load(answer)["verdicts"][0]["verdict"] == "fail"
        assert server.process.poll() is None
        server.process.send_signal(number)
        # long before the time is over that requests have to end
        assert server.process.wait(10) == 128 + number
        begun.close()
        stuck.close()


def test_no_connection_waits_at_a_socket_after_the_last_accept():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        with socket.create_connection(address) as earlier:
            stop_handshakes(listening)
            with pytest.raises(TimeoutError):
                socket.create_connection(address, timeout=0.5)
            earlier.sendall(b"sent after the end of handshakes")
            accepted, _ = listening.accept()
            with accepted:
                assert accepted.recv(100) == b"sent after the end of handshakes"
            listening.setblocking(False)
            with pytest.raises(BlockingIOError):
                listening.accept()


def connections_by_worker(server):
    """Return the numbers of established connections of the server's workers, in ascending order."""
    port = int(server.url.rpartition(":")[2])
    return sorted(
        sum(
            connection.laddr.port == port and connection.status == psutil.CONN_ESTABLISHED
            for connection in psutil.Process(worker).net_connections("tcp")
        )
        for worker in server.children("spawn_main")
    )


def both_workers_accept(server):
    with server.connect(), server.connect():
        with suppress(AssertionError):
            wait_until(lambda: sum(connections_by_worker(server)) == 2, 1)
        return connections_by_worker(server) == [1, 1]


@pytest.fixture(scope="module")
def two_workers(model_directory):
    with serving("--model", model_directory, "--workers", "2") as server:
        yield server


@pytest.fixture
def stopped(two_workers):
    """The number of one of two workers, which accepts no connections until the test continues it or ends."""
    wait_until(lambda: both_workers_accept(two_workers))
    worker = min(two_workers.children("spawn_main"))
    os.kill(worker, signal.SIGSTOP)
    yield worker
    os.kill(worker, signal.SIGCONT)


def test_two_workers_share_new_connections_about_evenly(two_workers):
    wait_until(lambda: both_workers_accept(two_workers))
    for _ in range(3):
        with ExitStack() as opened:
            for _ in range(16):
                opened.enter_context(two_workers.connect())
            wait_until(lambda: sum(connections_by_worker(two_workers)) == 16)
            fewer, more = connections_by_worker(two_workers)
            assert more - fewer <= 2, (fewer, more)
        wait_until(lambda: sum(connections_by_worker(two_workers)) == 0)


def test_a_worker_that_was_stopped_takes_connections_again(two_workers, stopped):
    with Load(two_workers, 16) as load:
        wait_until(lambda: connections_by_worker(two_workers) == [0, 16], 10)
        os.kill(stopped, signal.SIGCONT)
        wait_until(lambda: connections_by_worker(two_workers)[0] >= 6, 10)
    assert load.failed == []


@pytest.mark.usefixtures("stopped")
def test_no_connection_waits_for_a_worker_that_hangs(two_workers):
    with ExitStack() as opened:
        # the other worker has more connections
        for _ in range(2):
            opened.enter_context(two_workers.connect())
        time.sleep(UNRESPONSIVE + 0.5)
        began, number = time.perf_counter(), 100
        for _ in range(number):
            with closing(HTTPConnection(two_workers.url.removeprefix("http://"), timeout=10)) as connection:
                connection.request("GET", "/healthz")
                assert connection.getresponse().status == HTTPStatus.OK
        assert time.perf_counter() - began < number * MOST_WAITS * PATIENCE / 2


def test_a_process_without_file_descriptors_serves_again_later(model_directory):
    with serving("--model", model_directory) as server:
        process = psutil.Process(server.process.pid)
        limit = process.num_fds() + 10
        process.rlimit(psutil.RLIMIT_NOFILE, (limit, limit))
        with ExitStack() as opened:
            for _ in range(30):
                opened.enter_context(server.connect())
            wait_until(lambda: "connections wait" in said(server))
        assert httpx.get(f"{server.url}/healthz", timeout=60).is_success


JUDGE = "/v1/comparisons/judge"


def test_a_server_does_not_start_without_usable_tokens(tmp_path, model_directory, monkeypatch):
    path, start = tmp_path / "tokens", partial(perfjudge, "serve", "--model", model_directory, "--port", "0")
    for workers in ("1", "2"):
        refused(start("--workers", workers, "--tokens", path), f"{path}: ")
    made = perfjudge("token", "reports", "--tokens", path)
    assert (made.returncode, made.stdout.count("\n"), made.stderr) == (0, 1, "")
    path.chmod(0o666)
    monkeypatch.setenv("PERFJUDGE_TOKENS_FILE", str(path))
    refused(start(), "go-w")


def test_two_workers_share_counts_and_survive_a_kill(model_directory, tmp_path):
    token = add_token(tmp_path / "tokens", "reports", "read")
    headers = {"authorization": f"Bearer {token}"}
    content = {"comparisons": [comparison(f"c{number}", 80.0) for number in range(30)]}

    def value(name, **labels):
        """Return the sum of what has these labels in the metrics."""
        text = httpx.get(server.url + "/metrics", headers=headers).text
        found = (one for family in text_string_to_metric_families(text) for one in family.samples)
        return sum(one.value for one in found if one.name == name and labels.items() <= one.labels.items())

    fails = partial(value, "perfjudge_verdicts_total", endpoint=JUDGE, verdict="fail")
    models = partial(value, "perfjudge_model_info", key="model")
    options = ("--workers", "2", "--tokens", tmp_path / "tokens")
    with Listening("--model", model_directory, *options) as server:
        for _ in range(12):
            # a connection each, so that any worker may answer
            httpx.post(server.url + JUDGE, json=content, headers=headers, timeout=60).raise_for_status()
        assert [fails() for _ in range(6)] == [360] * 6
        assert value("perfjudge_request_seconds_count", route=JUDGE, status="2xx") == 12
        wait_until(lambda: models() == 2)
        before = server.children("spawn_main")
        os.kill(min(before), signal.SIGKILL)
        wait_until(lambda: len(server.children("spawn_main") - {min(before)}) == 2)
        wait_until(lambda: models() == 2)
        assert (fails(), value("perfjudge_requests_in_flight")) == (360, 1)
        assert httpx.get(server.url + "/metrics").status_code == 401
        _, said = server.stop()
    lines = [json.loads(line) for line in said.splitlines()]
    judged = [line for line in lines if line.get("route") == JUDGE]
    assert len(judged) == 12
    assert all(line["verdicts"] == {"fail": 30} and line["token"] == "reports" for line in judged)
    assert token not in said
