"""The first page, ``/``: what answers, what it said lately, and where to go next."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from data.errors import InputError
from data.families import FAMILIES
from data.places import Places
from serving.browser.advice import advice
from serving.browser.figures import ChampionFigures, figures_of
from serving.browser.promotions import promotions
from serving.browser.sending import page, report
from serving.doors.drift import FEWEST, ModelDrift
from serving.doors.lazy import Lazy
from serving.doors.problems import RefusedError
from serving.pages.render import render
from serving.shadow.kept import ShadowReport, place
from serving.shadow.kept import report as kept
from serving.supply import Door, doors, pages, registered, supplies
from training.registry.store_file import project_root, tracking_uri

#: How many features of a model are told.
_FEATURES = 5
#: Up to where a population stability index is near, and from where on it is far (Siddiqi, Credit Risk
#: Scorecards, Wiley 2006, chapter 9).
_NEAR, _FAR = 0.1, 0.25


@dataclass(frozen=True)
class ModelLine:
    """What the page says of one model; trouble is why the version that it should be does not answer."""

    says: str
    name: str
    version: str
    estimator: str
    since: datetime | None
    trouble: str | None

    @classmethod
    def of(cls, lazy: Lazy, says: str) -> ModelLine:
        """Tell of a served model, and what it is for."""
        entry = lazy.entry or {}
        name, version, estimator = (str(entry.get(key, "")) for key in ("name", "version", "estimator"))
        lacking = None if entry else "there is none; make one with: uv run dvc repro"
        return cls(says, name, version, estimator, lazy.since, lazy.trouble or lacking)


@dataclass(frozen=True)
class Example:
    """A door, and what a person pastes to ask there."""

    door: Door
    body: str

    @classmethod
    def of(cls, door: Door) -> Example:
        """Take the example that OpenAPI has."""
        schema = door.request.model_json_schema()
        example = next(iter(schema.get("examples", ())), None)
        body = "" if example is None else json.dumps(example, ensure_ascii=True)
        return cls(door, body.replace("'", "\\u0027"))


@dataclass(frozen=True)
class DriftLine:
    """How far what a model is asked lies from what it was trained on: its features, the farthest first."""

    name: str
    version: str
    rows: int
    lacking: int
    features: Sequence[tuple[str, float, str]]

    @classmethod
    def of(cls, found: ModelDrift) -> DriftLine:
        """Tell of the features that drifted most."""
        ref, most = found.ref, found.features[:_FEATURES]
        told = [(one.feature, one.index, _far(one.index)) for one in most]
        return cls(ref.name, ref.version, found.rows, max(0, FEWEST - found.rows), told)


def install(app: FastAPI) -> None:
    """Let `app` show its first page and the reports of the project, and tell who is lost where they are."""

    @app.get("/", include_in_schema=False)
    def overview(request: Request) -> Response:
        return page(_overview(app, str(request.base_url).rstrip("/")))

    for family in FAMILIES:
        app.get(f"/reports/{family}", include_in_schema=False, name=f"report_{family}")(_report(family))
    _guide(app)


def _overview(app: FastAPI, url: str) -> str:
    told = {model.key: model.says for model in registered()}
    models = [ModelLine.of(lazy, told.get(key, "")) for key, lazy in app.state.models.items()]
    recent, drift = app.state.recent.newest(), [DriftLine.of(one) for one in app.state.drift.found().values()]
    return render(
        "overview.html",
        url=url,
        models=models,
        promotions=list(promotions()),
        measured=list(_measured()),
        recent=[(_when(one.at), one) for one in recent],
        labels=_labels(),
        unseen=_unseen(app),
        drift=drift,
        shadow=_shadow(app),
        points=list(
            advice(
                [one.name or one.says for one in models if one.trouble],
                {one.name: one.features[0][0] for one in drift if one.features and one.features[0][1] > _FAR},
                [one.line for one in recent],
            )
        ),
        doors=[Example.of(door) for door in doors()],
        tracking=Tracking.here(),
        tokens=app.state.settings.tokens is not None,
    )


@dataclass(frozen=True)
class Tracking:
    """Where MLflow is looked at: an address, or the command that opens it."""

    url: str | None
    command: str

    @classmethod
    def here(cls) -> Tracking:
        """Tell of the store of this project; a name and a password in its address are left out."""
        uri = tracking_uri()
        parts = urlsplit(uri)
        if parts.scheme in {"http", "https"}:
            return cls(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), "")
        own = uri.replace(f"sqlite:///{project_root()}/", "sqlite:///")
        return cls(None, f"uv run mlflow ui --backend-store-uri {own}")


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _measured() -> Iterator[ChampionFigures]:
    """Yield what the project's last evaluations say, as far as there were any."""
    for family in FAMILIES:
        # what a family writes there is for it to say
        with suppress(InputError, LookupError, TypeError, AttributeError):
            yield figures_of(family, project_root())


def _far(index: float) -> str:
    """Say in words how far a population stability index is."""
    return "near" if index <= _NEAR else "some way off" if index <= _FAR else "far off"


def _shadow(app: FastAPI) -> ShadowReport | None:
    """Return what challengers said; None where nothing can be told."""
    with suppress(InputError):
        return kept(place(), running=app.state.settings.shadow is not None)
    return None


def _labels() -> Mapping[str, int]:
    """Count the labels that families keep here, by what they say."""
    counted: dict[str, int] = {}
    for one in supplies():
        for said, many in ({} if one.labels is None else one.labels()).items():
            counted[said] = counted.get(said, 0) + many
    return counted


def _unseen(app: FastAPI) -> int | None:
    """Count the labels that no training has seen; None if nobody can tell."""
    told = [one.unseen(app) for one in pages() if one.unseen is not None]
    return sum(many or 0 for many in told) if any(many is not None for many in told) else None


def _report(family: str) -> Callable[[], Response]:
    def shown() -> Response:
        try:
            return report(Places(family, project_root()).page.read_text(encoding="utf-8"))
        except OSError as exc:
            told = f"there is no report yet; uv run dvc repro report@{family} writes it"
            raise RefusedError(HTTPStatus.NOT_FOUND, told) from exc

    return shown


def _guide(app: FastAPI) -> None:
    """Say where to go to whoever asks for what is not there, or in a way that nothing answers."""
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
