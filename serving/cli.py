"""The command line ``perfjudge``, with the commands of all families."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from typer.main import get_command

from data.errors import InputError
from data.stage import BAD_INPUT, open_closed_streams, prepare_command, report_error
from data.tables.files import name_write_errors
from serving.experiments.commands import add_commands as add_experiments
from serving.options import (
    AsJson,
    Directory,
    FailOnRegression,
    Format,
    KeepGoing,
    Model,
    Output,
    Shown,
    add_options,
)
from serving.plugins import Options, all_pages, all_plugins, served_models
from serving.promotion.commands import add_commands as add_promotion

#: Exit code if output was closed early: 128 and SIGPIPE, as a shell reports it for other programs.
CLOSED_PIPE = 141
app = typer.Typer(
    name="perfjudge",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _joined(parts: Iterable[Options]) -> dict[str, Any]:
    return {name: option for options in parts for name, option in options.items()}


_judging = _joined(plugin.judging.options for plugin in all_plugins() if plugin.judging)
_importing = _joined(plugin.importing.options for plugin in all_plugins() if plugin.importing)
_serving: dict[str, Any] = {}
for _model in served_models():
    _option = typer.Option(f"--{_model.key.replace('_', '-')}", metavar="PATH|URI", help=_model.says)
    _serving[_model.key] = Annotated[str | None, _option]
_serving |= _joined(model.params for model in served_models()) | _joined(part.options for part in all_pages())


def _print_version(wanted: bool) -> None:
    if wanted:
        from serving.installation import describe_version

        typer.echo(describe_version())
        raise typer.Exit


@app.callback()
def main_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print version, commit and champions, and exit.",
        ),
    ] = False,
) -> None:
    """Judge performance measurements with models trained on engineers' verdicts or reference measurements."""


@app.command()
@add_options(_judging)
def judge(  # noqa: PLR0917 - typer passes options by name
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Measurements in any supported format.")],
    model: Model = None,
    shown: Shown = None,
    fail_on_regression: FailOnRegression = False,
    keep_going: KeepGoing = False,
    as_json: AsJson = False,
    output: Output = None,
    **options: Any,
) -> int:
    """Judge the measurements in a file or directory.

    Comparisons and matrices (counters of several runs) get a verdict and its reason, in a table by default.
    The exit code is 1 if a verdict is fail and --fail-on-regression is given, or if one is unsure and
    --fail-on-unsure is given.
    """
    prepare_command()
    from serving.answering import OutputOptions, form_of, judge_source

    form = form_of(shown, output, get_args(Format), as_json=as_json, inputs=[source])
    wanted = OutputOptions(form, output, fail_on_regression)
    return judge_source(source, model, wanted, keep_going=keep_going, options=options)


@app.command("import")
@add_options(_importing)
def import_(
    kind: Annotated[
        str, typer.Argument(metavar="FORMAT", help="Format of the sources, such as jmh or criterion.")
    ],
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE", help="Files or directories.")],
    output: Directory,
    keep_going: KeepGoing = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the number of rows of each table as JSON.")
    ] = False,
    **options: Any,
) -> int:
    """Convert measurements of a supported format to Parquet tables.

    The tables are the input of `dvc repro`. They replace existing tables in the output directory.
    """
    from serving.answering import import_sources

    return import_sources(kind, sources, output, keep_going=keep_going, as_json=as_json, options=options)


@app.command()
@add_options(_serving)
def serve(  # noqa: PLR0917 - typer passes options by name
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0: any free port.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, metavar="N", help="Number of processes.")] = 1,
    watch: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Seconds between checks for new champions.")
    ] = 2.0,
    tokens: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="PERFJUDGE_TOKENS_FILE",
            help="Token file written by `perfjudge token`."
            " Required if --host is reachable from other machines.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Time limit of an answer.")
    ] = 60.0,
    body_timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Time limit for receiving a request body.")
    ] = 30.0,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(help="Log level. Default: warning at a terminal, else info (a line per request)."),
    ] = None,
    log_format: Annotated[
        Literal["json", "text"] | None,
        typer.Option(help="Log format. Default: text at a terminal, else json."),
    ] = None,
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow", help="Also judge each request with the challenger, and count verdicts that differ."
        ),
    ] = False,
    **options: Any,
) -> int:
    """Serve models over HTTP.

    A model is models:/name@alias, models:/name/version or a directory with model.skops and card.json; by
    default it is the champion. When an alias moves to another version, the server loads that version.
    """
    from serving.http.server import serve_http as listen
    from serving.http.settings import ServerSettings

    settings = ServerSettings(
        options,
        watch=watch,
        tokens=None if tokens is None else str(tokens.absolute()),
        timeout=timeout,
        body_timeout=body_timeout,
        log_level=log_level,
        log_format=log_format,
    )
    return listen(settings, host, port, workers, shadow=shadow)


