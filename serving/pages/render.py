"""Templates become pages."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from serving.pages.charts import counted, figures, percent, whole


def render(template: str, **content: Any) -> str:
    """Fill a template of ``serving/pages/templates``; what is not marked as safe is escaped."""
    return environment().get_template(template).render(**content)


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
    made.filters |= {"percent": percent, "counted": counted, "figures": figures, "whole": whole}
    return made
