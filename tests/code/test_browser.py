"""What a person sees of a server in a browser, without one."""

import os
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from html import unescape
from pathlib import Path
from time import time
from types import SimpleNamespace

import pytest

from serving.http import overview
from serving.http.api import create_app
from serving.http.bodies import Answered
from serving.http.browser_pages import report_response
from serving.http.models import all_models
from serving.http.overview import KEPT, LETTERS, RecentVerdicts
from serving.plugins import all_endpoints
from serving.reports.rendering import report_script
from serving.reports.verdict_lines import VerdictLine
from tests.asking import ask
from training.registry.champions import Version

HTML = {"accept": "text/html,application/xhtml+xml"}
DOOR = SimpleNamespace(path="/v1/comparisons/judge")


@pytest.fixture
def app(tmp_path, monkeypatch):
    """A server of an empty project, without any model."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setattr(overview, "project_root", lambda: tmp_path)
    return create_app(all_models({}))


def get(app, path, headers=HTML):
    return ask(app, ("GET", path, {"headers": headers}), base="http://here:1")[0]


@dataclass
class Judged:
    """Verdicts by the names of their operations, each in a benchmark of its own."""

    names: list

    def count_verdicts(self, answer):
        return 0

    def first_lines(self, max_lines):
        return [VerdictLine("fail", 0.75, f"b-{name}", name, "why") for name in self.names[:max_lines]]


def answered(*names):
    return Answered(b"", Judged(list(names)))


def test_an_empty_server_explains_the_next_steps(app, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = get(app, "/").text
    told = [
        "0 of 4 models answer",
        "uv run dvc repro",
        "The label store is empty",
        "No requests yet",
        "No model was promoted yet",
    ]
    told += ["No evaluation was run yet", "mlflow ui --backend-store-uri sqlite:///mlflow.db", "/docs"]
    assert [words for words in told if words not in page] == []


def test_every_endpoint_is_shown_with_an_example_command(app):
    page = unescape(get(app, "/").text)
    for door in all_endpoints():
        assert f"curl -s http://here:1{door.path} -H 'Content-Type: application/json' -d '{{" in page


def test_examples_contain_a_token_if_one_is_required(app):
    app.state.settings = SimpleNamespace(tokens="file", shared=None, shadow=None)
    page = unescape(get(app, "/").text)
    assert '/v1/irup -H "Authorization: Bearer $PERFJUDGE_TOKEN" -H' in page
    assert '<input type="password" name="token"' in page


def test_pages_may_not_load_external_resources(app):
    for path in ("/", "/nothing", "/docs"):
        policy = get(app, path).headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert "http" not in policy


def test_only_the_own_script_of_a_report_may_run():
    sent = report_response(f"<script>{report_script()}</script><script>alert(1)</script>")
    digest = b64encode(sha256(report_script().encode()).digest()).decode()
    assert f"; script-src 'sha256-{digest}'" in sent.headers["content-security-policy"]
    assert sent.headers["content-security-policy"].count("sha256-") == 1


def test_recent_verdicts_are_escaped_and_newest_first(app):
    app.state.recent.add_answer(DOOR, answered("<script>alert(1)</script>"))
    app.state.recent.add_answer(DOOR, answered("later"))
    page = get(app, "/").text
    # the second one compares files
    assert (page.count("<script"), page.count(f"<script>{report_script()}</script>")) == (2, 1)
    assert page.index("later") < page.index("&lt;script&gt;alert(1)")


def test_the_number_of_recent_verdicts_is_bounded():
    recent = RecentVerdicts()
    recent.add_answer(DOOR, Answered(b""))
    for number in range(100):
        recent.add_answer(DOOR, answered(*(f"{number}.{place}" for place in range(1000))))
    recent.add_answer(DOOR, answered("x" * 10**6))
    lines = [one.line for one in recent.newest_verdicts()]
    assert len(lines) == KEPT
    assert (len(lines[0].name), lines[1].name.partition(".")[0]) == (LETTERS, "99")


def test_processes_of_one_server_share_recent_verdicts(tmp_path, monkeypatch):
    monkeypatch.setattr("serving.http.overview.DELAY", 0.01)
    own = os.getpid()
    here, there = RecentVerdicts(str(tmp_path)), RecentVerdicts(str(tmp_path))
    here.add_answer(DOOR, answered("here"))
    file = tmp_path / f"recent-{own}.json"
    deadline = time() + 30
    while not file.is_file():
        assert time() < deadline
    file.rename(tmp_path / "recent-1.json")
    (tmp_path / "recent-2.json").write_text("half of it")
    there.add_answer(DOOR, answered("there"))
    assert [one.line.name for one in there.newest_verdicts()] == ["there", "here"]


def test_drift_or_the_missing_number_of_requests_is_shown(app, monkeypatch):
    feature = SimpleNamespace(feature="medians_min", index=0.3)
    few = SimpleNamespace(ref=SimpleNamespace(name="few", version="1"), rows=150, features=())
    many = SimpleNamespace(ref=SimpleNamespace(name="many", version="1"), rows=1500, features=(feature,))
    monkeypatch.setattr(app.state.drift, "by_model", lambda: {"a": few, "b": many})
    page = get(app, "/").text
    assert "50 more requests are needed" in page
    assert "medians_min <b>0.30</b> (far off)" in page


def versions(monkeypatch, **found):
    def version(alias, number, reason, against):
        tags = {"model": "logistic", "reason": reason, "judged_against": against}
        return Version("regression-comparison", number, tags, "/nowhere")

    known = {f"models:/regression-comparison@{alias}": version(alias, *told) for alias, told in found.items()}
    monkeypatch.setattr(overview, "served_version", known.get)


def test_champion_and_challenger_are_shown_with_reasons(app, monkeypatch):
    first, worse = ("2", "not worse than v1 <on> these", "1"), ("3", "worse than v2 on the same folds", "2")
    versions(monkeypatch, champion=first, challenger=worse)
    page = get(app, "/").text
    assert "version 2 (logistic)" in page
    assert "not worse than v1 &lt;on&gt; these" in page
    assert "version 3 (logistic)" in page
    assert "worse than v2 on the same folds" in page


def test_a_challenger_of_a_former_champion_is_not_shown(app, monkeypatch):
    versions(monkeypatch, champion=("4", "not worse than v2", "2"), challenger=("3", "worse than v2", "2"))
    page = get(app, "/").text
    assert "version 4 (logistic)" in page
    assert "version 3 (logistic)" not in page


def test_a_refused_candidate_is_shown_without_a_champion(app, monkeypatch):
    versions(monkeypatch, challenger=("1", "passes what is twice as slow", ""))
    page = get(app, "/").text
    assert "passes what is twice as slow" in page
    assert "No model was promoted yet" not in page


def test_the_overview_counts_labels_of_all_families(app, monkeypatch):
    counts = [
        SimpleNamespace(labels=one) for one in (None, lambda: {"pass": 2}, lambda: {"pass": 3, "fail": 1})
    ]
    monkeypatch.setattr(overview, "all_plugins", lambda: counts)
    page = get(app, "/").text
    assert "<b>5</b>pass" in page
    assert "<b>1</b>fail" in page


def test_figures_are_those_of_the_champion_on_each_split(app, monkeypatch):
    monkeypatch.setattr(overview, "project_root", lambda: Path(__file__).parents[2])
    page = get(app, "/").text
    assert "grouped: 5 folds of whole operations" in page
    assert page.count("balanced accuracy") >= 2


def test_only_reports_of_the_project_are_served(app, tmp_path):
    assert "dvc repro report@comparisons" in get(app, "/reports/comparisons").text
    path = tmp_path / "reports/comparisons/index.html"
    path.parent.mkdir(parents=True)
    path.write_text("the report")
    (tmp_path / "secret").write_text("secret")
    assert get(app, "/reports/comparisons").text == "the report"
    assert '<a href="/reports/comparisons">' not in get(app, "/").text
    for other in ("../secret", "..%2fsecret", "%2e%2e/secret", "comparisons/../../secret", "nobody"):
        assert get(app, f"/reports/{other}").status_code == 404


def test_unknown_addresses_are_answered_with_helpful_links(app):
    page = get(app, "/v1/nothing")
    assert (page.status_code, 'href="/docs"' in page.text) == (404, True)
    page = get(app, "/v1/irup")
    assert (page.status_code, page.headers["allow"], "GET /docs" in page.text) == (405, "POST", True)
    problem = get(app, "/<script>", {"accept": "*/*"})
    assert problem.headers["content-type"] == "application/problem+json"
    assert problem.json()["detail"] == "GET '/<script>': no such address; GET / lists them"
    assert "<script>" not in get(app, "/<script>").text


def test_the_address_of_mlflow_is_shown_without_credentials(app, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://name:secret@tracking:5000/x")
    # nobody answers there
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    page = get(app, "/").text
    assert 'href="http://tracking:5000/x"' in page
    assert "secret" not in page
