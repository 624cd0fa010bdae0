"""The start page ``/``: models, recent verdicts and links."""

from __future__ import annotations

import json
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from data.errors import InputError
from data.families import FAMILIES
from data.paths import FamilyPaths
from data.tables.documents import written
from data.tables.files import write_json
from serving.http.browser_pages import page_response, report_response
from serving.http.drift import FEWEST
from serving.http.models import HotReloadingModel
from serving.http.schemas import RefusedError
from serving.plugins import Endpoint, all_endpoints, all_pages, all_plugins, registered_names, served_models
from serving.reports.charts import percent
from serving.reports.rendering import render
from serving.reports.separation import join_names
from serving.reports.verdict_lines import VerdictLine
from serving.shadow import figures
from training.registry.champions import (
    CHALLENGER,
    CHAMPION,
    Version,
    project_root,
    served_version,
    tracking_uri,
)
from training.registry.promotion_history import challenger_reason, champion_reason
from training.registry.runs import headline_scores

if TYPE_CHECKING:
    from serving.http.bodies import Answered

#: Maximum number of recent verdicts, of verdicts of one answer, and of characters of their names and reasons.
KEPT, OF_ONE, LETTERS = 50, 10, 200


class RecentVerdict(NamedTuple):
    """A verdict: Unix time in seconds, and its line of text."""

    at: float
    line: VerdictLine

    @property
    def time(self) -> str:
        """The time in UTC as text."""
        return f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%d %H:%M:%S}"


class RecentVerdicts:
    """The last verdicts of this process, and of those that it shares a directory with."""

    def __init__(self, shared: str | None = None) -> None:
        self._verdicts = deque[RecentVerdict](maxlen=KEPT)
        self._shared = None if shared is None else Path(shared)
        self._changed = False

    def add_answer(self, answered: Answered) -> None:
        """Keep the first `OF_ONE` verdicts of an answer, if it has any; this takes microseconds."""
        if answered.judged is None:
            return
        now = time.time()
        for line in answered.judged.first_lines(OF_ONE):
            suite, name, reason = (text[:LETTERS] for text in (line.suite, line.name, line.reason))
            short = VerdictLine(line.verdict, line.probability, suite, name, reason)
            self._verdicts.append(RecentVerdict(now, short))
        self._changed = True

    def share_verdicts(self) -> None:
        """Write the verdicts to a file for the other processes, if there are new ones."""
        if self._shared is None or not self._changed:
            return
        # verdicts that arrive while the file is written are in the next one
        self._changed = False
        # a page with fewer verdicts is better than a failing server
        with suppress(OSError):
            verdicts = [[verdict.at, asdict(verdict.line)] for verdict in tuple(self._verdicts)]
            write_json(self._shared / f"recent-{os.getpid()}.json", verdicts)

    def newest_verdicts(self) -> list[RecentVerdict]:
        """Return the last verdicts of all processes, newest first, at most `KEPT`."""
        verdicts = list(self._verdicts)
        for path in [] if self._shared is None else self._shared.glob("recent-*.json"):
            # another process may have ended, and its file with it
            with suppress(OSError, ValueError):
                if path.name != f"recent-{os.getpid()}.json":
                    stored = json.loads(path.read_text(encoding="utf-8"))
                    verdicts += [RecentVerdict(at, VerdictLine(**line)) for at, line in stored]
        return sorted(verdicts, key=lambda verdict: -verdict.at)[:KEPT]


#: Displayed scores in order, with their names.
_SCORES = {
    "balanced_accuracy": "balanced accuracy",
    "false_negative_rate": "missed",
    "false_positive_rate": "false alarms",
    "average_precision": "average precision",
    "within_tolerance": "within tolerance",
    "coverage": "intervals that hold",
    "median_error": "median error",
    "mape": "mean error",
    "r2": "R²",
}
_MOST = 4
_PLAIN = {"balanced_accuracy", "average_precision", "r2"}


def _champion_figures(family: str) -> dict[str, Any]:
    paths = FamilyPaths(family, project_root())
    metrics: Mapping[str, Any] = written(paths.metrics, "evaluate")
    champion = str(metrics["champion"])
    splits = {
        f"{name}: {split['scheme']}": _formatted_scores(split["entries"][champion])
        for name, split in metrics["splits"].items()
        if champion in split["entries"]
    }
    return {"family": family, "champion": champion, "splits": splits, "report": paths.page.is_file()}


def _formatted_scores(scores: dict[str, Any]) -> Sequence[tuple[str, str]]:
    values = {**scores, **headline_scores(scores)}
    figures = [
        (name, f"{values[key]:.3f}" if key in _PLAIN else percent(values[key]))
        for key, name in _SCORES.items()
        if values.get(key) is not None
    ]
    return figures[:_MOST]


def _contender_entry(version: Version | None, reason: Callable[[Version], str]) -> dict[str, str] | None:
    if version is None:
        return None
    model, against = (version.tags.get(name, "") for name in ("model", "judged_against"))
    return {"version": version.version, "model": model, "reason": reason(version), "against": against}


