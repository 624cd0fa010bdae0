"""Templates become pages."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from data.plain_text import visible
from serving.pages.charts import counted, figures, percent, plain, whole
from serving.pages.papers import worded
from serving.pages.stacking import stacked

_SCRIPTS = re.compile(r"(<script\b.*?</script>)", re.DOTALL)


def render(template: str, **content: Any) -> str:
    """Fill a template of ``serving/pages/templates``; what is not marked as safe is escaped.

    Control and invisible characters are shown as escapes, but in scripts, which stay as they are hashed.
    """
    parts = _SCRIPTS.split(environment().get_template(template).render(**content))
    return "".join(part if place % 2 else visible(part) for place, part in enumerate(parts))


def environment() -> Environment:
    """Return the templates of ``serving/pages/templates``, with the filters that they use."""
    made = Environment(
        loader=PackageLoader("serving.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "percent": percent, "counted": counted, "figures": figures, "whole": whole, "plain": plain,
        "worded": worded, "stacked": stacked, "coded": coded,
    }  # fmt: skip
    made.globals["script"] = script()
    return made


def coded(text: str) -> Markup:
    """Return text in which what stands between backticks is code."""
    parts = text.split("`")
    shown = (
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )
    return Markup().join(shown)


@cache
def script() -> Markup:
    """Return the one script of reports, as it stands in them."""
    return Markup((files("serving.pages") / "templates/report.js").read_text(encoding="utf-8"))  # noqa: S704 - ours
