"""What stands around every request, of servers in processes of their own."""

import json
import os
import signal
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sklearn.linear_model import LogisticRegression

from features.comparisons.vectors import SEED_FEATURES
from serving.http.authentication import add_token
from tests.commands import perfjudge
from tests.system.conftest import Listening, comparison, fitted
from training.comparisons.stored import TrainedModel
from training.registry.stored import deciles_of_features

JUDGE = "/v1/comparisons/judge"


def test_a_public_server_does_not_start_without_tokens():
    done = perfjudge("serve", "--host", "0.0.0.0", "--port", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "--tokens FILE" in done.stderr


def test_a_token_file_from_the_environment_is_checked(tmp_path, model_directory, monkeypatch):
    path = tmp_path / "tokens"
    made = perfjudge("token", "reports", "--tokens", path)
    assert (made.returncode, made.stdout.count("\n"), made.stderr) == (0, 1, "")
    path.chmod(0o666)
    monkeypatch.setenv("PERFJUDGE_TOKENS_FILE", str(path))
    refused = perfjudge("serve", "--model", model_directory, "--port", "0")
    assert (refused.returncode, "go-w" in refused.stderr) == (2, True)


@pytest.mark.parametrize(("workers", "content"), [(1, None), (2, "broken\n")])
def test_a_server_does_not_start_with_bad_tokens(tmp_path, model_directory, content, workers):
    path = tmp_path / "tokens"
    if content is not None:
        path.write_text(content)
    done = perfjudge(
        "serve", "--model", model_directory, "--port", "0", "--tokens", path, "--workers", workers
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert str(path) in done.stderr


def test_the_last_token_is_revoked_within_a_second(tmp_path, model_directory):
    path = tmp_path / "tokens"
    token = add_token(path, "reports", "read")
    server = Listening("--model", str(model_directory), "--tokens", str(path))
    content = path.read_text()
    try:
        with httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {token}"}) as client:
            assert client.get("/v1/models").status_code == 200
            for change in (partial(path.write_text, ""), path.unlink, partial(path.write_text, "broken\n")):
                for status, changed in ((401, change), (200, partial(path.write_text, content))):
                    changed()
                    deadline = time.monotonic() + 1
                    while client.get("/v1/models").status_code != status and time.monotonic() < deadline:
                        time.sleep(0.05)
                    assert {client.get("/v1/models").status_code for _ in range(3)} == {status}
    finally:
        _, said = server.stop()
    assert said.count("nobody has access until this is mended") == 3


class Guarded:
    """A server of two workers and its token."""

    def __init__(self, directory, tokens):
        self.token = add_token(tokens, "reports", "read")
        self.server = Listening("--model", str(directory), "--workers", "2", "--tokens", str(tokens))
        self.headers = {"authorization": f"Bearer {self.token}"}

    def judge(self, *comparisons):
        content = json.dumps({"comparisons": comparisons})
        headers = {**self.headers, "content-type": "application/json"}
        # a connection each, so that any worker may answer
        return httpx.post(self.server.url + JUDGE, content=content, headers=headers, timeout=60)

    def metrics(self):
        text = httpx.get(self.server.url + "/metrics", headers=self.headers).text
        return [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def value(self, name, **labels):
        """Return the sum of what has these labels."""
        return sum(
            one.value for one in self.metrics() if one.name == name and labels.items() <= one.labels.items()
        )

    def wait_for(self, expected, name, **labels):
        deadline = time.monotonic() + 60
        while (found := self.value(name, **labels)) != expected and time.monotonic() < deadline:
            time.sleep(0.2)
        assert found == expected

    def workers(self):
        """Return the processes that answer."""
        parent = self.server.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def with_deciles(directory):
    """The model of other tests, trained on vectors around zero."""
    model = fitted(LogisticRegression())
    rows = np.random.default_rng(5).normal(0, 0.1, (400, len(SEED_FEATURES)))
    usual = deciles_of_features(SEED_FEATURES, rows)
    TrainedModel(model.model, replace(model.card, usual=usual)).write(directory)
    return directory


def test_two_workers_share_counts_and_survive_a_kill(tmp_path):
    guarded = Guarded(with_deciles(tmp_path / "model"), tmp_path / "tokens")
    try:
        verdicts = "perfjudge_verdicts_total"
        slow = [comparison(f"c{number}", 80.0) for number in range(30)]
        assert all(guarded.judge(*slow).status_code == 200 for _ in range(12))
        for _ in range(6):
            assert guarded.value(verdicts, endpoint=JUDGE, verdict="fail") == 360
        assert guarded.value("perfjudge_request_seconds_count", route=JUDGE, status="2xx") == 12
        guarded.wait_for(360, "perfjudge_judged_rows", key="model")
        assert guarded.value("perfjudge_drift_max", key="model") > 0.25
        guarded.wait_for(2, "perfjudge_model_info", key="model")
        killed = guarded.workers()[0]
        os.kill(killed, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while killed in guarded.workers() or len(guarded.workers()) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        guarded.wait_for(2, "perfjudge_model_info", key="model")
        assert guarded.value(verdicts, endpoint=JUDGE, verdict="fail") == 360
        assert guarded.value("perfjudge_requests_in_flight") == 1
        assert httpx.get(guarded.server.url + "/metrics").status_code == 401
    finally:
        _, said = guarded.server.stop()
    lines = [json.loads(line) for line in said.splitlines()]
    judged = [line for line in lines if line.get("route") == JUDGE]
    assert len(judged) == 12
    assert all(line["verdicts"] == {"fail": 30} and line["token"] == "reports" for line in judged)
    assert guarded.token not in said
