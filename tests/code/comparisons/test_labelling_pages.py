"""What a server offers for labelling, and what its pages show of it, without a browser."""

import base64
import json
import logging
import re
import threading
import time
from functools import cache
from http import HTTPStatus
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from data.comparisons.labels.label_store import NewLabel, UnreachableError
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from features.comparisons.vectors import FEATURES, feature_vectors
from serving.comparisons import render
from serving.comparisons.boxes import BoxDrawing, ChangeCell, change_cells, format_number
from serving.comparisons.judge import judge_sides
from serving.comparisons.labelling import pages
from serving.comparisons.labelling.pool import (
    Background,
    OfferedComparisons,
    StoredLabels,
    keep_nearby_versions,
    key_of,
)
from serving.http.api import create_app
from serving.http.authentication import add_token
from serving.http.settings import ServerSettings
from tests.asking import ask
from tests.code.comparisons.posted import served_model
from tests.comparison_rows import compared, result

HTML = {"accept": "text/html"}


def results(operation, order, values, threads=1, better="higher"):
    about = {"series_id": f"{operation}/{threads}", "threads": threads, "better": better}
    return [result(operation, order, value, version=f"v{order}", **about) for value in values]


def small():
    """Three operations: two of one pair of versions, one of a range of them; `slow` got 10 % worse."""
    rows = [row for order in range(3) for row in results("steady", order, (100.0, 101.0, 102.0))]
    for order in (0, 1):
        rows += results("slow", order, [10.0 + order] * 3, better="lower")
        rows += results("slow", order, [20.0 - order] * 3, 4, better="lower")
    whole = compared("a/3", "steady", (0, 1), (2, 2))
    comparisons = [compared("a/1", "steady"), compared("a/2", "slow"), whole]
    return ComparisonTables.from_rows(rows, comparisons, [{"comparison_id": "a/1", "status": "pass"}])


def drifting(operations=9, versions=90):
    """Operations of which most get worse at the same versions, and comparisons of ranges of them."""
    random, rows, comparisons = np.random.default_rng(1), [], []
    for place in range(operations):
        level = 100.0
        for order in range(versions):
            level *= 0.9 if order % 7 == 3 and random.random() < 0.7 else 1.0
            rows += results(f"o{place}", order, level * random.normal(1, 0.005, 3))
        comparisons += [
            compared(f"o{place}/{at}", f"o{place}", (at - 4, at - 1), (at, at + 2))
            for at in range(6, versions - 3, 8)
        ]
    return ComparisonTables.from_rows(rows, comparisons, None)


def test_reports_group_by_machine_and_versions_under_anonymous_addresses():
    offered = OfferedComparisons.from_tables(small())
    told = {
        (one.baseline, one.target): [offered.named.identifiers[row] for row in one.rows]
        for one in offered.reports.values()
    }
    assert told == {("v0", "v1"): ["a/2", "a/1"], ("v0..v1", "v2"): ["a/3"]}
    assert all(re.fullmatch("[0-9a-f]{20}", key) for key in [*offered.reports, *offered.keys])
    assert len({*offered.reports, *offered.keys}) == 5
    assert offered.labels == {"a/1": "pass"}


def test_worse_configurations_have_positive_changes_and_boxes_further_right():
    sides = OfferedComparisons.from_tables(small()).select_comparisons(np.array([1])).sides
    found = [(one.threads, round(one.change, 6), one.text, one.level) for one in change_cells(sides)]
    assert found == [(1, -0.1, "+10.0", "worse-4"), (4, 0.05, "\u22125.0", "better-3")]
    assert [ChangeCell(1, change).text for change in (None, -0.0004)] == ["\u2013", "0.0"]
    drawing = BoxDrawing.from_sides(sides)
    slower, faster = drawing.pairs
    assert slower.target.five[2] > slower.baseline.five[2] == faster.baseline.five[2] > faster.target.five[2]
    boxes = [box for one in drawing.pairs for box in (one.baseline, one.target)]
    places = [place for box in boxes for place in (*box.five, *box.dots)]
    assert 0 < min(places) <= max(places) < 100
    written = [format_number(number) for number in (14469.1, 9999.96, 0.0123456, np.nan)]
    assert written == ["14,469", "10,000", "0.012346", "\u2013"]


