"""Answers of every endpoint, and the pages in a browser, of a server without a champion."""

import os
import re
from base64 import b64encode
from hashlib import sha256
from html import unescape
from types import SimpleNamespace

import pytest

from data.errors import InputError
from serving.http import overview
from serving.http.api import create_app
from serving.http.bodies import Answered
from serving.http.browser_pages import report_response
from serving.http.models import all_models
from serving.http.overview import KEPT, LETTERS, RecentVerdicts
from serving.models import ModelRef
from serving.plugins import all_endpoints
from serving.reports.rendering import report_script
from serving.reports.verdict_lines import VerdictLine
from tests.asking import ask
from training.registry.champions import Version

HTML = {"accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def app(tmp_path, monkeypatch):
    """A server of an empty project, without any model."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setattr(overview, "project_root", lambda: tmp_path)
    return create_app(all_models({}))


def get(app, path, headers=HTML):
    return ask(app, ("GET", path, {"headers": headers}), base="http://here:1")[0]


def answered(*names):
    lines = [VerdictLine("fail", 0.75, f"b-{name}", name, "why") for name in names]
    return Answered(b"", SimpleNamespace(first_lines=lambda max_lines: lines[:max_lines]))


def test_an_empty_server_is_not_ready_and_explains_the_next_steps(app, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = "/v1/models", "/readyz", "/healthz", "/"
    models, ready, health, page = ask(app, *[("GET", path) for path in paths], started=True)
    assert (models.json(), health.json(), ready.status_code) == ({"models": []}, {"status": "ok"}, 503)
    told = ["0 of 4 models answer", "uv run dvc repro", "The label store is empty", "No requests yet"]
    told += ["No model was promoted yet", "No evaluation was run yet", "/docs"]
    told += ["mlflow ui --backend-store-uri sqlite:///mlflow.db"]
    assert [words for words in told if words not in page.text] == []


def test_example_commands_send_a_token_if_one_is_required(app):
    app.state.settings = SimpleNamespace(tokens="file", shared=None, shadow=None)
    page = unescape(get(app, "/").text)
    assert '/v1/irup -H "Authorization: Bearer $PERFJUDGE_TOKEN" -H' in page
    assert '<input type="password" name="token"' in page


@pytest.mark.parametrize("path", ["/", "/nothing", "/docs"])
def test_pages_may_not_load_external_resources(app, path):
    policy = get(app, path).headers["content-security-policy"]
    assert re.match("default-src 'none'; (?!.*(unsafe|http))", policy)


def test_only_the_own_script_of_a_report_may_run():
    sent = report_response(f"<script>{report_script()}</script><script>alert(1)</script>")
    digest = b64encode(sha256(report_script().encode()).digest()).decode()
    assert f"; script-src 'sha256-{digest}'" in sent.headers["content-security-policy"]
    assert sent.headers["content-security-policy"].count("sha256-") == 1


def test_recent_verdicts_are_escaped_and_newest_first(app):
    app.state.recent.add_answer(answered("<script>alert(1)</script>"))
    app.state.recent.add_answer(answered("later"))
    page = get(app, "/").text
    # the second one compares files
    assert (page.count("<script"), page.count(f"<script>{report_script()}</script>")) == (2, 1)
    assert page.index("later") < page.index("&lt;script&gt;alert(1)")


def test_the_number_of_recent_verdicts_is_bounded():
    recent = RecentVerdicts()
    recent.add_answer(Answered(b""))
    for number in range(100):
        recent.add_answer(answered(*(f"{number}.{place}" for place in range(1000))))
    recent.add_answer(answered("x" * 10**6))
    lines = [one.line for one in recent.newest_verdicts()]
    assert len(lines) == KEPT
    assert (len(lines[0].name), lines[1].name.partition(".")[0]) == (LETTERS, "99")


def test_processes_of_one_server_share_recent_verdicts(tmp_path):
    here, there = RecentVerdicts(str(tmp_path)), RecentVerdicts(str(tmp_path))
    here.add_answer(answered("here"))
    here.share_verdicts()
    (tmp_path / f"recent-{os.getpid()}.json").rename(tmp_path / "recent-1.json")
    (tmp_path / "recent-2.json").write_text("half of it")
    there.add_answer(answered("there"))
    assert [one.line.name for one in there.newest_verdicts()] == ["there", "here"]


def test_drift_or_the_missing_number_of_requests_is_shown(app, monkeypatch):
    few = SimpleNamespace(ref=ModelRef("few", "1", ""), rows=150, features=())
    many = SimpleNamespace(ref=ModelRef("many", "1", ""), rows=1500, features=(("medians_min", 0.3),))
    monkeypatch.setattr(app.state.drift, "by_model", lambda: {"a": few, "b": many})
    page = get(app, "/").text
    assert "50 more requests are needed" in page
    assert "medians_min <b>0.30</b> (far off)" in page


@pytest.mark.parametrize(
    ("champion", "challenger", "shown"),
    [
        ("2|like <v1>|1", "3|worse than v2|2", "version 2 (m) like &lt;v1&gt; version 3 (m) worse than v2"),
        ("4|not worse|2", "3|worse than v2|2", "version 4 (m) not worse"),
        (None, "1|passes what is slow|", "version 1 (m) passes what is slow"),
    ],
    ids=["both", "a challenger of a former champion", "a refused candidate"],
)
def test_current_roles_are_shown_with_reasons(app, champion, challenger, shown, monkeypatch):
    def served(uri):
        if told := {"champion": champion, "challenger": challenger}.get(uri.rpartition("@")[2]):
            number, reason, against = told.split("|")
            tags = {"model": "m", "reason": reason, "judged_against": against}
            return Version("regression-comparison", number, tags, "/nowhere")
        return None

    monkeypatch.setattr(overview, "served_version", served)
    page = get(app, "/").text
    found = re.findall(r"version \d \(m\)|like &lt;v1&gt;|not worse|worse than v2|passes what is slow", page)
    assert " ".join(dict.fromkeys(found)) == shown
    assert "No model was promoted yet" not in page


def test_the_overview_counts_labels_of_all_families(app, monkeypatch):
    def damaged(_):
        raise InputError("is damaged")

    counts = (None, lambda _: {"pass": 2}, damaged, lambda _: {"pass": 3, "fail": 1})
    monkeypatch.setattr(overview, "all_plugins", lambda: [SimpleNamespace(labels=one) for one in counts])
    assert re.search("<b>5</b>pass.*<b>1</b>fail", get(app, "/").text, re.DOTALL)


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
    problem = get(app, "/<script>", {"accept": "*/*"})
    assert problem.headers["content-type"] == "application/problem+json"
    assert problem.json()["detail"] == "GET '/<script>': no such address; GET / lists them"
    assert "<script>" not in get(app, "/<script>").text


@pytest.mark.parametrize("headers", [HTML, {}])
@pytest.mark.parametrize(
    ("path", "allowed"), [("/v1/labels/a", "GET, PUT"), ("/v1/irup", "POST"), ("/openapi.json", "GET, HEAD")]
)
def test_a_refused_method_names_all_methods_of_the_address(app, path, allowed, headers):
    (refused,) = ask(app, ("DELETE", path, {"headers": headers}))
    assert (refused.status_code, refused.headers["allow"]) == (405, allowed)
    assert "GET /docs" in refused.text if headers else refused.json()["status"] == 405


def test_the_address_of_mlflow_is_shown_without_credentials(app, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://name:secret@tracking:5000/x")
    monkeypatch.setattr(overview, "served_version", lambda _: None)
    page = get(app, "/").text
    assert 'href="http://tracking:5000/x"' in page
    assert "secret" not in page


JSON = {"content-type": "application/json"}
every_door = pytest.mark.parametrize("door", list(all_endpoints()), ids=lambda door: door.path)


@every_door
def test_endpoints_refuse_media_types_large_bodies_and_lacking_champions(app, door):
    headers = {"content-type": "text/plain"}, {**JSON, "content-length": str(door.limit + 1)}, JSON
    requests = [("POST", door.path, {"content": b"{}", "headers": one}) for one in headers]
    plain, large, answer = ask(app, *requests, started=True)
    assert (plain.status_code, "expected application/json" in plain.json()["detail"]) == (415, True)
    assert (large.status_code, str(door.limit) in large.json()["detail"]) == (413, True)
    lacks = door.model is not None and not door.champion_optional
    named = "dvc repro" in answer.json()["detail"]
    assert (answer.status_code, named) == ((503, True) if lacks else (422, False))
