"""A challenger judges beside the champion, and nobody who asks notices."""

import os
import re
import signal
import sqlite3
from collections import Counter as Counts
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import httpx
import msgspec
import pytest
from prometheus_client import CollectorRegistry, Counter

from serving.comparisons import PLUGIN
from serving.http.bodies import Answered
from serving.plugins import Opinion
from serving.promotion.decisions import promote
from serving.shadow import figures, request_log
from serving.shadow.figures import Contenders, Disagreement, OpinionCounts
from serving.shadow.request_log import AnsweredRequest, RequestLog, drain_requests
from tests.commands import perfjudge
from tests.system.conftest import MLFLOW_WARNINGS, PROGRAM, Listening, comparison, refused, wait_until
from tests.system.serving.registry import NAME, Registry, with_another_card
from training.registry.champions import CHALLENGER, CHAMPION, version_of

pytestmark = MLFLOW_WARNINGS
DOOR = "/v1/comparisons/judge"
BODY = {"comparisons": [comparison("same"), comparison("slow", 80.0)]}


@pytest.fixture
def registry(mlflow_store, tmp_path):
    """A champion, and a challenger that fails nothing."""
    found = Registry(tmp_path)
    found.lead(found.add())
    lenient = with_another_card('"threshold": 0.5', '"threshold": 1.5')
    found.store.set_registered_model_alias(NAME, CHALLENGER, found.add(spoil=lenient))
    return found


def test_only_the_champion_answers_while_the_shadow_counts_differences(registry, request_file):
    report = perfjudge("judge", request_file, "--format", "xml").stdout

    def told():
        return client.get("/v1/shadow").json()

    def judged():
        return [pair["judged"] for pair in told()["figures"]]

    def post(**body):
        return client.post(DOOR, **body)

    server = Listening("--shadow", "--watch", "0.2")
    with server, httpx.Client(base_url=server.url, timeout=60) as client:
        assert told() == {"running": True, "lost": {}, "figures": [], "disagreements": []}
        for _ in range(3):
            answer = post(json=BODY).json()
            assert answer["model"]["version"] == "1"
            assert [one["verdict"] for one in answer["verdicts"]] == ["pass", "fail"]
        assert "result_status" in post(content=report, headers={"content-type": "application/xml"}).text
        assert post(json={"comparisons": [{}]}).status_code == 422

        wait_until(lambda: judged() == [8])
        found = told()
        (pair,) = found["figures"]
        assert (pair["name"], pair["champion"], pair["challenger"]) == (NAME, "1", "2")
        said = {(one["champion"], one["challenger"]): one["count"] for one in pair["verdict_pairs"]}
        assert said == {("pass", "pass"): 4, ("fail", "pass"): 4}
        assert found["disagreements"][-1]["disagreement"]["case"] == "slow"
        metrics = client.get("/metrics").text
        assert re.search(
            r'^perfjudge_shadow_verdicts_total\{.*champion_verdict="fail".* 4\.0$', metrics, re.MULTILINE
        )
        assert "perfjudge_shadow_dropped_total 0.0" in metrics
        assert "fail, pass: <b>4</b>" in client.get("/").text

        # the shadow dies: answers go on, and another one takes its place
        (shadow,) = server.children("serving.shadow")
        os.kill(shadow, signal.SIGKILL)
        assert post(json=BODY).status_code == 200
        (another,) = wait_until(lambda: server.children("serving.shadow") - {shadow})
        wait_until(lambda: post(json=BODY).status_code == 200 and judged() > [8])
    wait_until(lambda: not Path(f"/proc/{another}").exists())

    because = promote(NAME, "2", "let it pass", "anna").promotion.reason
    assert because.startswith("let it pass (same verdict on 50.0% of ")
    assert "fail and pass" in because
    assert (version_of(NAME, CHAMPION).version, version_of(NAME, CHALLENGER).version) == ("2", "1")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_requests_of_the_shadow_remain_after_the_server(registry, tmp_path, monkeypatch, number):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    # not a fork, whose directory of temporary files may be another
    with Listening("--shadow", program=str(PROGRAM)) as server:
        assert len(list(tmp_path.glob("perfjudge-shadow-*"))) == 1
        # as a service manager does, which ends all processes
        (shadow,) = server.children("serving.shadow")
        os.kill(shadow, signal.SIGTERM)
        server.process.send_signal(number)
        assert server.process.wait(60) == (-number if number == signal.SIGKILL else 0)
    # after a kill another process removes them
    wait_until(lambda: number != signal.SIGKILL or not list(tmp_path.glob("perfjudge-shadow-*")))
    assert list(tmp_path.glob("perfjudge-shadow-*")) == []


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "figures_file", lambda: tmp_path / "shadow.db")
    return tmp_path / "shadow.db"


def exchange(size=10, status=200):
    door = next(iter(PLUGIN.endpoints()))
    ref = SimpleNamespace(name=NAME, version="1")
    return SimpleNamespace(
        endpoint=door, answered=Answered(b"x" * size), ref=ref, status=status, media_type="m", body=b""
    )


