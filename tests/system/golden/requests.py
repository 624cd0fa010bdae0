"""The requests whose answers are recorded, sent to a server that has the champions of the short pipeline."""

import json
import re
import time
from base64 import b64encode
from http import HTTPStatus

import httpx

from tests.system.conftest import Listening
from tests.system.golden.commands import CHECKOUT, SAMPLES

JSON, XML = "application/json", "application/xml"
_SAMPLES = CHECKOUT / SAMPLES
#: How many comparisons of the labelled samples are looked at one by one.
_PAGES = 3
FIGURE = """<comparison_results base_uuid="b" report_uuid="r" target_uuid="t">
  <comparison_result benchmark_name="NASParallel" operation_name="bt_C_x">
    <result median_diff="1" threads_no="4">
      <base_result first_q="7409.2" max="7507.0" mean="7451.7" median="7456.5" min="7406.4" stdev="39.2"
        third_q="7479.3"/>
      <target_result first_q="7503.0" max="7597.5" mean="7513.1" median="7522.2" min="7404.8" stdev="62.7"
        third_q="7537.8"/>
    </result></comparison_result>
  <comparison_result benchmark_name="NASParallel" operation_name="mg_C_x">
    <result median_diff="-10" threads_no="8">
      <base_result first_q="14330.8" max="14740.1" mean="14476.6" median="14469.1" min="14325.9"
        stdev="151.7" third_q="14517.2"/>
      <target_result first_q="12897.7" max="13266.1" mean="13028.9" median="13022.2" min="12893.3"
        stdev="136.5" third_q="13065.5"/>
    </result></comparison_result></comparison_results>"""
