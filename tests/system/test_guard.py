"""What stands around every request, of servers in processes of their own."""

import json
import os
import signal
from dataclasses import replace
from functools import partial

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sklearn.linear_model import LogisticRegression

from features.comparisons.vectors import SEED_FEATURES
from serving.http.authentication import add_token
from tests.commands import perfjudge
from tests.system.conftest import Listening, comparison, fitted, wait_until
from training.comparisons.stored import TrainedModel
from training.registry.stored import deciles_of_features

JUDGE = "/v1/comparisons/judge"


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
    serving = ("serve", "--model", model_directory, "--port", "0")
    done = perfjudge(*serving, "--tokens", path, "--workers", workers)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert str(path) in done.stderr


def test_the_last_token_is_revoked_within_a_second(tmp_path, model_directory):
    path = tmp_path / "tokens"
    headers = {"authorization": f"Bearer {add_token(path, 'reports', 'read')}"}
    content = path.read_text()
    with (
        Listening("--model", str(model_directory), "--tokens", str(path)) as server,
        httpx.Client(base_url=server.url, headers=headers) as client,
    ):

        def status():
            return client.get("/v1/models").status_code

        assert status() == 200
        for change in (partial(path.write_text, ""), path.unlink, partial(path.write_text, "broken\n")):
            for wanted, changed in ((401, change), (200, partial(path.write_text, content))):
                changed()
                wait_until(lambda wanted=wanted: status() == wanted, 1)
                assert {status() for _ in range(3)} == {wanted}
        _, said = server.stop()
    assert said.count("nobody has access until this is mended") == 3


class Guarded(Listening):
    """A server of two workers and its token."""

    def __init__(self, directory, tokens):
        self.token = add_token(tokens, "reports", "read")
        self.headers = {"authorization": f"Bearer {self.token}"}
        super().__init__("--model", str(directory), "--workers", "2", "--tokens", str(tokens))

    def judge(self, *comparisons):
        # a connection each, so that any worker may answer
        content = {"comparisons": comparisons}
        return httpx.post(self.url + JUDGE, json=content, headers=self.headers, timeout=60)

    def value(self, name, **labels):
        """Return the sum of what has these labels in the metrics."""
        text = httpx.get(self.url + "/metrics", headers=self.headers).text
        found = (one for family in text_string_to_metric_families(text) for one in family.samples)
        return sum(one.value for one in found if one.name == name and labels.items() <= one.labels.items())


def with_deciles(directory):
    """The model of other tests, trained on vectors around zero."""
    model = fitted(LogisticRegression())
    rows = np.random.default_rng(5).normal(0, 0.1, (400, len(SEED_FEATURES)))
    usual = deciles_of_features(SEED_FEATURES, rows)
    TrainedModel(model.model, replace(model.card, usual=usual)).write(directory)
    return directory


def test_two_workers_share_counts_and_survive_a_kill(tmp_path):
    verdicts = "perfjudge_verdicts_total"
    slow = [comparison(f"c{number}", 80.0) for number in range(30)]
    with Guarded(with_deciles(tmp_path / "model"), tmp_path / "tokens") as guarded:
        assert all(guarded.judge(*slow).status_code == 200 for _ in range(12))
        for _ in range(6):
            assert guarded.value(verdicts, endpoint=JUDGE, verdict="fail") == 360
        assert guarded.value("perfjudge_request_seconds_count", route=JUDGE, status="2xx") == 12
        wait_until(lambda: guarded.value("perfjudge_judged_rows", key="model") == 360)
        assert guarded.value("perfjudge_drift_max", key="model") > 0.25
        wait_until(lambda: guarded.value("perfjudge_model_info", key="model") == 2)
        before = guarded.children("spawn_main")
        os.kill(min(before), signal.SIGKILL)
        wait_until(lambda: len(guarded.children("spawn_main") - {min(before)}) == 2)
        wait_until(lambda: guarded.value("perfjudge_model_info", key="model") == 2)
        assert guarded.value(verdicts, endpoint=JUDGE, verdict="fail") == 360
        assert guarded.value("perfjudge_requests_in_flight") == 1
        assert httpx.get(guarded.url + "/metrics").status_code == 401
        _, said = guarded.stop()
    lines = [json.loads(line) for line in said.splitlines()]
    judged = [line for line in lines if line.get("route") == JUDGE]
    assert len(judged) == 12
    assert all(line["verdicts"] == {"fail": 30} and line["token"] == "reports" for line in judged)
    assert guarded.token not in said
