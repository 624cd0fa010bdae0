"""Plugin of the family fingerprints, and the commands ``perfjudge irup``."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Literal, get_args

import typer

from data.errors import InputError
from serving.options import AsJson, Better, KeepGoing, Output, Seed
from serving.plugins import FamilyPlugin, Importing, deferred_function

group = typer.Typer(help="Infer resource utilisation profiles (IRUPs) of applications.", no_args_is_help=True)
#: Output formats of profiles.
Form = Literal["text", "json", "html"]
FormatOption = Annotated[
    Form | None,
    typer.Option(
        "--format",
        help="Output format; html is a self-contained page. Default: by the suffix of -o, else text.",
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help='Metric in the column "value". Default: the unit in the file, else seconds.'
    ),
]
Direction = Annotated[
    Better | None,
    typer.Option(
        help="Whether lower or higher values of the metric are better. Default: lower for times, higher for"
        " rates such as requests/s."
    ),
]
PLUGIN = FamilyPlugin(
    page=deferred_function("serving.fingerprints.page:page"),
    importing=Importing(
        "fingerprints",
        deferred_function("serving.fingerprints.command:imported"),
        lambda: resolve_name("data.fingerprints.formats:FORMATS"),
    ),
    endpoints=deferred_function("serving.fingerprints.command:fingerprint_endpoints"),
    commands=lambda app: app.add_typer(group, name="irup"),
)


@group.command("profile")
def irup_profile(  # noqa: PLR0917 - typer hands options over by name
    machines: Annotated[
        Path,
        typer.Argument(
            metavar="MACHINES",
            help="Speeds of machines. A CSV file has a row per machine, a column per stressor (a program that"
            " stresses one resource), and optionally columns of applications. A directory must be"
            " output of `perfjudge collect` or `import`, or data in the format quiho or sparecores.",
        ),
    ],
    application: Annotated[
        str,
        typer.Argument(
            metavar="APPLICATION",
            help="A CSV file with columns machine,value[,repetition][,unit], or the name of an application"
            " that MACHINES has values of.",
        ),
    ],
    metric: Metric = None,
    better: Direction = None,
    predict: Annotated[
        bool, typer.Option("--predict", help="Also predict the metric on machines without a value.")
    ] = False,
    keep_going: KeepGoing = False,
    seed: Seed = None,
    output_format: FormatOption = None,
    as_json: AsJson = False,
    output: Output = None,
) -> int:
    """Infer which resources an application depends on. The result states how reliable it is."""
    from serving.answering import form_of
    from serving.fingerprints.command import learning_settings, profile_machines

    settings = learning_settings(metric, better, seed, keep_going=keep_going)
    inputs = [machines, Path(application)]
    form = form_of(output_format, output, get_args(Form), as_json=as_json, inputs=inputs)
    return profile_machines(machines, application, settings, form=form, output=output, predicting=predict)


@group.command("diff")
def irup_diff(  # noqa: PLR0917 - typer hands options over by name
    a: Annotated[str, typer.Argument(metavar="A", help="Profile written by `irup profile --json`.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Profile to compare with A.")],
    machines: Annotated[
        Path | None,
        typer.Option(
            metavar="MACHINES",
            help="Speeds of machines, as MACHINES of `irup profile`. With this option, A and B are names of"
            " applications, or CSV files of values. Required for --metric, --better and --keep-going.",
        ),
    ] = None,
    metric: Metric = None,
    better: Direction = None,
    fail_on_regression: Annotated[
        bool,
        typer.Option(
            "--fail-on-regression",
            help="Exit with 1 if the importance of any stressor changed significantly (also if it fell) and"
            " the test is reliable.",
        ),
    ] = False,
    keep_going: KeepGoing = False,
    seed: Seed = None,
    output_format: FormatOption = None,
    as_json: AsJson = False,
    output: Output = None,
) -> int:
    """Test whether two profiles differ significantly. Changes are importances of B minus those of A."""
    from serving.answering import form_of
    from serving.fingerprints.command import compare_profiles, learning_settings

    given = {"--metric": metric is not None, "--better": better is not None, "--keep-going": keep_going}
    if machines is None and (needed := [option for option, is_given in given.items() if is_given]):
        raise InputError(f"{needed[0]} needs --machines: without it, A and B are profiles, not values")
    settings = learning_settings(metric, better, seed, keep_going=keep_going)
    inputs = [Path(a), Path(b), *([machines] if machines else [])]
    form = form_of(output_format, output, get_args(Form), as_json=as_json, inputs=inputs)
    return compare_profiles(
        a, b, machines, settings, form=form, output=output, fail_on_regression=fail_on_regression
    )
