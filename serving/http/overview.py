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
from http import HTTPStatus
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from data.errors import InputError
from data.families import FAMILIES
from data.paths import Places
from data.tables.documents import written
from data.tables.files import write_json
from serving.http.browser_pages import page, report
from serving.http.drift import FEWEST, ModelDrift
from serving.http.models import HotReloadingModel
from serving.http.schemas import RefusedError
from serving.reports.charts import counted, percent
from serving.reports.rendering import render
from serving.reports.separation import listed
from serving.reports.verdict_lines import VerdictLine
from serving.shadow import figures
from serving.shadow.figures import ShadowReport
from serving.supply import Endpoint, doors, pages, registered, supplies
from training.registry.champions import CHALLENGER, CHAMPION, Version, project_root, tracking_uri, version_of
from training.registry.promotion_history import why, why_not

if TYPE_CHECKING:
    from serving.http.bodies import Answered
    from serving.supply import Endpoint

#: How many verdicts are kept, how many of one answer, and how many letters of what they are called.
KEPT, OF_ONE, LETTERS = 50, 10, 200
#: Seconds after which the other processes know of a verdict.
DELAY = 1.0
_FILES = "recent-*.json"


class RecentVerdict(NamedTuple):
    """A verdict that was given: Unix time in seconds, endpoint, and its line of text."""

    at: float
    door: str
    line: VerdictLine

    @classmethod
    def short(cls, at: float, door: str, line: VerdictLine) -> Self:
        """Keep no more of its words than a page shows."""
        if len(line.suite) > LETTERS or len(line.name) > LETTERS or len(line.why) > LETTERS:
            suite, name, why = (text[:LETTERS] for text in (line.suite, line.name, line.why))
            line = VerdictLine(line.verdict, line.probability, suite, name, why)
        return cls(at, door, line)


class Recent:
    """The last verdicts of this process, and of those that it shares a directory with."""

    def __init__(self, shared: str | None = None) -> None:
        self._own = deque[RecentVerdict](maxlen=KEPT)
        self._shared = None if shared is None else Path(shared)
        self._waiting = False

    def add(self, door: Endpoint, answered: Answered) -> None:
        """Keep the first verdicts of an answer, if it gives any; this takes microseconds."""
        if answered.judged is None:
            return
        now, lines = time.time(), answered.judged.first(OF_ONE)
        self._own.extend(RecentVerdict.short(now, door.path, line) for line in lines)
        if self._shared is not None and not self._waiting:
            self._waiting = True
            writing = Timer(DELAY, self._write, [self._shared])
            writing.daemon = True
            writing.start()

    def _write(self, directory: Path) -> None:
        # verdicts that arrive while the file is written are in the next one
        self._waiting = False
        # a page that shows fewer verdicts is better than a server that fails
        with suppress(OSError):
            told = [one._asdict() | {"line": asdict(one.line)} for one in tuple(self._own)]
            write_json(directory / f"recent-{os.getpid()}.json", told)

    def newest(self) -> list[RecentVerdict]:
        """Return the last verdicts of all processes, the newest first."""
        found = [*tuple(self._own), *self._others()]
        return sorted(found, key=lambda one: -one.at)[:KEPT]

    def _others(self) -> Iterator[RecentVerdict]:
        own = f"recent-{os.getpid()}.json"
        for path in [] if self._shared is None else self._shared.glob(_FILES):
            # another process may have ended, and its file with it
            with suppress(OSError, ValueError):
                if path.name != own:
                    for one in json.loads(path.read_text(encoding="utf-8")):
                        yield RecentVerdict(one["at"], one["door"], VerdictLine(**one["line"]))


