"""Options that several commands take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

Command = Callable[..., int]


#: Which values are better, and how verdicts are printed.
Better = Literal["lower", "higher"]
Format = Literal["table", "json", "xml", "markdown", "junit"]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PATH|URI",
        help="A directory with model.skops and card.json, models:/name@alias or models:/name/version."
        " Default: the champion.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write there instead of to the terminal."),
]
Shown = Annotated[
    Format | None,
    typer.Option("--format", help="How verdicts are printed. Default: as the suffix of -o says, else table."),
]
AsJson = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
FailOnRegression = Annotated[
    bool, typer.Option("--fail-on-regression", help="Exit with 1 if a comparison gets the verdict fail.")
]
KeepGoing = Annotated[bool, typer.Option("--keep-going", help="Skip what is bad in the input, and count it.")]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, max=2**32 - 1, help="Of all that is drawn at random.")
]
Directory = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the result goes.")]
#: Of a server.
Tokens = Annotated[
    Path | None,
    typer.Option(
        "--tokens",
        metavar="FILE",
        envvar="PERFJUDGE_TOKENS_FILE",
        help="Who may ask, by lines as `perfjudge token` writes them. Needed where other machines can ask.",
    ),
]
Seconds = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to answer in.")]
BodySeconds = Annotated[
    float, typer.Option("--body-timeout", min=0.1, help="Seconds in which the body of a request has to come.")
]
Shadow = Annotated[
    bool,
    typer.Option("--shadow", help="Let challengers judge what the champions answer, and count who differs."),
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    typer.Option("--log-level", help="Default: warning at a terminal, else info, with a line per request."),
]
LogFormat = Annotated[
    Literal["json", "text"] | None,
    typer.Option("--log-format", help="Default: text at a terminal, else json."),
]
Scopes = Annotated[Literal["read", "label", "read,label"], typer.Option("--scopes", help="What it allows.")]


def taking(options: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Let a command take further options, which reach its ``**options`` where they were given.

    Parameters
    ----------
    options : mapping
        By name, as typer takes them; each is None by default.
    """

    def with_options(command: Command) -> Command:
        own = list(signature(command, eval_str=True).parameters.values())[:-1]
        further = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in options.items()
        ]

        def called(**values: Any) -> int:
            absent = [name for name in options if values[name] is None]
            return command(**{name: value for name, value in values.items() if name not in absent})

        called.__name__, called.__doc__ = command.__name__, command.__doc__
        called.__signature__ = Signature([*own, *further])  # type: ignore[attr-defined] # inspect looks for it
        return called

    return with_options