_COMPARISON = {
    "comparison_id": "bt_C_x-42",
    "benchmark": "NASParallel",
    "operation": "bt_C_x",
    "machine": "m1",
    "unit": "Mop/s",
    "better": "higher",
    "configurations": [
        {
            "threads": 4,
            "baseline": [7406.4, 7409.2, 7456.5, 7479.3, 7507.0],
            "target": {"min": 6604.8, "q1": 6703.0, "median": 6722.2, "q3": 6737.8, "max": 6797.5},
        }
    ],
}
_HISTORY = _COMPARISON | {
    "comparison_id": "with history",
    "better": "lower",
    "siblings_worse": 0.25,
    "unit": "s",
    "configurations": [
        {
            "threads": threads,
            "baseline": [[10.0, 10.1, 9.9], [10.2, 10.05, 9.95]],
            "target": [[10.9, 11.0, 11.2], [11.1, 10.8, 10.95]],
            "history": [[9.9, 10.0, 10.1], [10.3, 10.1, 10.2], [10.0, 9.8, 9.9]],
            "later": [[11.0, 11.1, 11.05]],
        }
        for threads in (1, 2)
    ],
}
_IRUP = {
    "machines": [
        {
            "machine": "m1",
            "cpu": "Xeon E5-2630",
            "stress_ng": "0.15.06",
            "rates": {"mmap": 0.3, "crypt": 70.5, "cpu": [80.7, 80.9]},
        },
        {"machine": "m2", "cpu": "Xeon E5-2690", "rates": {"mmap": 0.7, "crypt": 106.6, "cpu": 175.8}},
        {"machine": "m3", "cpu": "EPYC 7402P", "rates": {"mmap": 1.0, "crypt": 103.2, "cpu": 123.6}},
        {"machine": "m4", "cpu": "EPYC 7763", "rates": {"mmap": 1.1, "crypt": 156.6, "cpu": 270.6}},
        {"machine": "m5", "cpu": "Core i7-930", "rates": {"mmap": 0.6, "crypt": 92.1, "cpu": None}},
    ],
    "application": {
        "name": "zlog",
        "metric": "seconds",
        "better": "lower",
        "values": {"m1": [186.1, 186.3], "m2": 90.6, "m3": 72.1, "m4": 88.0},
    },
}
_STATIC = {
    "coruns": [
        {"task": "bsearch", "corunners": ["sqlite"]},
        {"task": "sqlite", "corunners": ["bsearch", "cpu-fft"]},
        {"task": "bsearch", "corunners": ["mine", "sqlite"]},
    ],
    "tasks": [{"task": "mine", "solo_seconds": 3.2, "events": {"page-faults": 5210, "instructions": None}}],
}
_ONLINE = {
    "solo": {
        "t_seconds": [0.2, 0.4, 0.6],
        "events": {"page-faults": [310, 290, 305], "task-clock": [200, 199, 200]},
    },
    "corun": {
        "t_seconds": [0.2, 0.4, 0.6],
        "events": {"page-faults": [240, None, 238], "task-clock": [199, 200, 199]},
    },
}
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
    """Return path, name, type and body of each POST request."""
    path, labelled = "/v1/comparisons/judge", (_SAMPLES / "labelled.xml").read_text()
    two = [_COMPARISON, _HISTORY]
    for name, body in (
        ("mine.json", (_SAMPLES / "mine.json").read_text()),
        ("two", {"comparisons": two}),
        ("two with explanations", {"comparisons": two, "explain": True}),
        ("twice the same", {"comparisons": [_COMPARISON, _COMPARISON]}),
        ("no comparison", {"comparisons": []}),
        ("a field too many", {"comparisons": [_COMPARISON | {"colour": "red"}]}),
        ("no direction", {"comparisons": [{key: _HISTORY[key] for key in _HISTORY if key != "better"}]}),
        ("an endless number", json.dumps({"comparisons": two}).replace("7406.4", "1e999")),
        ("a word for a number", json.dumps({"comparisons": two}).replace("7406.4", '"many"')),
        ("a word for threads", {"comparisons": [_with(threads="many")]}),
        ("one sample", {"comparisons": [_with(baseline=[1.0], target=[2.0])]}),
        ("negative samples", {"comparisons": [_with(baseline=[-1.0, 2.0])]}),
        ("a summary in a wrong order", {"comparisons": [_with(target={"min": 3, "median": 2, "max": 1})]}),
        ("no JSON", "{"),
        ("a list", []),
        ("nothing", ""),
    ):
        yield path, name, JSON, body
    for name, body in (
        ("figure 6.1", FIGURE),
        ("labelled.xml", labelled),
        ("result XML", (_SAMPLES / "before.xml").read_text()),
        ("no XML", "<comparison_results>"),
        ("an entity", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'),
    ):
        yield path, name, XML, body
    yield path, "figure 6.1 as text/xml", "text/xml; charset=utf-8", FIGURE
    yield path, "text", "text/plain", "x"
    path, files = (
        "/v1/comparisons/compare",
        {
            side: [
                {
                    "name": f"{name}.json",
                    "content": b64encode((_SAMPLES / f"ci/{name}.json").read_bytes()).decode(),
                }
            ]
            for side, name in (("baseline", "base"), ("target", "new"))
        },
    )
    yield path, "two files", JSON, files | {"forms": ["markdown"]}
    yield path, "one file", JSON, {"baseline": files["baseline"]}
    path, matrices = "/v1/matrices/judge", json.loads((_SAMPLES / "matrices.json").read_text())
    for name, body in (
        ("matrices.json", matrices),
        ("no unit", {key: value for key, value in matrices.items() if key != "units"}),
        ("no pair", {"pairs": []}),
        ("no runs", {"pairs": [matrices["pairs"][0] | {"baseline": {"version": "1", "metrics": {}}}]}),
        ("no workload", {"pairs": [{"pair_id": "a"}]}),
    ):
        yield path, name, JSON, body
    yield path, "XML", XML, FIGURE
    path, short = "/v1/corun/static", _STATIC["coruns"][0]
    for name, body in (
        ("three", _STATIC),
        ("nobody", {"coruns": [{"task": "nobody", "corunners": ["sqlite"]}]}),
        ("no co-runner", {"coruns": [short | {"corunners": []}]}),
        ("elsewhere", {"coruns": [short | {"machine": "elsewhere"}]}),
        ("a field too many", {"coruns": [short], "machine": "elsewhere"}),
    ):
        yield path, name, JSON, body
    path = "/v1/corun/online"
    for name, body in (
        ("short", _ONLINE),
        ("whole", _ONLINE | {"solo_is_whole": True}),
        ("one side", {"solo": _ONLINE["solo"]}),
        ("different lengths", _ONLINE | {"solo": {"t_seconds": [0.2], "events": {"page-faults": [1, 2]}}}),
        (
            "times that go back",
            _ONLINE | {"solo": {"t_seconds": [0.4, 0.2], "events": {"page-faults": [1, 2]}}},
        ),
    ):
        yield path, name, JSON, body
    path = "/v1/irup"
    for name, body in (
        ("zlog", _IRUP),
        ("no value", _IRUP | {"application": _IRUP["application"] | {"values": {}}}),
        ("no machine", _IRUP | {"machines": []}),
    ):
        yield path, name, JSON, body


def _with(**changes):
    """Return a comparison whose only configuration has other values."""
    return _COMPARISON | {"configurations": [_COMPARISON["configurations"][0] | changes]}


class Server(Listening):
    """The server that is asked, in the working directory, with the labels of a directory."""

    def __init__(self, scratch):
        labels = ("--labels", f"sqlite:///{scratch / 'labels.db'}", "--comparisons", f"{SAMPLES}/labelled")
        super().__init__("--watch", "600", *labels, "--log-level", "error")

    def wait_for_order(self):
        """Wait until the server has read the comparisons and ordered what to label first.

        It does so in the background, from the first request on, and judges them meanwhile.
        """
        deadline = time.monotonic() + 120
        paths = ["/comparisons", "/comparisons/queue"]
        while [self.ask("GET", path).status_code for path in paths] != [HTTPStatus.OK] * 2:
            if time.monotonic() > deadline:
                raise TimeoutError("what to label first is never computed")
            time.sleep(0.2)

    def ask(self, method, path, headers=None, body=None):
        """Return the answer to a request."""
        content = body if body is None or isinstance(body, str) else json.dumps(body)
        return httpx.request(method, f"{self.url}{path}", headers=headers, content=content, timeout=120)


def answered(root, normaliser, renames):
    """Return the answers to all requests by name."""
    scratch = root / "golden/http"
    scratch.mkdir(parents=True, exist_ok=True)
    for old in scratch.glob("labels.db*"):
        old.unlink()
    server = Server(scratch)
    found = {"announced": normaliser.text(server.announced)}

    def asked(name, method, path, headers, body):
        path = renames.text(path)
        body = renames.value(body)
        answer = server.ask(method, path, headers, body)
        entry = {"status": answer.status_code, "content_type": answer.headers.get("content-type", "")}
        if notes := answer.headers.get("perfjudge-notes"):
            entry["notes"] = normaliser.text(notes)
        entry["body"] = _metrics(answer.text) if path == "/metrics" else normaliser.answer(answer.text)
        found[name] = entry
        return answer.text

    try:
        server.wait_for_order()
        for name, method, path, headers, body in listed():
            text = asked(name, method, path, headers, body)
            if path == "/comparisons":
                contents = text
        links = re.findall(r'href="(/comparisons/(?!next|queue)[^"?#]+)"', contents)
        for number, link in enumerate(dict.fromkeys(links)):
            if number < _PAGES:
                page = asked(f"report {number}", "GET", link, {}, None)
                inner = re.findall(rf'href="({re.escape(link)}/[^"?#]+)"', page)
                for place, one in enumerate(dict.fromkeys(inner)):
                    if place < _PAGES:
                        asked(f"comparison {number}.{place}", "GET", one, {}, None)
        asked("GET / at the end", "GET", "/", {}, None)
    finally:
        server.stop()
    return found


def _metrics(text):
    """Return names, kinds and descriptions of metrics: their values are times and counts of this process."""
    return "\n".join(sorted(line for line in text.splitlines() if line.startswith("#")))
