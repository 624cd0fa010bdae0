"""How pages are sent: what a browser may load for them, and that they are asked for anew each time."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

from fastapi.responses import HTMLResponse

_INLINE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)
_SAFE = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-cache"}
_NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; img-src data:"
#: Of a report: charts have styles of their own, and nothing is loaded or run.
REPORT = f"{_NOTHING}; style-src 'unsafe-inline'"


def page(html: str, status: int = 200, policy: str = _NOTHING) -> HTMLResponse:
    """Send a page that may use what stands in it, and beside that what `policy` says."""
    found: dict[str, list[str]] = {"style": [], "script": []}
    for kind, text in _INLINE.findall(html):
        found[kind].append(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'")
    inline = "; ".join(f"{kind}-src 'self' {' '.join(hashes)}" for kind, hashes in found.items() if hashes)
    return HTMLResponse(html, status, {**_SAFE, "content-security-policy": f"{policy}; {inline}"})


def report(html: str) -> HTMLResponse:
    """Send a report, which a stage of the pipeline wrote."""
    return HTMLResponse(html, headers={**_SAFE, "content-security-policy": REPORT})
