"""Commands about which version of a model answers."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from serving.standing.deciding import Decided

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The registered name, such as regression-comparison.")
]
Because = Annotated[str, typer.Option("--because", metavar="TEXT", help="Why, for those who come later.")]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who decides. Default: the user.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")]


def add(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (promote, rollback):
        app.command()(command)


def promote(
    name: Name,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Its number.")],
    because: Because,
    by: By = None,
    as_json: AsJson = False,
) -> int:
    """Make a version of a model champion."""
    from serving.standing import deciding

    return _tell(deciding.promote(name, version, because, by), as_json)


def rollback(name: Name, because: Because, by: By = None, as_json: AsJson = False) -> int:
    """Make the champion of before champion again."""
    from serving.standing import deciding

    return _tell(deciding.rollback(name, because, by), as_json)


def _tell(decided: Decided, as_json: bool) -> int:
    typer.echo(json.dumps(asdict(decided)) if as_json else decided.told)
    return 0
