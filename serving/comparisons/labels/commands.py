"""The commands ``perfjudge labels``, which only pass on what the user said."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from serving.comparisons.labels.options import Labels
from serving.options import KeepGoing, Model, Output

group = typer.Typer(
    help="Which comparisons to label, labels in and out of their store, and which to doubt.",
    no_args_is_help=True,
)
Source = Annotated[
    Path, typer.Argument(metavar="DATA", help="Comparisons in any supported format, labelled or not.")
]
Labelled = Annotated[
    Path,
    typer.Argument(metavar="SOURCE", help="Comparisons in any supported format, or labels in a CSV file."),
]
About = Annotated[
    Path | None,
    typer.Option(
        "--comparisons",
        metavar="SOURCE",
        help="What the labels are about, in any supported format. Default: what the project's pipeline has"
        " ingested; csv has all labels without it.",
    ),
]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who gave labels that don't say it.")]
Exported = Annotated[
    Literal["csv", "xml", "tables"] | None,
    typer.Option(
        "--format",
        help="csv: labels.csv, to lie beside data; xml: the comparisons as in the scheduler thesis, figure"
        " 6.1; tables: the comparisons as Parquet, in a directory. Default: as the suffix of -o says, or"
        " csv.",
    ),
]
Written = Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="Where the result goes.")]
Project = Annotated[Path, typer.Argument(metavar="PROJECT", help="Where `dvc repro` has run.")]
Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
Most = Annotated[int, typer.Option("--number", "-n", min=1, help="How many, at most.")]


@group.command("next")
def labels_next(  # noqa: PLR0917 - typer hands options over by name
    source: Source,
    number: Most = 20,
    model: Model = None,
    keep_going: KeepGoing = False,
    as_json: Json = False,
    output: Output = None,
) -> int:
    """Tell which comparisons to label first: those from which a model would learn most.

    With -o it writes a CSV file to fill in; as labels.csv beside the data it is read with them.
    """
    from serving.answering import form_of
    from serving.comparisons.labels.command import give_next

    form_of("csv", output, ("csv",))
    return give_next(source, number, model, keep_going=keep_going, as_json=as_json, output=output)


@group.command("suspects")
def labels_suspects(project: Project = Path(), number: Most = 20, as_json: Json = False) -> int:
    """List the labels that look wrong, by whom and why: the last run's models had not seen them."""
    from serving.comparisons.labels.command import give_suspects

    return give_suspects(project, number, as_json=as_json)


@group.command("people")
def labels_people(source: Source, keep_going: KeepGoing = False, as_json: Json = False) -> int:
    """Tell how reliable everybody is who labelled, and where they don't agree."""
    from serving.comparisons.labels.command import give_people

    return give_people(source, keep_going=keep_going, as_json=as_json)


@group.command("import")
def labels_import(
    source: Labelled,
    labels: Labels = None,
    by: By = None,
    keep_going: KeepGoing = False,
    as_json: Json = False,
) -> int:
    """Add the labels of a file or directory to the store; what was added before is not added again."""
    from serving.comparisons.labels.command import import_labels

    return import_labels(source, labels, by, keep_going=keep_going, as_json=as_json)


@group.command("export")
def labels_export(
    output: Written,
    labels: Labels = None,
    comparisons: About = None,
    form: Exported = None,
) -> int:
    """Write what people say now: of each the last label of a comparison, unless it is withdrawn."""
    from serving.answering import form_of
    from serving.comparisons.labels.command import export_labels

    if form != "tables":
        known: tuple[Literal["csv", "xml"], ...] = ("csv", "xml")
        form = form_of(form, output, known)
    return export_labels(labels, comparisons, form, output)