def _promotion_entries() -> Iterator[dict[str, Any]]:
    for name in registered_names():
        # the list of models reports a registry that does not answer
        with suppress(InputError):
            champion = _contender_entry(served_version(f"models:/{name}@{CHAMPION}"), champion_reason)
            refused = _contender_entry(served_version(f"models:/{name}@{CHALLENGER}"), challenger_reason)
            # shown only if it was compared with the current champion, or with none
            if refused and refused["against"] != (champion["version"] if champion else ""):
                refused = None
            if champion or refused:
                yield {"name": name, "champion": champion, "refused": refused}


def _model_line(model: HotReloadingModel, says: str) -> dict[str, Any]:
    entry = model.models_entry or {}
    about = {key: str(entry.get(key, "")) for key in ("name", "version", "estimator")}
    missing = None if entry else "there is none; make one with: uv run dvc repro"
    return {**about, "says": says, "since": entry.get("since"), "load_failure": model.load_failure or missing}


def _endpoint_example(endpoint: Endpoint) -> dict[str, Any]:
    """Return an endpoint, and its example from OpenAPI, escaped for a shell."""
    examples = endpoint.request.model_json_schema().get("examples", ())
    body = json.dumps(examples[0]) if examples else ""
    return {"endpoint": endpoint, "body": body.replace("'", "\\u0027")}


def add_start_page(app: FastAPI) -> None:
    """Add the HTML pages ``/`` and ``/reports/FAMILY`` to `app`, and directions to its 404 and 405 answers.

    A family without a report gives 404. Call it after `add_error_handlers`, whose answers it extends.
    """

    @app.get("/", include_in_schema=False)
    def start_page(request: Request) -> Response:
        html = _render_overview(app, str(request.base_url).rstrip("/"))
        return page_response(html, extra_sources={"connect-src": "'self'"})

    for family in FAMILIES:
        path, report = f"/reports/{family}", partial(_family_report, family)
        app.get(path, include_in_schema=False, name=f"report_{family}")(report)
    _add_directions(app)


def _render_overview(app: FastAPI, url: str) -> str:
    purposes = {model.key: model.says for model in served_models()}
    models = [_model_line(model, purposes.get(key, "")) for key, model in app.state.models.items()]
    broken = [model["name"] or model["says"] for model in models if model["load_failure"]]
    measured, shadow, labels = [], None, Counter[str]()
    for family in FAMILIES:
        # each family has its own format of the file
        with suppress(InputError, LookupError, TypeError, ValueError, AttributeError):
            measured.append(_champion_figures(family))
    for plugin in all_plugins():
        if plugin.labels is not None:
            with suppress(InputError):
                labels.update(plugin.labels(project_root()))
    # without this part if its file cannot be read
    with suppress(InputError):
        shadow = figures.read_report(figures.figures_file(), running=app.state.settings.shadow is not None)
    counts = (part.count_new_labels(app) for part in all_pages() if part.count_new_labels is not None)
    new_labels = [count for count in counts if count is not None]
    return render(
        "overview.html",
        url=url,
        models=models,
        promotions=list(_promotion_entries()),
        measured=measured,
        recent=app.state.recent.newest_verdicts(),
        labels=labels,
        unseen=sum(new_labels) if new_labels else None,
        drift=list(app.state.drift.by_model().values()),
        fewest=FEWEST,
        shadow=shadow,
        broken=join_names(broken) if broken else "",
        doors=[_endpoint_example(endpoint) for endpoint in all_endpoints()],
        tracking=_tracking_link(),
        tokens=app.state.settings.tokens is not None,
    )


def _tracking_link() -> dict[str, str | None]:
    uri = tracking_uri()
    parts = urlsplit(uri)
    if parts.scheme in {"http", "https"}:
        return {"url": parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()}
    relative = uri.replace(f"sqlite:///{project_root()}/", "sqlite:///")
    return {"url": None, "command": f"uv run mlflow ui --backend-store-uri {relative}"}


def _family_report(family: str) -> Response:
    try:
        return report_response(FamilyPaths(family, project_root()).page.read_text(encoding="utf-8"))
    except OSError as exc:
        problem = f"there is no report yet; uv run dvc repro report@{family} writes it"
        raise RefusedError(HTTPStatus.NOT_FOUND, problem) from exc


def _add_directions(app: FastAPI) -> None:
    """Answer 404 and 405 with directions: an HTML page for browsers, else problem details."""
    as_problem: Any = app.exception_handlers[HTTPException]

    async def answer_directions(request: Request, exc: Exception) -> Response:
        assert isinstance(exc, HTTPException)
        title = HTTPStatus(exc.status_code).phrase
        if exc.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            routes = [route for route in request.app.routes if isinstance(route, Route)]
            matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
            methods = sorted({method for route in matching for method in route.methods or ()})
            exc.headers = {**(exc.headers or {}), "Allow": ", ".join(methods)}
        if exc.detail == title:
            directions = "no such address; GET / lists them"
            if exc.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
                directions = "the address has other methods; GET /docs lists them"
            exc.detail = f"{request.method} {request.url.path[:200]!r}: {directions}"
        if "text/html" not in request.headers.get("accept", ""):
            return await as_problem(request, exc)
        response = page_response(render("lost.html", title=title, detail=exc.detail), exc.status_code)
        response.headers.update(exc.headers or {})
        return response

    for status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        app.add_exception_handler(status, answer_directions)
