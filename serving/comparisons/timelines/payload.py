"""The numbers that a page of timelines has inside, for its scripts."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from data.plain_text import visible
from serving.comparisons.timelines.timeline import HeatMap, Marks, TimelineOperation, TimelineReport

#: Probabilities are written in tenths of a percent.
_TENTHS = 1000
_STOPS = 9


def embedded(content: Any) -> Markup:
    """Return JSON for a ``script`` element, which nothing in it can close."""
    text = json.dumps(_visible(content), separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - a script element's text has no other way out


def _visible(content: Any) -> Any:
    """Return the same with names as they are shown: scripts put them on the page as they are."""
    if isinstance(content, str):
        return visible(content)
    if isinstance(content, dict):
        return {_visible(key): _visible(value) for key, value in content.items()}
    return [_visible(value) for value in content] if isinstance(content, list | tuple) else content


def packed(values: ArrayLike) -> str:
    """Return values as base64 of little-endian float32 in row order; what is not finite is NaN."""
    with np.errstate(over="ignore"):
        narrow = np.asarray(values).astype("<f4")
    return base64.b64encode(np.where(np.isfinite(narrow), narrow, np.float32("nan")).tobytes()).decode()


def link(source: str) -> str:
    """Return a relative reference to a result, quoted whatever it is called; empty if there is none."""
    return "./" + quote(source.lstrip("/"), errors="surrogateescape") if source else ""


def shared_data(report: TimelineReport) -> Markup:
    """Return what all charts share."""
    versions = [(one.name, one.measured_at or "", link(one.source)) for one in report.versions]
    return embedded({"versions": versions, "baseline": report.baseline, "colours": _colours(report)})


def operation_data(operation: TimelineOperation) -> Markup:
    """Return what one operation's chart and columns show."""
    tenths = np.round(operation.probability * _TENTHS)
    return embedded(
        {
            "benchmark": operation.benchmark,
            "name": operation.operation,
            "unit": operation.unit,
            "better": operation.better,
            "threads": operation.threads,
            "featured": operation.featured,
            "five": packed(operation.five),
            "beside": _digits(operation.against_baseline),
            "before": _digits(operation.against_before),
            "probability": [None if one != one else int(one) for one in tenths.tolist()],  # noqa: PLR0124 - NaN
            "words": {str(at): list(words) for at, words in operation.words.items()},
            "changes": [(c.kind, c.first, c.last, c.share, c.threads) for c in operation.changes],
        }
    )


def heat_data(heat: HeatMap) -> Markup:
    """Return what one heat map shows."""
    numbers = {"seconds": packed(heat.seconds), "values": packed(heat.values)}
    return embedded(numbers | {"title": heat.title, "rows": heat.rows, "unit": heat.unit})


def _digits(marks: Marks) -> str:
    return (np.asarray(marks, np.uint8) + ord("0")).tobytes().decode("ascii")


def _colours(report: TimelineReport) -> list[str]:
    """Return stops of cividis: perceptually uniform, and the same to the colour-blind."""
    if not report.heats:
        return []
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in colormaps["cividis"].resampled(_STOPS)(range(_STOPS))]
