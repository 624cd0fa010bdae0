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
        metavar="PATH|URI",
        help="models:/name@alias, models:/name/version or a directory with model.skops and card.json."
        " Default: the champion.",
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Output file. Default: standard output.")
]
Shown = Annotated[
    Format | None, typer.Option("--format", help="Output format. Default: by the suffix of -o, else table.")
]
AsJson = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
FailOnRegression = Annotated[
    bool, typer.Option("--fail-on-regression", help="Exit with 1 if any verdict is fail.")
]
KeepGoing = Annotated[
    bool, typer.Option("--keep-going", help="Skip faulty parts of the input, and report them on stderr.")
]
Seed = Annotated[
    int | None, typer.Option(min=0, max=2**32 - 1, metavar="N", help="Random seed. Default: 20261121.")
]
Directory = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Output directory.")]


def given_parameters(context: typer.Context) -> list[str]:
    """Return the arguments and options of the command line, as in its help: ``--metric``, ``BASELINE``."""
    given: list[str] = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE":
            is_option = parameter.param_type_name == "option"
            given.append(parameter.opts[0] if is_option else str(parameter.metavar))
    return given


def add_options(options: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command, which gets the given ones as ``**options``.

    `options` are annotations for typer by option name; an option is None by default, and then not passed to
    the command, whose last parameter must be ``**options``. The decorated command takes keywords only.
    """

    def with_options(command: Command) -> Command:
        parameters = list(signature(command, eval_str=True).parameters.values())[:-1]
        for name, kind in options.items():
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind))

        def call_command(**values: Any) -> int:
            absent = {name for name in options if values[name] is None}
            return command(**{name: value for name, value in values.items() if name not in absent})

        call_command.__name__, call_command.__doc__ = command.__name__, command.__doc__
        call_command.__signature__ = Signature(parameters)  # type: ignore[attr-defined] # read by inspect
        return call_command

    return with_options