def test_verdicts_of_a_subset_equal_those_among_all(forest):
    offered = OfferedComparisons.from_tables(drifting())

    def answers(named):
        return json.loads(render.as_json(judge_sides(named, forest)))["verdicts"]

    whole = answers(offered.named)
    assert np.ptp([one["probability"] for one in whole]) > 0.3
    for rows in (np.array([4]), np.array([11, 22, 33, 44])):
        part = offered.select_comparisons(rows)
        assert answers(part) == [whole[row] for row in rows]
    none = offered.named.sides.siblings
    few = offered.select_comparisons(np.array([4])).sides.siblings
    assert len(few.versions.series) < len(none.versions.series) / 3
    assert keep_nearby_versions(none.select_rows(np.zeros(0, np.int64))).versions is none.versions


@pytest.fixture(scope="module")
def forest():
    return served_by(RandomForestClassifier(20, random_state=0))


@cache
def drifting_vectors():
    return feature_vectors(OfferedComparisons.from_tables(drifting()).named.sides)


def served_by(classifier, threshold=0.5):
    """Return a model that looks at what other operations did, too."""
    columns = drifting_vectors()
    told = columns[:, FEATURES.index("siblings_worse_max")]
    assert len(np.unique(told)) > 3
    fails = told + np.random.default_rng(0).normal(0, 0.1, len(told)) > np.median(told)
    # without scaling, it is no pipeline of the catalogue, and is not compiled
    fitted = make_pipeline(SimpleImputer(keep_empty_features=True), classifier).fit(columns, fails)
    return served_model(fitted, FEATURES, threshold)


class Server:
    def __init__(self, directory, tables=None, model=None, **settings):
        (small() if tables is None else tables).write(directory / "source")
        options = {"labels": f"sqlite:///{directory}/labels.db", "comparisons": str(directory / "source")}
        self.app = create_app({} if model is None else {"model": model}, ServerSettings(options, **settings))

    def get(self, path, headers=HTML):
        return ask(self.app, ("GET", path, {"headers": headers}), base="http://localhost:8000")[0]

    def read(self):
        assert self.app.state.pool.find_identifier("a/1")
        return self


def test_pages_are_unavailable_until_the_source_is_read(tmp_path, monkeypatch):
    go, read = threading.Event(), OfferedComparisons.read
    monkeypatch.setattr(OfferedComparisons, "read", lambda *given: go.wait(20) and read(*given))
    server = Server(tmp_path)
    page = server.get("/comparisons")
    assert (page.status_code, page.headers["retry-after"]) == (503, "1")
    assert 'http-equiv="refresh"' in page.text
    assert server.get("/comparisons/queue", {}).headers["content-type"] == "application/problem+json"
    go.set()
    assert server.read().get("/comparisons").status_code == 200
    # comparisons are found by their identifiers, and by the keys of their pages
    names = ("a/1", key_of("a/1"), "b/1", key_of("b/1"))
    assert [*map(server.app.state.pool.find_identifier, names)] == ["a/1", "a/1", None, None]


def test_a_missing_or_unreadable_source_is_reported_on_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(OfferedComparisons, "read", Mock(side_effect=InputError("is broken", file="x.xml")))
    server = Server(tmp_path)
    with pytest.raises(InputError, match=r"x\.xml is broken|x\.xml: is broken"):
        server.app.state.pool.find_identifier("a/1")
    assert "is broken" in server.get("/comparisons").text
    server.app = create_app({})
    page = server.get("/comparisons")
    assert page.status_code == 404
    assert "perfjudge serve --comparisons SOURCE" in page.text
    assert not server.app.state.pool.find_identifier("a/1")


