"""What the user wants kept: options of commands and of ``serve``, and keys of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

_NONE = "none"


def _share(text: str) -> float:
    """Return a percentage as a share; 0 for "none"."""
    try:
        share = 0.0 if text == _NONE else float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1 or (share == 0 and text != _NONE):
        raise typer.BadParameter(f"{text!r} is no percentage between 0 and 100, and not none")
    return share


def _costs(text: str) -> str:
    try:
        three = [float(part) for part in text.split(":")]
    except ValueError:
        three = []
    if len(three) != 3 or min(three) <= 0:  # noqa: PLR2004
        raise typer.BadParameter(f"{text!r} is not three costs above 0, such as 100:10:1")
    return text


Missed = Annotated[
    float | None,
    typer.Option(
        "--missed",
        metavar="PERCENT",
        parser=_share,
        help="Of the regressions, at most this share may pass; others fail or are unsure. none = nothing is.",
    ),
]
FalseAlarms = Annotated[
    float | None,
    typer.Option(
        "--false-alarms",
        metavar="PERCENT",
        parser=_share,
        help="Of what is no regression, at most this share may fail. none = as the model thinks best.",
    ),
]
CostsOption = Annotated[
    str | None,
    typer.Option(
        "--costs",
        metavar="MISS:ALARM:LOOK",
        parser=_costs,
        help="What a missed regression, a false alarm and a person's look cost: the cheapest verdicts.",
    ),
]
#: By the names under which `serving.comparisons.model.load` takes them.
OPTIONS: dict[str, Any] = {"missed": Missed, "false_alarms": FalseAlarms, "costs": CostsOption}
FailOnUnsure = Annotated[
    bool | None,
    typer.Option("--fail-on-unsure", help="Exit with 1 if a comparison gets the verdict unsure."),
]


def costs_of(text: str) -> Mapping[str, float]:
    """Return the costs that an option names, as a request has them."""
    return dict(zip(("miss", "false_alarm", "look"), map(float, text.split(":")), strict=True))