def test_requests_without_room_are_dropped_and_counted(store, tmp_path, monkeypatch):
    for name, limit in (("WAITING", 5), ("BYTES", 10_000), ("FILES", 0)):
        monkeypatch.setattr(request_log, name, limit)
    counter = Counter("dropped", "of the test", registry=CollectorRegistry())
    log = RequestLog(str(tmp_path), counter)
    for _ in range(1000):
        log.add_request(exchange())
    log.add_request(exchange(20_000))
    log.add_request(exchange(status=503))
    (sample,) = (one for one in counter.collect()[0].samples if one.name == "dropped_total")
    assert sample.value == 996
    # with room for files again, the thread writes both, before another test replaces the file of figures
    monkeypatch.setattr(request_log, "FILES", 8)
    wait_until(lambda: list(tmp_path.glob("*.jsonl")))
    assert [len(requests) for requests in drain_requests(tmp_path, {DOOR})] == [5]
    assert figures.read_report(store).lost == {"dropped": 996}


def test_unreadable_lines_of_a_log_are_named_and_counted(store, tmp_path, caplog):
    good = msgspec.json.encode(AnsweredRequest(DOOR, "m", b"", b"", NAME, "1"))
    bad = good.replace(DOOR.encode(), b"/v1/unknown"), good.replace(b'"1"', b"1"), b"{", b"\xff"
    (tmp_path / "1.jsonl").write_bytes(b"\n".join([bad[0], good, *bad[1:], good]))
    (tmp_path / "2.jsonl").write_bytes(good)
    assert [len(requests) for requests in drain_requests(tmp_path, {DOOR})] == [2, 1]
    assert figures.read_report(store).lost == {"failed": 4}
    assert [record.getMessage().partition(" cannot be")[0] for record in caplog.records] == [
        f"shadow: 1.jsonl:{line}" for line in (1, 3, 4, 5)
    ]
    assert caplog.messages[0].endswith("'/v1/unknown' is no endpoint of shadow mode - at `$.path`")
    assert caplog.messages[1].endswith("Expected `str`, got `int` - at `$.version`")


def test_disagreements_are_bounded_and_replaced_by_source(store, monkeypatch):
    monkeypatch.setattr(figures, "KEPT", 3)
    held = OpinionCounts()
    champion = [Opinion(f"c{number}", "b o", "pass", 0.1) for number in range(10)]
    held.compare_opinions(champion, champion[:5] + [one._replace(verdict="fail") for one in champion[5:]])
    one, other = (Contenders(NAME, "1", "2", source) for source in (figures.HTTP, "data.json"))
    for _ in range(2):
        figures.record_counts(store, one, held)
        figures.record_counts(store, other, held, replace=True)
    found = figures.read_report(store)
    assert {each.source: (each.judged, each.agreed) for each in found.figures} == {
        "http": (20, 10), "data.json": (10, 5)
    }  # fmt: skip
    assert [each.disagreement.case for each in found.disagreements] == ["c9", "c8", "c7"]
    assert found.disagreements[0].disagreement == Disagreement("c9", "b o", "pass", "fail", 0.1, 0.1)


def test_versions_that_exchanged_roles_have_one_entry_per_source(store):
    for champion, challenger, verdicts, count in (
        ("1", "2", ("fail", "pass"), 3), ("1", "2", ("pass", "pass"), 5), ("2", "1", ("pass", "fail"), 4)
    ):  # fmt: skip
        for source in (figures.HTTP, "data.json"):
            counts = OpinionCounts(Counts({verdicts: count}))
            figures.record_counts(store, Contenders(NAME, champion, challenger, source), counts)
    with closing(sqlite3.connect(store, isolation_level=None)) as database:
        database.execute("UPDATE verdict_pairs SET until = '2099' WHERE champion = '2'")
    assert [pair.summary for pair in figures.figures_of(NAME, {"1", "2"})] == [
        "same verdict on 41.7% of 12 cases of requests (different verdicts of v2 and v1: 7 pass and fail)",
        "same verdict on 0.0% of 4 cases of data.json (different verdicts of v2 and v1: 4 pass and fail)",
    ]


def test_champion_and_challenger_both_judge_a_source_on_disk(registry, request_file, tmp_path):
    done = perfjudge("shadow", source := request_file)
    told = f"{NAME} v1 (champion) and v2 (challenger): same verdict on 50.0% of 2 cases of {source}"
    assert done.stdout.startswith(f"{told} (different verdicts of v1 and v2: 1 fail and pass)\n")
    assert "slow" in done.stdout
    (told,) = figures.read_report(tmp_path / "shadow.db").figures
    assert (told.judged, told.agreed, told.source) == (2, 1, str(source))
    registry.store.delete_registered_model_alias(NAME, CHALLENGER)
    told = f"perfjudge: {NAME} has no challenger; dvc repro makes one of a candidate\n"
    refused(perfjudge("shadow", source), told)