#: Displayed scores in order, with their names.
_CALLED = {
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


def figures_of(family: str, root: Path) -> dict[str, Any]:
    """Return a family's champion and its formatted scores by split; InputError if it was not evaluated."""
    places = Places(family, root)
    metrics: Mapping[str, Any] = written(places.metrics, "evaluate")
    champion = str(metrics["champion"])
    splits = {
        f"{name}: {split['scheme']}": _figures(split["entries"][champion])
        for name, split in metrics["splits"].items()
        if champion in split["entries"]
    }
    return {"family": family, "champion": champion, "splits": splits, "report": places.page.is_file()}


def _figures(scores: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Return names and formatted values of scores: pooled over all folds, or else means over folds."""
    told = []
    for key, called in _CALLED.items():
        value = scores.get(key)
        if isinstance(value, Mapping):
            value = value.get("mean") if value.get("pooled") is None else value["pooled"]
        if value is not None:
            told.append((called, f"{value:.3f}" if key in _PLAIN else percent(value)))
    return told[:_MOST]


def _contender(found: Version | None, reason: Callable[[Version], str]) -> dict[str, str] | None:
    """Return a version, its model, why it leads or not, and the version it was compared with."""
    if found is None:
        return None
    model, against = (found.tags.get(name, "") for name in ("model", "judged_against"))
    return {"version": found.version, "model": model, "reason": reason(found), "against": against}


def promotions() -> Iterator[dict[str, Any]]:
    """Yield, per registered name, the champion and a challenger that was refused against it."""
    for name in dict.fromkeys(door.loader.name() for door in doors() if door.loader is not None):
        # the list of models reports a registry that does not answer
        with suppress(InputError):
            champion = _contender(version_of(name, CHAMPION), why)
            refused = _contender(version_of(name, CHALLENGER), why_not)
            # shown only if it was compared with the current champion, or with none
            if refused and refused["against"] != ("" if champion is None else champion["version"]):
                refused = None
            if champion or refused:
                yield {"name": name, "champion": champion, "refused": refused}


def advice(troubled: Sequence[str], far: Mapping[str, str], verdicts: Sequence[VerdictLine]) -> Iterator[str]:
    """Yield sentences for the person who must act."""
    if troubled:
        yield f"Mend {listed(troubled)} first: requests to it get no answer, or one of an older version."
    for model, feature in far.items():
        yield (
            f"Do not rely on {model} for what is asked now: {feature} lies far off what it was trained "
            f"on. Label some of it and train anew, or find out why it changed."
        )
    fails, unsure = (sum(one.verdict == word for one in verdicts) for word in ("fail", "unsure"))
    if fails:
        yield f"Look at {counted(fails, 'fail')} among the recent verdicts: each says what speaks for it."
    if unsure:
        yield (
            f"Look at {counted(unsure, 'unsure verdict')} yourself and label them: there the "
            f"model learns most."
        )
    if not (troubled or far):
        yield "Nothing is wrong with the models: the next thing is to ask them, or to give them more labels."
    yield (
        "Before you change a threshold or a model, read the report of its family: it says what each "
        "choice costs."
    )


#: Maximal number of features listed per model.
_FEATURES = 5
#: Up to where a population stability index is near, and from where on it is far (Siddiqi, Credit Risk
#: Scorecards, Wiley 2006, chapter 9).
_NEAR, _FAR = 0.1, 0.25


def _model_line(lazy: HotReloadingModel, says: str) -> dict[str, Any]:
    """Describe a served model, which is for what `says` says; why it is not the one that it should be."""
    entry = lazy.entry or {}
    about = {key: str(entry.get(key, "")) for key in ("name", "version", "estimator")}
    lacking = None if entry else "there is none; make one with: uv run dvc repro"
    return {**about, "says": says, "since": lazy.since, "trouble": lazy.trouble or lacking}


def _example(door: Endpoint) -> dict[str, Any]:
    """Return an endpoint, and the example of OpenAPI as a person pastes it into a shell."""
    example = next(iter(door.request.model_json_schema().get("examples", ())), None)
    body = "" if example is None else json.dumps(example, ensure_ascii=True)
    return {"door": door, "body": body.replace("'", "\\u0027")}


def _drift_line(found: ModelDrift) -> dict[str, Any]:
    """Describe the features that drifted most, the farthest first."""
    told = [(one.feature, one.index, _far(one.index)) for one in found.features[:_FEATURES]]
    about = {"name": found.ref.name, "version": found.ref.version, "rows": found.rows}
    return {**about, "lacking": max(0, FEWEST - found.rows), "features": told}


def install(app: FastAPI) -> None:
    """Add the start page, the reports of the project, and helpful 404 and 405 answers to `app`."""

    @app.get("/", include_in_schema=False)
    def overview(request: Request) -> Response:
        return page(_overview(app, str(request.base_url).rstrip("/")))

    for family in FAMILIES:
        app.get(f"/reports/{family}", include_in_schema=False, name=f"report_{family}")(_report(family))
    _guide(app)


def _overview(app: FastAPI, url: str) -> str:
    told = {model.key: model.says for model in registered()}
    models = [_model_line(lazy, told.get(key, "")) for key, lazy in app.state.models.items()]
    recent, drift = app.state.recent.newest(), [_drift_line(one) for one in app.state.drift.found().values()]
    farthest = [(one["name"], one["features"][0]) for one in drift if one["features"]]
    return render(
        "overview.html",
        url=url,
        models=models,
        promotions=list(promotions()),
        measured=list(_measured()),
        recent=[(f"{datetime.fromtimestamp(one.at, UTC):%Y-%m-%d %H:%M:%S}", one) for one in recent],
        labels=_labels(),
        unseen=_unseen(app),
        drift=drift,
        shadow=_shadow(app),
        points=list(
            advice(
                [one["name"] or one["says"] for one in models if one["trouble"]],
                {name: feature for name, (feature, index, _) in farthest if index > _FAR},
                [one.line for one in recent],
            )
        ),
        doors=[_example(door) for door in doors()],
        tracking=_tracking(),
        tokens=app.state.settings.tokens is not None,
    )


def _tracking() -> dict[str, str | None]:
    """Return the address of MLflow without name and password, or else the command that opens it."""
    uri = tracking_uri()
    parts = urlsplit(uri)
    if parts.scheme in {"http", "https"}:
        return {"url": parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()}
    own = uri.replace(f"sqlite:///{project_root()}/", "sqlite:///")
    return {"url": None, "command": f"uv run mlflow ui --backend-store-uri {own}"}


def _measured() -> Iterator[dict[str, Any]]:
    """Yield the scores of each family that was evaluated in this project."""
    for family in FAMILIES:
        # the format of the file is the family's
        with suppress(InputError, LookupError, TypeError, AttributeError):
            yield figures_of(family, project_root())


def _far(index: float) -> str:
    """Say in words how far a population stability index is."""
    return "near" if index <= _NEAR else "some way off" if index <= _FAR else "far off"


def _shadow(app: FastAPI) -> ShadowReport | None:
    """Return the report of shadow mode; None if its file cannot be read."""
    with suppress(InputError):
        return figures.report(figures.figures_file(), running=app.state.settings.shadow is not None)
    return None


def _labels() -> Mapping[str, int]:
    """Count the labels of all families by their status."""
    counts = Counter[str]()
    for one in supplies():
        counts.update({} if one.labels is None else one.labels())
    return counts


def _unseen(app: FastAPI) -> int | None:
    """Count the labels that no training has used; None if no family knows."""
    told = [many for one in pages() if one.unseen is not None if (many := one.unseen(app)) is not None]
    return sum(told) if told else None


def _report(family: str) -> Callable[[], Response]:
    def shown() -> Response:
        try:
            return report(Places(family, project_root()).page.read_text(encoding="utf-8"))
        except OSError as exc:
            told = f"there is no report yet; uv run dvc repro report@{family} writes it"
            raise RefusedError(HTTPStatus.NOT_FOUND, told) from exc

    return shown


def _guide(app: FastAPI) -> None:
    """Answer 404 and 405 with directions: an HTML page for browsers, else problem details."""
    plain: Any = app.exception_handlers[HTTPException]

    async def lost(request: Request, exc: Exception) -> Response:
        assert isinstance(exc, HTTPException)
        if exc.detail == HTTPStatus(exc.status_code).phrase:
            exc.detail = _directions(request, exc.status_code)
        if "text/html" not in request.headers.get("accept", ""):
            return await plain(request, exc)
        title = HTTPStatus(exc.status_code).phrase
        sent = page(render("lost.html", title=title, detail=exc.detail), exc.status_code)
        sent.headers.update(exc.headers or {})
        return sent

    for status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        app.add_exception_handler(status, lost)


def _directions(request: Request, status: int) -> str:
    asked = f"{request.method} {request.url.path[:200]!r}"
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"{asked}: this address is asked in another way; GET /docs says how"
    return f"{asked}: nothing is there; GET / says what is"
