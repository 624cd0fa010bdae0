"""Request middleware, and when the supervisor of workers replaces one or ends the server."""

import asyncio
import base64
import gzip
import io
import json
import logging
import signal
import time
import tracemalloc
import zlib
from types import SimpleNamespace

import anyio
import pytest
import zstandard
from anyio import CapacityLimiter
from fastapi import FastAPI, Request, Response
from prometheus_client.parser import text_string_to_metric_families

from serving.http import middleware, request_context, schemas, server
from serving.http.authentication import add_token
from serving.http.batching import run_in_thread
from serving.http.bodies import PARTS, Answered, body_of
from serving.http.request_context import record_answer
from serving.http.settings import ServerSettings
from serving.models import ModelRef
from serving.plugins import Endpoint, Registered
from tests.asking import ask

LIMIT = 200_000
SERVED = type("Served", (), {"ref": ModelRef("some", "3", "models:/some/3"), "card": None})()


class Judged:
    def count_verdicts(self, answer):
        return {"pass": 2, "fail": 1}.get(answer, 0)

    def first_lines(self, max_lines):
        return []


def application(settings=None):
    app = FastAPI()
    app.state.models = {}
    schemas.add_error_handlers(app)
    door = Endpoint("/judge", "judge", "", Request, Response, {}, LIMIT, Registered("some", ""))

    @app.post("/judge")
    async def judge(request: Request):
        body = await body_of(request, LIMIT)
        record_answer(request.scope, door, ("", b""), Answered(b"", Judged()), SERVED)
        return Response(body)

    @app.put("/slow", operation_id="put_slow")
    @app.get("/slow")
    async def slow():
        await asyncio.sleep(60)

    @app.get("/page")
    async def page():
        return Response("", headers={"content-security-policy": "default-src 'self'"})

    @app.get("/secret/{word}")
    async def secret(word: str):
        raise ZeroDivisionError(f"by {len(word)}")

    @app.get("/healthz")
    async def healthz():
        return {}

    middleware.install_middleware(app, settings or ServerSettings())
    return app


def post(content, encoding="identity", app=None):
    headers = {"content-encoding": encoding}
    return ask(app or application(), ("POST", "/judge", {"content": content, "headers": headers}))[0]


PACKED = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}


@pytest.fixture
def keys(tmp_path):
    """Two tokens, one per scope, and an application that requires one."""
    path = tmp_path / "tokens"
    read, label = add_token(path, "reports", "read"), add_token(path, "anna", "label")
    return {"read": read, "label": label, "app": application(ServerSettings(tokens=str(path), timeout=0.2))}


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def basic(token):
    return {"authorization": "Basic " + base64.b64encode(f"me:{token}".encode()).decode()}


def test_tokens_grant_their_scope_and_are_never_logged(keys, caplog):
    caplog.set_level(logging.DEBUG)
    cases = [
        ("GET", "/page", {}, 401, "this needs a token: Authorization: Bearer TOKEN"),
        ("POST", "/judge", {}, 401, "this needs a token: Authorization: Bearer TOKEN"),
        ("GET", "/nowhere", {}, 401, "this needs a token"),
        ("GET", "/page", bearer("wrong-and-unknown"), 401, "the token is not known"),
        ("GET", "/page", basic("wrong-and-unknown"), 401, "the token is not known"),
        ("GET", "/page", bearer(keys["read"]), 200, ""),
        ("GET", "/page", basic(keys["read"]), 200, ""),
        ("POST", "/judge", basic(keys["read"]), 401, "POST does not take this Authorization; expected Bear"),
        ("POST", "/judge", {"authorization": keys["read"]}, 401, "POST does not take this Authorization"),
        ("POST", "/judge", bearer(keys["read"]), 200, ""),
        ("GET", "/page", bearer(keys["label"]), 403, ""),
        ("PUT", "/slow", bearer(keys["read"]), 403, ""),
        ("PUT", "/slow", bearer(keys["label"]), 504, ""),
        ("GET", "/page", {"authorization": "Basic no/base64!"}, 401, ""),
        ("GET", "/page", {"authorization": f"Digest {keys['read']}"}, 401, "GET does not take this Authoriz"),
        ("GET", "/healthz", {}, 200, ""),
    ]
    requests = [(method, path, {"headers": headers}) for method, path, headers, *_ in cases]
    answers = ask(keys["app"], *requests)
    assert [answer.status_code for answer in answers] == [status for *_, status, _ in cases]
    for answer, (*_, status, told) in zip(answers, cases, strict=True):
        if status in {401, 403}:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["detail"].startswith(told)
            assert 'Bearer realm="perfjudge"' in answer.headers["www-authenticate"]
            assert ("invalid_token" in answer.headers["www-authenticate"]) == ("not known" in told)
    assert ["Basic" in answer.headers["www-authenticate"] for answer in answers[:3]] == [True, False, True]
    told = caplog.text + str([record.__dict__ for record in caplog.records])
    told += str([(answer.headers, answer.text) for answer in answers])
    assert not any(secret in told for secret in (keys["read"], keys["label"], "wrong-and-unknown"))
    assert "'token': 'reports'" in told


