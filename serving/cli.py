"""The command line ``perfjudge``: commands of all families; options are passed on to their modules."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from data.errors import InputError
from data.stage import end
from serving.experiments.commands import add as add_experiments
from serving.options import (
    AsJson,
    BodySeconds,
    Directory,
    FailOnRegression,
    Format,
    KeepGoing,
    LogFormat,
    LogLevel,
    Model,
    Output,
    Scopes,
    Seconds,
    Shadow,
    Shown,
    Tokens,
    taking,
)
from serving.promotion import commands as standing
from serving.supply import Options, pages, registered, supplies

app = typer.Typer(
    name="perfjudge",
    help="Learns from engineers' verdicts on performance measurements, and then gives those verdicts itself.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _options_to_serve() -> dict[str, Any]:
    options: dict[str, Any] = {}
    for model in registered():
        option = f"--{model.key.replace('_', '-')}"
        options[model.key] = Annotated[str | None, typer.Option(option, metavar="PATH|URI", help=model.says)]
    knobs = _joined(model.knobs for model in registered())
    return options | knobs | _joined(one.options for one in pages())


def _joined(options: Iterable[Options]) -> dict[str, Any]:
    return {name: kind for one in options for name, kind in one.items()}


_judging = _joined(one.judging.options for one in supplies() if one.judging is not None)


@app.command()
@taking(_judging)
def judge(  # noqa: PLR0917 - typer hands options over by name
    source: Annotated[
        Path,
        typer.Argument(metavar="INPUT", help="Measurements in any supported format."),
    ],
    model: Model = None,
    shown: Shown = None,
    fail_on_regression: FailOnRegression = False,
    keep_going: KeepGoing = False,
    as_json: AsJson = False,
    output: Output = None,
    **options: Any,
) -> int:
    """Give verdicts on what a file or directory holds."""
    from serving.answering import Wanted, form_of, judge_source

    form = form_of("json" if as_json else shown, output, get_args(Format))
    wanted = Wanted(form, output, fail_on_regression)
    return judge_source(source, model, wanted, keep_going=keep_going, options=options)


@app.command("import")
@taking(_joined(one.importing.options for one in supplies() if one.importing is not None))
def import_(
    kind: Annotated[str, typer.Argument(metavar="FORMAT", help="The format of the sources.")],
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE...", help="Files or directories.")],
    output: Directory,
    keep_going: KeepGoing = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was imported as JSON.")] = False,
    **options: Any,
) -> int:
    """Read measurements of a supported format into tables."""
    from serving.answering import import_sources

    return import_sources(kind, sources, output, keep_going=keep_going, as_json=as_json, options=options)


@app.command()
@taking(_options_to_serve())
def serve(  # noqa: PLR0917 - typer hands options over by name
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 = any that is free.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="How many processes answer.")] = 1,
    watch: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="How often to look where aliases point.")
    ] = 2.0,
    tokens: Tokens = None,
    timeout: Seconds = 60.0,
    body_timeout: BodySeconds = 30.0,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    shadow: Shadow = False,
    **options: Any,
) -> int:
    """Answer over HTTP.

    A model is a directory with model.skops and card.json, models:/name@alias or models:/name/version; by
    default it is the champion. When the alias moves, the server follows.
    """
    from serving.http.server import serve as listen
    from serving.http.settings import ServerSettings

    told = ServerSettings(
        options,
        watch=watch,
        tokens=None if tokens is None else str(tokens.absolute()),
        timeout=timeout,
        reading=body_timeout,
        log_level=log_level,
        log_format=log_format,
    )
    return listen(told, host, port, workers, shadow=shadow)


@app.command()
def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who gets it, as the log says.")],
    tokens: Annotated[Path, typer.Option("--tokens", metavar="FILE", help="Gets a line for it.")],
    scopes: Scopes = "read",
) -> int:
    """Make a token for those who ask a server, and print it: it stands nowhere else."""
    from serving.http.authentication import add

    typer.echo(add(tokens, name, scopes))
    return 0


@app.command()
def collect(
    suite: Annotated[Path, typer.Argument(metavar="SUITE.yaml", help="What to measure, and how often.")],
    output: Directory,
) -> int:
    """Measure comparisons, matrices, co-runs, or the fingerprint of this machine: the suite says which."""
    from data.collect import main as measure

    return measure(suite, output)


add_experiments(app)
standing.add(app, _judging)
for _supplied in supplies():
    if _supplied.commands is not None:
        _supplied.commands(app)


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: done; 1: a regression was found and ``--fail-on-regression`` (or ``--fail-on-missing``) was given;
    2: bad input or usage; 70: an error of perfjudge itself; 130: interrupted.
    """
    from typer.exceptions import Abort, TyperException

    try:
        return app(args=arguments, prog_name="perfjudge", standalone_mode=False) or 0
    except TyperException as exc:
        return end(InputError(exc.format_message()), "perfjudge: ")
    except (Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as exc:  # noqa: BLE001 - the net below every command
        return end(exc, "perfjudge: ")


def main() -> None:
    """Run ``perfjudge``."""
    sys.exit(run())
