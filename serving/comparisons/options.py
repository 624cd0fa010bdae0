"""Options about comparisons that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

from serving.options import Better


def share(text: str) -> float:
    """Return a percentage as a share; 0 for "none"."""
    try:
        found = 0.0 if text == "none" else float(text.removesuffix("%")) / 100
    except ValueError:
        found = -1.0
    if not 0 <= found < 1:
        raise typer.BadParameter(f"{text!r} is no percentage from 0 to below 100, and not none")
    return found


Floor = Annotated[
    float | None,
    typer.Option(
        "--floor",
        metavar="PERCENT",
        parser=share,
        help="The smallest change of a median that may be called a regression; none = any."
        " Default: the model's own, 0.5 unless it was trained with another.",
    ),
]
Assumed = Annotated[
    Better | None,
    typer.Option("--better", help="Which values are better, where the input does not say. Default: higher."),
]

From = Annotated[
    str | None,
    typer.Option("--from", metavar="FORMAT", help="The format of the input. Default: what its content says."),
]
Retrospective = Annotated[
    bool | None,
    typer.Option(
        "--retrospective",
        help="Judge by the champion of those models that look at versions after the target, too.",
    ),
]