@app.command()
def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token's holder, for the log.")],
    tokens: Annotated[Path, typer.Option(metavar="FILE", help="Token file, to which a line is added.")],
    scopes: Annotated[
        Literal["read", "label", "read,label"],
        typer.Option(help="label: storing labels; read: all other requests; read,label: all requests."),
    ] = "read",
) -> int:
    """Create and print a token for clients of a server.

    The token file stores only digests, and is created if it is missing. A duplicate name is refused.
    """
    from serving.http.authentication import add_token

    typer.echo(add_token(tokens, name, scopes))
    return 0


@app.command()
def collect(
    suite: Annotated[
        Path,
        typer.Argument(
            metavar="SUITE.yaml", help="Suite: a YAML file with the kind of measurement and its parameters."
        ),
    ],
    output: Directory,
) -> int:
    """Measure on this machine. SUITE.yaml states the kind: comparisons, matrix, corun or fingerprint.

    After Ctrl-C, the results so far are written, and the same command resumes the measurement.
    """
    from data.collect import main as measure

    return measure(suite, output)


@app.command()
def train(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty directory of the project.")],
) -> int:
    """Create a project that trains on your labels. In its directory, `dvc repro` trains the models."""
    from serving.installation import create_project

    return create_project(directory)


add_experiments(app)
add_promotion(app, _judging)
for _plugin in all_plugins():
    if _plugin.commands is not None:
        _plugin.commands(app)


@cache
def _command() -> Any:
    """Return what parses arguments and calls a command; typer takes 50 ms to make it."""
    return get_command(app)


def run_command(arguments: list[str] | None = None) -> int:
    """Run one command of ``perfjudge`` and return its exit code; an error is written to stderr in one line.

    `arguments` are those after the program's name; None: those of the command line. 0: done; 1: a verdict or
    a difference that the command reports by its exit code; 2: bad input or usage, or no command; 3: a worker
    of the server cannot start; 70: an error of perfjudge itself; 130: interrupted, without a line; 130 or
    143: a server was ended at once by a second SIGINT or SIGTERM; 141: the reader of standard output or
    standard error closed it early, without a line. No error is raised.
    """
    try:
        return _invoke([*(sys.argv[1:] if arguments is None else arguments)])
    except BrokenPipeError:
        return CLOSED_PIPE


def _invoke(arguments: list[str]) -> int:
    from typer.exceptions import Abort, Exit, TyperException

    try:
        # not `main` of typer, which ends the process with 1 at a broken pipe
        # the parser drops `--` and empties the list
        with _command().make_context("perfjudge", arguments, obj=(*arguments,)) as context:
            code: int = context.command.invoke(context) or 0
            with name_write_errors("standard output"):
                # flushes
                typer.echo(nl=False)
            return code
    except Exit as exc:
        return exc.exit_code
    except TyperException as exc:
        message = exc.format_message()
        if "\n" in message:
            # the help, where a command is missing
            sys.stderr.write(f"{message}\n")
            return BAD_INPUT
        return report_error(InputError(message), "perfjudge: ")
    except (Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        raise
    except Exception as exc:  # noqa: BLE001 - the last resort of every command
        return report_error(exc, "perfjudge: ")


def main() -> None:
    """Run ``perfjudge`` with the arguments of the command line, and exit with the code of `run_command`."""
    # pydantic would read the metadata of every installed package to find plugins
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    open_closed_streams()
    code = run_command()
    for stream in (sys.stdout, sys.stderr):
        try:
            typer.echo(file=stream, nl=False)
        except OSError:
            # discard the rest: Python's own flush at the end would fail again, with a traceback
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)
