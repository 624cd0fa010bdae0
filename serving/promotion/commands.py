"""The commands ``perfjudge promote``, ``rollback``, ``trace`` and ``shadow``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from data.errors import escape_invisible
from serving.options import KeepGoing, add_options

if TYPE_CHECKING:
    from serving.promotion.decisions import PromotionDecision

Name = Annotated[str, typer.Argument(metavar="NAME", help="Registered name, such as regression-comparison.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Reason, recorded with the change.")]
By = Annotated[
    str | None, typer.Option(metavar="NAME", help="Person who decides. Default: the current user.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def add_commands(app: typer.Typer, judging: Mapping[str, Any]) -> None:
    """Add promote, rollback, trace and shadow; the last two take the options `judging` of judge, too."""
    for command in (promote, rollback, add_options(judging)(trace), add_options(judging)(shadow)):
        app.command()(command)


def promote(
    name: Name,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Number of the version.")],
    reason: Reason,
    by: By = None,
    as_json: AsJson = False,
) -> int:
    """Promote a version of a model to champion.

    The champion is the version that answers; a challenger is a candidate to replace it. The previous champion
    becomes challenger. A version that is missing, is champion already or fails a test request is refused.
    """
    from serving.promotion import decisions

    return _print_decision(decisions.promote(name, version, reason, by), as_json)


def rollback(name: Name, reason: Reason, by: By = None, as_json: AsJson = False) -> int:
    """Restore the previous champion of a registered model.

    The rollback is refused if there is no previous champion, or if the previous one fails a test request.
    """
    from serving.promotion import decisions

    return _print_decision(decisions.rollback(name, reason, by), as_json)


def trace(
    answer_or_name: Annotated[
        str,
        typer.Argument(
            metavar="ANSWER|NAME",
            help="File with an answer of judge or a server, or registered name of a model.",
        ),
    ],
    version: Annotated[
        str | None,
        typer.Argument(metavar="VERSION", help="Number of the model's version; required with NAME."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="INPUT",
            help="Input that led to the answer; the same model version judges it again.",
        ),
    ] = None,
    as_json: AsJson = False,
    **options: Any,
) -> int:
    """Show the origin of the model that gave an answer. With --input, check that the answer can be repeated.

    With --input, also give trace the options of the command that gave the answer; --fail-on-unsure (trace
    has its own exit code) and --retrospective (the answer names the model) have no effect. The exit code is 1
    if the repeated answer differs, or if the model's files are not those that gave the answer.
    """
    from serving.answering import option_of
    from serving.promotion.tracing import trace_answer as trace_model

    if source is None and options:
        option = option_of(next(iter(options)))
        raise typer.BadParameter(f"{option} needs --input: nothing is judged without it")
    text, same = trace_model(answer_or_name, version, source, options, as_json=as_json)
    typer.echo(escape_invisible(text))
    return 0 if same else 1


def shadow(
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="Measurements in any format that `perfjudge judge` reads.")
    ],
    keep_going: KeepGoing = False,
    as_json: AsJson = False,
    **options: Any,
) -> int:
    """Judge the input with champion and challenger. List differing verdicts, and log the agreement to MLflow.

    The text lists at most 20 differing verdicts, --json lists all. Verdicts do not change the exit code;
    --fail-on-unsure and --retrospective have no effect.
    """
    from serving.shadow.source import judge_by_both as judge_both

    typer.echo(escape_invisible(judge_both(source, options, keep_going=keep_going, as_json=as_json)))
    return 0


def _print_decision(decided: PromotionDecision, as_json: bool) -> int:
    typer.echo(json.dumps(asdict(decided)) if as_json else escape_invisible(decided.summary))
    return 0
