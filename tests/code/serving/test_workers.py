"""When the supervisor of worker processes replaces a worker, and when it ends the server."""

import signal
from types import SimpleNamespace

import pytest

from serving.http import server


class ScriptedWorker:
    """A worker that ends at the second check, and at the first one serves or is still starting."""

    serves: list[bool]
    pid, exitcode = 1, 7

    def __init__(self, config, sockets, counts, place):
        self.ready, self.checks = self.serves.pop(0), 0

    def is_alive(self, timeout):
        self.checks += 1
        return self.checks == 1

    def is_ready(self, timeout):
        return self.ready

    def start(self):
        pass

    kill = join = start


@pytest.fixture
def workers(monkeypatch, tmp_path):
    """Supervise one place, whose workers successively serve or do not, until none is left to start."""

    def supervise(*serves):
        monkeypatch.setattr(ScriptedWorker, "serves", [*serves, False], raising=False)
        workers = server.Workers(SimpleNamespace(workers=1, timeout_worker_healthcheck=1), sockets=[])
        workers.init_processes()
        for _ in range(2 * len(serves)):
            workers.keep_subprocess_alive()
        return workers

    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(server, "Worker", ScriptedWorker)
    return supervise


def test_a_worker_that_has_served_is_always_replaced(workers):
    supervisor = workers(*[True] * 10)
    assert (supervisor.exit_code, supervisor.should_exit.is_set()) == (0, False)


def test_three_failed_starts_in_a_row_end_the_server(workers):
    supervisor = workers(False, False, True, False, False)
    assert not supervisor.should_exit.is_set()
    supervisor = workers(True, False, False, False)
    assert (supervisor.exit_code, supervisor.should_exit.is_set()) == (3, True)
