"""The addresses at which labels are put and read: who may, from where, how often, and what becomes of it."""

import base64
import logging
import sqlite3
from contextlib import closing

import pytest

from data.errors import InputError
from serving.comparisons.labels.endpoints import begun
from serving.http.api import create_app
from serving.http.authentication import add_token, read_tokens
from serving.http.settings import ServerSettings
from tests.asking import ask

ODD = ["a/b c", "<script>alert(1)</script>", "ü😀", "x" * 1000, "..%2f..", "a;b?c#d"]
#: With it, a name is the key of a comparison's page.
KEY = "key of "


class Pool:
    def find_identifier(self, name):
        name = name.removeprefix(KEY)
        return name if name in {"a", *ODD} else None


@pytest.fixture(autouse=True)
def registry(tmp_path, monkeypatch):
    """Ask no registry of the project for models: there is none."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")


class Labels:
    def __init__(self, directory, tokens=None, address=None, **options):
        told = {"labels": address or f"sqlite:///{directory}/labels.db", **options}
        hosts = None if tokens else ["bench.example"]
        self.app = create_app({}, ServerSettings(told, tokens=tokens, hosts=hosts))
        self.app.state.pool = Pool()
        self.numbers = iter(range(1000))

    def ask(self, method, path, **further):
        return ask(self.app, (method, path, further), base="http://localhost:8000")[0]

    def state(self):
        return self.ask("GET", "/readyz").json()["status"]

    def put(self, comparison_id="a", headers=(), **content):
        body = {"status": "fail", "key": f"k{next(self.numbers)}", **content}
        quoted = "".join(f"%{byte:02x}" for byte in comparison_id.encode())
        return self.ask("PUT", f"/v1/labels/{quoted}", json=body, headers=dict(headers))


@pytest.fixture
def labels(tmp_path):
    return Labels(tmp_path)


@pytest.fixture
def guarded(tmp_path):
    """A server with tokens: those of two who label, and of one who reads."""
    path = tmp_path / "tokens"
    scopes = {"anna": "read,label", "ben": "read,label", "reports": "read"}
    made = {name: add_token(path, name, scope) for name, scope in scopes.items()}
    return Labels(tmp_path, str(path)), made, {token.name: token for token in read_tokens(path)}


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def basic(token):
    return {"authorization": "Basic " + base64.b64encode(f"me:{token}".encode()).decode()}


def refused(answer, status, *words):
    """A refusal as RFC 9457 has it, which says these words."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["status"] == status
    assert all(word in answer.json()["detail"] for word in words), answer.text
    return True


def test_two_annotators_see_and_undo_their_labels(labels, caplog):
    caplog.set_level(logging.INFO)
    first = labels.put(labelled_by="anna", key="one", saw_verdict=False)
    assert first.status_code == 200
    assert labels.put(labelled_by="anna", key="one", saw_verdict=False).json() == first.json()
    labels.put(labelled_by="ben", status="pass")
    history = labels.put(labelled_by="anna", status=None).json()["history"]
    said = [(one["labelled_by"], one["status"], one["saw_verdict"], one["model"]) for one in history]
    assert said == [("anna", "fail", False, ""), ("ben", "pass", None, ""), ("anna", None, None, "")]
    assert labels.ask("GET", "/v1/labels/a").json() == {"comparison_id": "a", "history": history}
    (current,) = labels.ask("GET", "/v1/labels").json()["labels"]
    assert (current["labelled_by"], current["status"]) == ("ben", "pass")
    logged = [one for one in caplog.records if hasattr(one, "label")]
    told = [(one.labelled_by, one.label, one.comparison_id) for one in logged]
    assert told == [("anna", "fail", "a"), ("ben", "pass", "a"), ("anna", "withdrawn", "a")]
    metrics = labels.ask("GET", "/metrics").text
    for status in ("fail", "pass", "withdrawn"):
        assert f'perfjudge_labels_total{{status="{status}"}} 1.0' in metrics
    assert refused(labels.put(labelled_by="anna", key="one", status="pass"), 409, 'key="one"')