def test_pages_and_log_say_why_no_model_is_available(tmp_path, caplog, forest):
    model = Mock(ref=None, ensure_loaded=Mock(side_effect=InputError("is damaged", file="model.skops")))
    server = Server(tmp_path, model=model).read()
    offered = server.app.state.pool.offered_comparisons()
    report = f"/comparisons/{offered.report_of(0).key}"
    reason = "no model is available (model.skops: is damaged), so a rank statistic orders comparisons"
    for path in ("/comparisons", "/comparisons/next", report, f"{report}/{offered.keys[0]}"):
        assert reason in server.get(path).text
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == ["labelling: no model is available (model.skops: is damaged)"]
    model.ensure_loaded = lambda: forest
    assert reason not in server.get(report).text


def test_pages_show_the_token_owner_and_missing_label_permission(tmp_path):
    file = tmp_path / "tokens"
    tokens = [add_token(file, name, scopes) for name, scopes in (("anna", "read,label"), ("guest", "read"))]
    server = Server(tmp_path, tokens=str(file)).read()
    secrets = [base64.b64encode(f"x:{token}".encode()).decode() for token in tokens]
    anna, guest = (
        server.get("/comparisons", HTML | {"authorization": f"Basic {secret}"}).text for secret in secrets
    )
    assert 'data-person="anna"' in anna
    assert "Nothing can be labelled" not in anna
    assert "the token of &#34;guest&#34; does not allow to label" in guest
    assert len({re.search('data-csrf="([^"]+)"', page)[1] for page in (anna, guest)}) == 2
    assert server.get("/comparisons").status_code == 401


def test_pages_are_shown_although_labels_cannot_be_read(tmp_path, monkeypatch):
    server, away = Server(tmp_path).read(), Mock(side_effect=UnreachableError("the labels cannot be reached"))
    for name in ("current_labels", "label_history"):
        monkeypatch.setattr(server.app.state.labels, name, away)
    report = next(iter(server.app.state.pool.offered_comparisons().reports))
    for path in ("/comparisons", f"/comparisons/{report}", "/comparisons/next"):
        page = server.get(path)
        assert (page.status_code, "The labels cannot be read now" in page.text) == (200, True)


def test_search_covers_report_contents_and_long_reports_are_paged(tmp_path, monkeypatch):
    server = Server(tmp_path).read()
    for asked, found, other in (
        ("SLOW&show=all", ">v0 → v1<", ">v0..v1 → v2<"),
        ("SLOW", ">Report 1<", ">Report 2<"),
        ("<b>", "No report has “&lt;b&gt;”", ">Report 1<"),
        # what is hidden is not found either
        ("v0", "No report has “v0”", ">Report 1<"),
        ("v0&show=all", ">v0 → v1<", "No report has"),
    ):
        page = server.get(f"/comparisons?find={asked}").text
        assert (found in page, other in page) == (True, False)
    monkeypatch.setattr(pages, "ROWS", 1)
    offered = server.app.state.pool.offered_comparisons()
    report = next(key for key, one in offered.reports.items() if len(one.rows) == 2)
    parts = [server.get(f"/comparisons/{report}?from={start}").text for start in ("0", "1", "-1", "x", "99")]
    assert ['data-name="slow"' in part for part in parts] == [True, False, True, True, True]


def test_search_finds_versions_in_names_only_where_shown(tmp_path):
    tables = small()
    for table in (tables.results, tables.comparisons):
        table["operation"] = table["operation"].replace("slow", "slow of v1")
    server = Server(tmp_path, tables).read()
    finds = ("slow of", "of v1", "of v1&show=all")
    pages = [server.get(f"/comparisons?find={find}").text for find in finds]
    assert ["No report has" in page for page in pages] == [False, True, False]