def test_openapi_requires_tokens_if_they_are_configured(keys):
    document = keys["app"].openapi()
    middleware.extend_openapi(document, ServerSettings(tokens="tokens"))
    assert set(document["components"]["securitySchemes"]) == {"bearer", "basic"}
    asked = {path: one.get("security") for path, ways in document["paths"].items() for one in ways.values()}
    expected = {"/healthz": None, "/judge": [{"bearer": []}], "/page": [{"bearer": []}, {"basic": []}]}
    assert expected.items() <= asked.items()
    assert {"401", "403", "504"} <= set(document["paths"]["/page"]["get"]["responses"])


@pytest.mark.parametrize("how", ["gzip", "zstd", "GZip "])
def test_a_compressed_body_is_decompressed_up_to_the_limit(how):
    packed, whole = PACKED[how.strip().lower()], bytes(range(250)) * (LIMIT // 250)
    half = whole[: LIMIT // 2]
    for content, expected in ((packed(half), half), (packed(half) + packed(whole[LIMIT // 2 :]), whole)):
        answer = post(content, how)
        assert (answer.status_code, answer.content) == (200, expected)
    over = post(packed(whole + b"x"), how)
    assert (over.status_code, str(LIMIT) in over.json()["detail"]) == (413, True)


@pytest.mark.parametrize("how", ["gzip", "zstd"])
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda body: body[:-1], "Content-Encoding"),
        (lambda body: body[: len(body) // 2], "Content-Encoding"),
        (lambda body: body + b"more", "Content-Encoding"),
        (lambda _: b"{}", "Content-Encoding"),
        (lambda body: body * (PARTS + 2), "parts"),
    ],
    ids=["without its end", "half of it", "with more", "not packed", "many members"],
)
def test_a_malformed_compressed_body_is_refused(how, spoil, told):
    answer = post(spoil(PACKED[how](b"some content" * 10)), how)
    assert (answer.status_code, told in answer.json()["detail"]) == (400, True)
    assert "b'" not in answer.json()["detail"]


def test_unsupported_content_encodings_are_answered_with_the_supported():
    answer = post(b"x", "br")
    assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "gzip, zstd")
    assert post(b"x", "identity").content == b"x"


@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_a_decompression_bomb_is_refused_at_the_limit(how):
    packer = zlib.compressobj(9, wbits=31) if how == "gzip" else zstandard.ZstdCompressor().compressobj()
    content = b"".join(packer.compress(bytes(2**20)) for _ in range(40)) + packer.flush()
    assert len(content) < LIMIT
    tracemalloc.start()
    try:
        assert post(content, how).status_code == 413
        assert tracemalloc.get_traced_memory()[1] < 20 * LIMIT
    finally:
        tracemalloc.stop()


def test_a_zstd_body_with_a_huge_window_is_refused():
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    assert post(packer.compress(b"x" * 100) + packer.flush(), "zstd").status_code == 400


def test_slow_bodies_and_slow_answers_end_at_their_time_limits():
    async def trickling():
        for _ in range(50):
            yield b"x"
            await asyncio.sleep(0.05)

    began = time.monotonic()
    slow_body = post(trickling(), app=application(ServerSettings(body_timeout=0.2)))
    assert (slow_body.status_code, slow_body.headers["connection"]) == (408, "close")
    assert "0.2 s" in slow_body.json()["detail"]
    (slow_answer,) = ask(application(ServerSettings(timeout=0.1)), ("GET", "/slow"))
    assert (slow_answer.status_code, "0.1 s" in slow_answer.json()["detail"]) == (504, True)
    assert time.monotonic() - began < 2


def test_abandoned_work_keeps_its_slot_and_queued_work_never_starts():
    done = []

    def work(name):
        time.sleep(0.3)
        done.append(name)

    async def late():
        limiter = CapacityLimiter(1)
        for name in ("begun", "queued"):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await run_in_thread(lambda name=name: work(name), limiter)
        assert (done, limiter.available_tokens) == ([], 0)
        await run_in_thread(lambda: work("after"), limiter)
        return limiter.available_tokens

    assert anyio.run(late) == 1
    assert done == ["begun", "after"]


def test_harmless_request_ids_of_clients_are_kept():
    names = ["report-7.2:a_b", "two words", "a" * 101, "<script>", ""]
    given = [("GET", "/page", {"headers": {"x-request-id": name}}) for name in names]
    called = [answer.headers["x-request-id"] for answer in ask(application(), *given, *given[1:2])]
    assert called[0] == names[0]
    assert all(len(name) == 32 and int(name, 16) for name in called[1:])
    assert len(set(called)) == len(called)


def test_every_answer_has_headers_for_browser_security():
    page, problem = ask(application(), ("GET", "/page"), ("GET", "/nowhere"))
    assert page.headers["content-security-policy"] == "default-src 'self'"
    secure = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
    secure |= {"cache-control": "no-store", "x-frame-options": "DENY"}
    for answer in (page, problem):
        assert answer.headers.items() >= secure.items()
    assert problem.headers["content-security-policy"].startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in problem.headers["content-security-policy"]


@pytest.fixture
def lines(monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    loggers = [logging.getLogger(name) for name in (None, "perfjudge", "uvicorn")]
    handlers, levels = loggers[0].handlers[:], [logger.level for logger in loggers]
    request_context.configure_logging("info", "json")
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    loggers[0].handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = True


def test_access_log_lines_contain_no_body_or_path(lines):
    body = {"content": b"the body", "headers": {"x-request-id": "mine"}}
    ask(application(), ("POST", "/judge?key=hidden", body), ("GET", "/secret/hidden"), ("GET", "/hidden"))
    judged, error, failed, _ = lines()
    assert judged["seconds"] >= 0
    assert judged.items() >= {
        "level": "INFO", "request_id": "mine", "method": "POST", "route": "/judge", "status": 200,
        "received_bytes": 8, "sent_bytes": 8, "token": None, "model": "some", "version": "3",
        "verdicts": {"pass": 2, "fail": 1},
    }.items()  # fmt: skip
    assert (failed["route"], failed["status"]) == ("/secret/{word}", 500)
    assert (error["level"], error["message"].split(":")[0]) == ("ERROR", failed["request_id"])
    assert "ZeroDivisionError: by 6" in error["exc_info"]
    assert "hidden" not in str(lines())


def test_the_log_names_the_route_of_answered_and_refused_requests(keys, lines):
    expected = [
        ("GET", "/openapi.json", "/openapi.json", 200),
        ("GET", "/openapi.json", "/openapi.json", 401),
        ("POST", "/judge?key=hidden", "/judge", 401),
        ("GET", "/secret/hidden", "/secret/{word}", 401),
        ("GET", "/judge", "/judge", 405),
        ("GET", "/hidden", "unknown", 401),
    ]
    headers = {401: {}, 200: bearer(keys["read"]), 405: bearer(keys["read"])}
    ask(keys["app"], *[(method, path, {"headers": headers[end]}) for method, path, _, end in expected])
    assert [(line["route"], line["status"]) for line in lines()] == [one[2:] for one in expected]
    assert "hidden" not in str(lines())


def samples(app):
    text = app.state.metrics.prometheus_text().decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_requests_are_counted_by_route_status_and_model():
    app = application()
    ask(app, ("POST", "/judge", {"content": b"x"}), *[("GET", f"/nowhere/{number}") for number in range(20)])
    found = samples(app)
    none = ("model", ""), ("route", "unknown"), ("status", "4xx"), ("version", "")
    some = ("model", "some"), ("route", "/judge"), ("status", "2xx"), ("version", "3")
    assert found["perfjudge_request_seconds_count", *none] == 20
    assert found["perfjudge_request_seconds_count", *some] == 1
    assert found["perfjudge_verdicts_total", ("endpoint", "/judge"), ("verdict", "pass")] == 2
    assert found["perfjudge_judging_seconds_count",] == 1
    assert found["perfjudge_requests_in_flight",] == 0
    assert [key[0] for key in found].count("perfjudge_request_seconds_count") == 2


def test_metrics_report_version_load_failure_and_swaps():
    app = application()
    for version, failure, swaps in (("1", None, 0), ("2", "version 3 is broken", 1)):
        model = SimpleNamespace(ref=ModelRef("some", version, ""), load_failure=failure, swaps=swaps)
        app.state.metrics.update_gauges({"key": model})
    found = samples(app)
    info = {dict(key[1:])["version"]: value for key, value in found.items() if "perfjudge_model_info" in key}
    assert info == {"1": 0, "2": 1}
    assert found["perfjudge_model_load_failure", ("key", "key")] == 1
    assert found["perfjudge_model_swaps", ("key", "key")] == 1


@pytest.mark.parametrize(
    ("serves", "ending"),
    [
        ([True] * 10, (0, False)),
        ([False] * 2 + [True] + [False] * 2, (0, False)),
        ([True] + [False] * 3, (3, True)),
    ],
)
def test_only_three_failed_starts_in_a_row_end_the_server(serves, ending, monkeypatch, tmp_path):
    starts = iter([*serves, False])

    def worker(*_):
        """Return a worker that ends at the second check, and at the first one serves or is still starting."""
        ready, alive = next(starts), iter([True, False])
        methods = dict.fromkeys(("start", "kill", "join"), lambda: None)
        methods |= {"is_alive": lambda _: next(alive), "is_ready": lambda _: ready}
        return SimpleNamespace(**methods, pid=1, exitcode=7)

    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(server, "Worker", worker)
    supervisor = server.Workers(SimpleNamespace(workers=1, timeout_worker_healthcheck=1), sockets=[])
    supervisor.init_processes()
    for _ in range(2 * len(serves)):
        supervisor.keep_subprocess_alive()
    assert (supervisor.exit_code, supervisor.should_exit.is_set()) == ending
