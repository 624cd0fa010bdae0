"""Commands about which version of a model answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from data.errors import visible
from serving.options import KeepGoing, taking

if TYPE_CHECKING:
    from serving.promotion.decisions import Decided

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The registered name, such as regression-comparison.")
]
Because = Annotated[str, typer.Option("--because", metavar="TEXT", help="Why, for those who come later.")]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who decides. Default: the user.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")]


def add(app: typer.Typer, judging: Mapping[str, Any]) -> None:
    """Add the commands to `app`; `judging` has the options of ``perfjudge judge`` of the families."""
    for command in (promote, rollback, taking(judging)(trace), taking(judging)(shadow)):
        app.command()(command)


def promote(
    name: Name,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Its number.")],
    because: Because,
    by: By = None,
    as_json: AsJson = False,
) -> int:
    """Make a version of a model champion."""
    from serving.promotion import decisions

    return _tell(decisions.promote(name, version, because, by), as_json)


def rollback(name: Name, because: Because, by: By = None, as_json: AsJson = False) -> int:
    """Make the champion of before champion again."""
    from serving.promotion import decisions

    return _tell(decisions.rollback(name, because, by), as_json)


def trace(
    of: Annotated[
        str, typer.Argument(metavar="ANSWER|NAME", help="A file with an answer in any form; or a name.")
    ],
    version: Annotated[
        str | None, typer.Argument(metavar="[VERSION]", help="The number of a version of that name.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--input", metavar="INPUT", help="What was judged: it is judged again by that version."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    **options: Any,
) -> int:
    """Tell where the model of an answer comes from, and whether it says the same again.

    Further options are those that the answer was asked for with. The exit status is 1 if the files of the
    model, or anything that it says, are not the same.
    """
    from serving.promotion.tracing import trace as traced

    told, same = traced(of, version, source, options, as_json=as_json)
    typer.echo(visible(told))
    return 0 if same else 1


def shadow(
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="Measurements in any format that `perfjudge judge` takes.")
    ],
    keep_going: KeepGoing = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    **options: Any,
) -> int:
    """Let champion and challenger judge the same, and tell where they disagree."""
    from serving.shadow.source import shadow as judged

    typer.echo(visible(judged(source, options, keep_going=keep_going, as_json=as_json)))
    return 0


def _tell(decided: Decided, as_json: bool) -> int:
    typer.echo(json.dumps(asdict(decided)) if as_json else decided.told)
    return 0
