"""The requests whose answers are recorded, sent to a server that has the champions of the short pipeline."""

import json
import re
from base64 import b64encode
from http import HTTPStatus
from pathlib import Path

import httpx
import yaml

from tests.imports import ROOT
from tests.system.conftest import Listening, wait_until
from tests.system.golden.comparing import Renames

JSON = "application/json"
SAMPLES = "docs/samples"
_SAMPLES = ROOT / SAMPLES
#: How many comparisons of the labelled samples are looked at one by one.
_PAGES = 3
_GETS = """
/openapi.json / /docs /healthz /readyz /v1/models /v1/shadow /v1/labels /metrics /nothing
/v1/models/regression-comparison/1 /v1/models/regression-matrix/1 /v1/models/corun-static/1
/v1/models/corun-online/1 /v1/models/regression-comparison/99 /v1/models/nobody/1 /v1/labels/nobody
/comparisons /comparisons/next /comparisons/queue /comparisons?find=py
/comparisons/nobody /comparisons/nobody/0
/reports/comparisons /reports/matrices /reports/corun /reports/fingerprints /reports/nobody
/v1/comparisons/judge
"""


def listed():
    """Return the requests by name: method, path, headers and body; a body that is no text is JSON."""
    for line in _GETS.split():
        yield f"GET {line}", "GET", line, {}, None
    for path, name, kind, body in _bodies():
        yield f"POST {path} {name}", "POST", path, {"Content-Type": kind}, body
    kind = {"Content-Type": JSON}
    known, unknown = "/v1/labels/py-sorting/work%2B15%25", "/v1/labels/nothing"
    given = {"status": "fail", "key": "4f0c2b7e", "labelled_by": "anna", "saw_verdict": False}
    for name, path, body in (
        ("a comparison", known, given),
        ("the same again", known, given),
        ("another opinion", known, given | {"status": "pass", "key": "5", "labelled_by": "ben"}),
        ("a change of mind", known, given | {"status": "pass", "key": "6", "saw_verdict": True}),
        ("an unknown comparison", unknown, given),
        ("an unknown status", known, given | {"status": "bad"}),
        ("no status", known, {}),
    ):
        yield f"PUT {name}", "PUT", path, kind, body
    yield "GET labels of a comparison", "GET", known, {}, None
    yield "GET all labels", "GET", "/v1/labels", {}, None
    yield "DELETE a label", "DELETE", known, {}, None
    yield "GET under another host name", "GET", "/v1/models", {"Host": "elsewhere.example"}, None


def _bodies():
    """Yield path, name, type and body of each POST request."""
    given = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    matrices = json.loads((_SAMPLES / "matrices.json").read_text())
    given["/v1/matrices/judge"][JSON] = {
        "matrices.json": matrices,
        "no unit": {key: value for key, value in matrices.items() if key != "units"},
        "no pair": {"pairs": []},
        "no runs": {"pairs": [matrices["pairs"][0] | {"baseline": {"version": "1", "metrics": {}}}]},
        "no workload": {"pairs": [{"pair_id": "a"}]},
    }
    baseline, target = (
        [{"name": f"{name}.json", "content": b64encode((_SAMPLES / f"ci/{name}.json").read_bytes()).decode()}]
        for name in ("base", "new")
    )
    given["/v1/comparisons/compare"][JSON] = {
        "two files": {"baseline": baseline, "target": target, "forms": ["markdown"]},
        "one file": {"baseline": baseline},
    }
    for path, by_type in given.items():
        for kind, bodies in by_type.items():
            for name, body in bodies.items():
                if isinstance(body, str):
                    content = (_SAMPLES / body[1:]).read_text() if body.startswith("@") else body
                else:
                    content = json.dumps(body).replace('"1e999"', "1e999")
                yield path, name, kind, content


def answered(root, normaliser):
    """Return the answers of a server in the working directory to all requests, by name."""
    scratch, renames = root / "golden/http", Renames.read()
    scratch.mkdir(parents=True, exist_ok=True)
    for old in scratch.glob("labels.db*"):
        old.unlink()
    labels = ("--labels", f"sqlite:///{scratch / 'labels.db'}", "--comparisons", f"{SAMPLES}/labelled")
    server = Listening("--watch", "600", *labels, "--log-level", "error")
    with server, httpx.Client(base_url=server.url, timeout=120) as client:
        found = {"announced": normaliser.text(server.announced)}

        def asked(name, method, path, headers=None, body=None):
            path, body = renames.text(path), renames.value(body)
            content = body if body is None or isinstance(body, str) else json.dumps(body)
            answer = client.request(method, path, headers=headers, content=content)
            entry = {"status": answer.status_code, "content_type": answer.headers.get("content-type", "")}
            if notes := answer.headers.get("perfjudge-notes"):
                entry["notes"] = normaliser.text(notes)
            entry["body"] = _metrics(answer.text) if path == "/metrics" else normaliser.answer(answer.text)
            found[name] = entry
            return answer.text

        # from the first request on, the server reads and judges the comparisons, in the background
        for path in ("/comparisons", "/comparisons/queue"):
            wait_until(lambda path=path: client.get(path).status_code == HTTPStatus.OK, 120)
        for name, *request in listed():
            asked(name, *request)
        contents = client.get("/comparisons").text
        links = re.findall(r'href="(/comparisons/(?!next|queue)[^"?#]+)"', contents)
        for number, link in enumerate(list(dict.fromkeys(links))[:_PAGES]):
            page = asked(f"report {number}", "GET", link)
            inner = re.findall(rf'href="({re.escape(link)}/[^"?#]+)"', page)
            for place, one in enumerate(list(dict.fromkeys(inner))[:_PAGES]):
                asked(f"comparison {number}.{place}", "GET", one)
        asked("GET / at the end", "GET", "/")
    return found


def _metrics(text):
    """Return names, kinds and descriptions of metrics: their values are times and counts of this process."""
    return "\n".join(sorted(line for line in text.splitlines() if line.startswith("#")))