def test_only_known_comparisons_of_any_name_can_be_labelled(labels):
    for name in ODD:
        answer = labels.put(name, labelled_by="Änne O'Neill")
        assert (answer.status_code, answer.json()["label"]["comparison_id"]) == (200, name)
    assert {one["comparison_id"] for one in labels.ask("GET", "/v1/labels").json()["labels"]} == {*ODD}
    # a key and its comparison have the same history
    assert labels.put(KEY + ODD[0], labelled_by="ben").json()["label"]["comparison_id"] == ODD[0]
    by_key, by_name = (labels.ask("GET", f"/v1/labels/{asked}").json() for asked in (KEY + ODD[0], ODD[0]))
    assert by_key == by_name
    assert (by_key["comparison_id"], len(by_key["history"])) == (ODD[0], 2)
    for name in ("", "b", "../../etc/passwd", "/etc/passwd", "a\0", "y" * 5000, "<b>"):
        assert refused(labels.put(name, labelled_by="anna"), 404, "there is no comparison")


JSON = {"headers": {"content-type": "application/json"}}
LABEL = {"status": "fail", "key": "k", "labelled_by": "anna"}
NO_NAMES = ("a" * 65, "an\u202ena", " ", None)


@pytest.mark.parametrize(
    ("further", "status", "word"),
    [
        ({"content": b"{", **JSON}, 400, "not JSON"),
        ({"content": b" " * 20_000, **JSON}, 413, "more than 16384"),
        ({"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, "application/json"),
        ({"data": {"status": "fail"}}, 415, "application/json"),
        ({"json": LABEL | {"key": "a b"}}, 422, "key"),
        *(({"json": LABEL | {"labelled_by": name}}, 422, "labelled_by") for name in NO_NAMES),
        ({"json": LABEL | {"path": "/etc"}}, 422, "path"),
    ],
)
def test_invalid_labels_are_refused_and_not_stored(labels, further, status, word):
    assert refused(labels.ask("PUT", "/v1/labels/a", **further), status, word)
    assert labels.ask("GET", "/v1/labels").json() == {"labels": []}


def test_a_token_determines_the_annotator_and_the_permission(guarded):
    labels, made, _ = guarded
    assert labels.put(headers=bearer(made["anna"])).json()["label"]["labelled_by"] == "anna"
    assert labels.put(headers=bearer(made["anna"]), labelled_by="anna").status_code == 200
    assert refused(labels.put(headers=bearer(made["anna"]), labelled_by="ben"), 403, '"anna"', '"ben"')
    assert refused(labels.put(headers=bearer(made["reports"])), 403, '"label"')
    assert refused(labels.put(), 401, "token")
    assert labels.ask("GET", "/v1/labels/a", headers=basic(made["reports"])).status_code == 200
    assert refused(labels.ask("GET", "/v1/labels/a"), 401, "token")


PAGE = {"origin": "http://localhost:8000", "sec-fetch-site": "same-origin"}


def test_browser_credentials_also_need_the_csrf_token(guarded):
    labels, made, known = guarded
    csrf = labels.app.state.csrf
    own = {name: csrf.page_token({"perfjudge.holder": token}) for name, token in known.items()}
    page = {**basic(made["anna"]), **PAGE}
    signed = {**page, "x-csrf-token": own["anna"]}
    assert labels.put(headers=signed).status_code == 200
    assert labels.put(headers={**basic(made["anna"]), "x-csrf-token": own["anna"]}).status_code == 200
    for forged in (b"", own["ben"].encode(), "ü".encode()):
        headers = [*page.items(), ("x-csrf-token", forged)]
        assert refused(labels.put(headers=headers), 403, "x-csrf-token")
    for without in (page, basic(made["anna"])):
        assert refused(labels.put(headers=without), 403, "x-csrf-token")
    for origin in ("https://evil.example", "null", "http://localhost:8001", f"{PAGE['origin']}.evil.example"):
        assert refused(labels.put(headers={**signed, "origin": origin}), 403, "Origin")
    assert refused(labels.put(headers={**signed, "sec-fetch-site": "cross-site"}), 403, "another site")
    # a program says nothing of pages, and a bearer token is never sent unasked
    assert labels.put(headers={**bearer(made["anna"]), "origin": "https://evil.example"}).status_code == 200


def test_without_access_tokens_pages_still_need_csrf_tokens(tmp_path, labels):
    own = labels.app.state.csrf.page_token({})
    assert labels.put(headers={**PAGE, "x-csrf-token": own}, labelled_by="anna").status_code == 200
    assert refused(labels.put(headers=PAGE, labelled_by="anna"), 403, "x-csrf-token")
    assert refused(labels.put(headers={"sec-fetch-site": "same-origin"}, labelled_by="anna"), 403)
    other = Labels(tmp_path).app.state.csrf.page_token({})
    assert refused(labels.put(headers={**PAGE, "x-csrf-token": other}, labelled_by="anna"), 403)


def test_only_host_names_of_the_own_address_are_accepted(labels):
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[", "localhost.evil"):
        for method in ("GET", "PUT"):
            assert refused(labels.ask(method, "/v1/labels/a", headers={"host": host}), 403, "Host")
    for host in ("localhost", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST.", "bench.example:80", "127.9.9.9"):
        assert labels.put(headers={"host": host}, labelled_by="anna").status_code == 200


def test_rate_limits_for_labels_apply_per_annotator(tmp_path):
    labels = Labels(tmp_path, label_rate=3)
    assert [labels.put(labelled_by="anna", key=f"a{n}").status_code for n in range(4)] == [200, 200, 200, 429]
    late = labels.put(labelled_by="anna")
    assert refused(late, 429, "anna", "at most 3 labels in a minute")
    assert int(late.headers["retry-after"]) > 0
    # another process counts them, too; what is known is no label more
    again = Labels(tmp_path, label_rate=3)
    assert again.put(labelled_by="anna").status_code == 429
    assert again.put(labelled_by="anna", key="a1").status_code == 200
    assert again.put(labelled_by="ben").status_code == 200


def test_an_unreachable_label_store_only_degrades_the_server(tmp_path, caplog):
    labels = Labels(tmp_path, address=f"sqlite:///{tmp_path}/later/labels.db")
    answer = labels.put(labelled_by="anna", key="one")
    assert refused(answer, 503, "again, with the same key")
    assert int(answer.headers["retry-after"]) > 0
    assert str(tmp_path) not in answer.text
    assert [labels.ask("GET", path).status_code for path in ("/readyz", "/healthz", "/")] == [200] * 3
    assert labels.state() == "degraded"
    (tmp_path / "later").mkdir()
    assert labels.put(labelled_by="anna", key="one").status_code == 200
    assert labels.state() == "ok"


def test_a_store_that_can_only_be_read_degrades_the_server(tmp_path, monkeypatch):
    monkeypatch.setattr("data.comparisons.labels.database._PATIENCE", 0.1)
    labels = Labels(tmp_path)
    assert labels.put(labelled_by="anna", key="one").status_code == 200
    with closing(sqlite3.connect(tmp_path / "labels.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert labels.put(labelled_by="anna", key="two").status_code == 503
        assert labels.ask("GET", "/v1/labels").status_code == 200
        assert labels.state() == "degraded"
    assert labels.put(labelled_by="anna", key="two").status_code == 200
    assert labels.state() == "ok"


def test_password_of_the_label_store_is_never_shown(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    labels = Labels(tmp_path, address="postgresql://me:geheim@127.0.0.1:1/x?password=geheim")
    answers = [
        labels.put(labelled_by="anna"),
        *(labels.ask("GET", path) for path in ("/", "/readyz", "/metrics", "/v1/labels", "/openapi.json")),
    ]
    assert "geheim" not in "".join(answer.text for answer in answers) + caplog.text
    assert "127.0.0.1:1/x" in caplog.text


def test_a_server_without_a_label_store_reports_it(tmp_path):
    labels = Labels(tmp_path)
    labels.app.state.labels = None
    assert refused(labels.put(labelled_by="anna"), 503, "no labels are kept")
    labels.app.state.pool = None
    assert refused(labels.ask("GET", "/v1/labels"), 503, "--labels")
    assert labels.state() == "ok"


def test_an_unusable_label_store_is_reported_before_listening(tmp_path, caplog):
    (tmp_path / "text.db").write_text("no database " * 100)
    for store, source, told in (
        ("nowhere", {}, "expected sqlite:///FILE"),
        (f"sqlite:///{tmp_path}/no/labels.db", {}, "the directory does not exist"),
        (f"sqlite:///{tmp_path}/text.db", {}, "file is not a database"),
        (f"sqlite:///{tmp_path}/l.db", {"comparisons": f"{tmp_path}/no"}, "no such file or directory"),
    ):
        with pytest.raises(InputError, match=told):
            begun({"labels": store, **source})
    assert caplog.text == ""
    # a server of databases may come back
    away = {"labels": "postgresql://me:geheim@127.0.0.1:1/x", "comparisons": str(tmp_path)}
    assert begun(away) == {**away, "label_rate": 240}
    assert "labels are refused" in caplog.text
    assert "geheim" not in caplog.text
    assert not (tmp_path / "l.db").exists()