def test_pages_reveal_versions_verdicts_and_labels_after_the_choice_only(tmp_path):
    def shown(name, version, status, fails):
        tables = small()
        tables.results["version"] = tables.results["order"].map(version)
        tables.labels["status"] = status
        (tmp_path / name).mkdir()
        served = served_by(GaussianNB(), fails)
        model = Mock(ref=served.ref, ensure_loaded=lambda: served)
        server = Server(tmp_path / name, tables, model).read()
        store = server.app.state.labels
        store.add_label(NewLabel("a/2", status, "ben", "k"))
        offered = server.app.state.pool.offered_comparisons()
        paths = ["/comparisons", "/comparisons/next"]
        for report in offered.reports.values():
            keys = [offered.keys[row] for row in report.rows]
            paths += [f"/comparisons/{report.key}", *(f"/comparisons/{report.key}/{key}" for key in keys)]
        pages = [server.get(path).text for path in paths]
        everything = [server.get(f"{path}?show=all").text for path in paths]
        deadline = time.monotonic() + 60
        while (queue := server.get("/comparisons/queue")).status_code == HTTPStatus.ACCEPTED:
            assert time.monotonic() < deadline
        # names of reports in addresses follow from versions, and tell nothing of them
        pages = [*pages, queue.text, str(queue.headers)]
        unnamed = [re.sub(r'[0-9a-f]{20,}|data-csrf="[^"]*"', "", page) for page in pages]
        store.add_label(NewLabel("a/2", "pass", "anna", "own"))
        (own,) = (path for path in paths if path.endswith(f"/{key_of('a/2')}"))
        return unnamed, everything, server.get(own, HTML | {"cookie": "perfjudge.name=anna"}).text

    first, first_all, _ = shown("x", "pass {}".format, "pass", 0.01)
    second, second_all, chosen = shown("y", "work+{}%".format, "fail", 0.99)
    assert first == second
    assert all(one != other for one, other in zip(first_all, second_all, strict=True))
    hidden = [page.replace("labelled</b> ben</span>", "") for page in second]
    assert not any("work+" in page or "ben</span>" in page for page in hidden)
    assert [words for words in ("work+", 'class="verdict', "ben</span>") if words not in chosen] == []


def test_version_and_file_names_are_masked_in_names():
    tables = small()
    tables.results["version"] = tables.results["order"].map({0: "pass 9", 1: "work+3%", 2: "2"})
    tables.comparisons["source"] = "data/after work.xml:4 operation"
    offered = OfferedComparisons.from_tables(tables)
    names = ("m", "pass 9 -> work+3%", "pass 99", "sort after work", "sort 2")
    assert [offered.mask_name(name, 0) for name in names] == ["m", "… -> …", "pass 99", "sort …", "sort 2"]


def test_simultaneous_annotators_get_different_comparisons_first():
    now, names = pd.Timestamp.now("UTC"), [*"abcdef"]
    rows = [("x", "pass", who, now - pd.Timedelta(minutes=ago)) for who, ago in (("ben", 1), ("carl", 60))]
    columns = ["comparison_id", "status", "labelled_by", "labelled_at"]
    given = StoredLabels.from_current(pd.DataFrame(rows, columns=columns))
    assert pages.order_by_share(names, given, "anna") == [*"acebdf"]
    assert pages.order_by_share(names, StoredLabels.empty_labels(), "anna") == names
    assert pages.order_by_share(names, given, "") == pages.order_by_share(names, given, "ben") == names


def test_background_values_are_computed_once_per_state():
    asked, found = [], Background("counting")

    def counted(state):
        asked.append(state)
        if state == "bad":
            raise ValueError("no")
        return len(asked)

    for state in ("a", "a", "b", "bad", "bad"):
        found.latest_value(state, lambda state=state: counted(state))
        found.wait_until_done(5)
    assert asked == ["a", "b", "bad"]
    assert found.value == 2
    assert found.failure == "counting failed (ValueError); the server's log says more"
