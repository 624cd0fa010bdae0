"""The scripts inside a page of timelines, and the policy that lets only them run."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

#: In this order: each uses those before it.
NAMES = ("data", "words", "chart", "walk", "table", "heat", "page")
_FOLDER = files("serving.pages") / "templates" / "timelines"


def scripts() -> list[Markup]:
    """Return the text of each script: d3 as it is installed, then our own."""
    from xstatic.pkg.d3 import BASE_DIR

    library = Path(BASE_DIR, "d3.js").read_text("utf-8")
    own = [(_FOLDER / f"{name}.js").read_text("utf-8") for name in NAMES]
    return [Markup(text) for text in (library, *own)]  # noqa: S704 - our own files


def policy(texts: Sequence[str]) -> str:
    """Return a content security policy: these scripts run, nothing else, and nothing is loaded."""
    allowed = " ".join(f"'sha256-{_digest(text)}'" for text in texts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
