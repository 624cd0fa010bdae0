"""HTML responses with content security policies, and ``/docs``, whose files perfjudge serves itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from fastapi import FastAPI, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import FileResponse, HTMLResponse

from serving.reports.rendering import hash_source, report_script

_INLINE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)
_SAFE = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-cache"}
_NONE = dict.fromkeys(("default-src", "base-uri", "form-action", "frame-ancestors"), "'none'")
_ALLOWED = {**_NONE, "img-src": "data:"}


def page_response(
    html: str, status: int = 200, extra_sources: Mapping[str, str] = MappingProxyType({})
) -> HTMLResponse:
    """Return an HTML response whose content security policy allows only its own inline code and some sources.

    Allowed are the contents of all ``<script>`` and ``<style>`` without attributes (by their hashes), images
    in ``data:`` addresses, and `extra_sources`, by directive such as ``connect-src``.
    """
    sources = {kind: [allowed] for kind, allowed in {**_ALLOWED, **extra_sources}.items()}
    for kind, text in _INLINE.findall(html):
        sources.setdefault(f"{kind}-src", []).append(hash_source(text))
    return _html_response(html, status, {kind: " ".join(allowed) for kind, allowed in sources.items()})


def report_response(html: str) -> HTMLResponse:
    """Return the response for a report, which may use inline styles, ``data:`` images and `report_script`."""
    sources = {**_ALLOWED, "style-src": "'unsafe-inline'", "script-src": hash_source(report_script())}
    return _html_response(html, 200, sources)


def _html_response(html: str, status: int, sources: Mapping[str, str]) -> HTMLResponse:
    policy = "; ".join(f"{kind} {allowed}" for kind, allowed in sources.items())
    return HTMLResponse(html, status, {**_SAFE, "content-security-policy": policy})


PATH = "/docs"
#: Files that the page loads, with their media types.
SHIPPED = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon.png": "image/png",
}
#: Sources of the content security policy, besides the inline script that starts the page.
_POLICY = dict.fromkeys(("script-src", "style-src", "connect-src"), "'self'") | {"img-src": "'self' data:"}
_DESCRIPTION = "[Overview](/) of models and verdicts · this description as [OpenAPI](/openapi.json)"
#: No validator of another site is used, and a token is kept until the tab is closed.
_PARAMETERS = {"validatorUrl": "none", "displayRequestDuration": True, "defaultModelsExpandDepth": 0}


def add_docs_page(app: FastAPI) -> None:
    """Add the page ``/docs`` (Swagger UI of the OpenAPI document) and its files; set `app.description`."""
    app.description = _DESCRIPTION

    @app.get(PATH, include_in_schema=False)
    async def docs_page() -> Response:
        html = get_swagger_ui_html(
            openapi_url=app.openapi_url or "",
            title=f"{app.title} · HTTP",
            swagger_js_url=f"{PATH}/swagger-ui-bundle.js",
            swagger_css_url=f"{PATH}/swagger-ui.css",
            swagger_favicon_url=f"{PATH}/favicon.png",
            swagger_ui_parameters=_PARAMETERS,
        )
        return page_response(bytes(html.body).decode(), extra_sources=_POLICY)

    for name, media_type in SHIPPED.items():
        _add_file(app, name, media_type)


def _add_file(app: FastAPI, name: str, media_type: str) -> None:
    path = Path(str(files("fastapi_offline") / "static" / name))

    @app.get(f"{PATH}/{name}", include_in_schema=False, name=name)
    async def static_file() -> Response:
        headers = {"cache-control": "max-age=86400", "x-content-type-options": "nosniff"}
        return FileResponse(path, media_type=media_type, headers=headers)
