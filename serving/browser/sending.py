"""How pages are sent: what a browser may load for them, and that they are asked for anew each time."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType

from fastapi.responses import HTMLResponse

from serving.pages.render import script

_INLINE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)
_SAFE = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-cache"}
_NONE = dict.fromkeys(("default-src", "base-uri", "form-action", "frame-ancestors"), "'none'")
_ALLOWED = {**_NONE, "img-src": "data:"}


def page(html: str, status: int = 200, further: Mapping[str, str] = MappingProxyType({})) -> HTMLResponse:
    """Send a page that may use what stands in it, and by `further` what else, by the kind of source."""
    sources = {kind: [allowed] for kind, allowed in {**_ALLOWED, **further}.items()}
    for kind, text in _INLINE.findall(html):
        sources.setdefault(f"{kind}-src", []).append(_hashed(text))
    policy = "; ".join(f"{kind} {' '.join(allowed)}" for kind, allowed in sources.items())
    return HTMLResponse(html, status, {**_SAFE, "content-security-policy": policy})


def report(html: str) -> HTMLResponse:
    """Send a report, which a stage of the pipeline wrote: its charts have styles of their own.

    Of scripts it may run the one that reports have, whatever else stands in it.
    """
    allowed = {**_ALLOWED, "style-src": "'unsafe-inline'", "script-src": _hashed(script())}
    policy = "; ".join(f"{kind} {source}" for kind, source in allowed.items())
    return HTMLResponse(html, headers={**_SAFE, "content-security-policy": policy})


def _hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
