"""The commands ``perfjudge labels``."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from data.errors import InputError, escape_invisible
from data.people import require_person
from data.tables.problems import Problems
from serving.answering import form_of, print_skipped, refuse_input, write_output
from serving.options import KeepGoing, Model, Output
from serving.reports.text_tables import text_table

if TYPE_CHECKING:
    import pandas as pd

    from data.comparisons.labels.label_store import LabelStore
    from data.comparisons.tables import ComparisonTables

group = typer.Typer(help="Select, import, export and check labels of comparisons.", no_args_is_help=True)
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="PERFJUDGE_LABELS",
        help="Database of labels: sqlite:///FILE or postgresql://USER@HOST/DATABASE."
        " Default: labels.db in the clone of perfjudge if it runs from one, else in the working directory.",
    ),
]
Source = Annotated[
    Path, typer.Argument(metavar="DATA", help="Comparisons in any supported format, labelled or not.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Most = Annotated[int, typer.Option("--number", "-n", min=1, metavar="N", help="Maximum number of rows.")]
#: Most disagreements in a table; JSON has all.
_SHOWN = 20
#: Formats of numbers in tables.
_NUMBERS = dict.fromkeys(("probability", "doubt", "sensitivity", "agreement"), ".3f") | {"specificity": ".4f"}
#: Columns of labels in a CSV file.
_LABEL_COLUMNS = ["comparison_id", "status", "annotator", "labelled_at"]


@group.command("next")
def labels_next(  # noqa: PLR0917 - typer hands options over by name
    source: Source,
    number: Most = 20,
    model: Model = None,
    keep_going: KeepGoing = False,
    as_json: Json = False,
    output: Output = None,
) -> int:
    """List the comparisons whose labels would improve a model most.

    A model fitted to the labels in the data determines the order if both pass and fail occur; else --model
    or the champion does; if there is no model, a rank statistic of the samples. The column probability is
    always from --model or the champion; it is empty if there is neither. With -o, a CSV file to fill in is
    written; rows of an existing file that have a status are kept. Save it as labels.csv in the directory of
    the data, so that the labels are read with the data.
    """
    import pandas as pd

    from serving.comparisons.evaluated import consensus_rule
    from serving.comparisons.labels.review import LabelCandidates
    from serving.comparisons.model import load_judge, registered_name
    from training.registry.champions import CHAMPION, served_version

    form_of("csv", output, ("csv",))
    if as_json and output is not None:
        raise InputError("--json is for standard output; -o writes a CSV file")
    filled = _filled_rows(output)
    tables = _read_tables(source, keep_going=keep_going)
    champion_missing = model is None and served_version(f"models:/{registered_name()}@{CHAMPION}") is None
    served = None if champion_missing else load_judge(model)
    candidates = LabelCandidates.from_tables(tables, served, consensus_rule())
    known = [] if filled.empty else filled["comparison_id"].tolist()
    chosen = candidates.first_candidates(number + len(known))
    chosen = chosen[~chosen["comparison_id"].isin(known)].head(number)
    if output is None and chosen.empty and not as_json:
        write_output("No comparison needs a label.\n", None)
        return 0
    if output is None:
        return _print_table(chosen, as_json=as_json)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    blank = chosen.assign(status="", annotator="", labelled_at=now)
    about = blank[["operation", "versions", "reason"]].map(escape_invisible)
    rows = pd.concat([filled, blank[_LABEL_COLUMNS].join(about)]).fillna("")
    _write_label_csv(rows, output)
    return 0


def _filled_rows(file: Path | None) -> pd.DataFrame:
    """Return the rows of a CSV file of labels that have a status; none without a file."""
    import pandas as pd

    from data.comparisons.labels import label_csv
    from data.tables.cells import read_cells, without_quotes

    if file is None or not file.is_file() or not file.stat().st_size:
        return pd.DataFrame()
    rows = read_cells(file, label_csv.COLUMNS).apply(without_quotes)
    return rows[rows["status"].str.strip() != ""]


@group.command("suspects")
def labels_suspects(
    project: Annotated[
        Path, typer.Argument(metavar="PROJECT", help="Directory of the project, after `dvc repro`.")
    ] = Path(),
    number: Most = 20,
    as_json: Json = False,
) -> int:
    """List doubtful labels, the most doubtful first.

    Labels that out-of-fold predictions contradict come first, then labels of comparisons on which
    annotators disagree; --number limits both together. Each row names the annotators of the comparison (if
    one person settled a disagreement, only that one) and the reasons for the doubt. The command fails if
    `dvc repro` has not run.
    """
    from serving.comparisons.labels.review import suspects_table

    suspects = suspects_table(project)
    rows = suspects.head(number)
    if not as_json:
        rows = rows.assign(reason=rows["reason"].map("; ".join))
    return _print_table(rows, f"{len(suspects)} labels to look at again", as_json=as_json)


@group.command("people")
def labels_people(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="Comparisons that several people labelled, in any supported format."
        ),
    ],
    keep_going: KeepGoing = False,
    as_json: Json = False,
) -> int:
    """Estimate sensitivity and specificity of annotators. Comparisons on which they disagree are listed."""
    from data.comparisons.labels.consensus import (
        annotator_reliability,
        consensus_status,
        disputed_comparisons,
    )
    from serving.comparisons.evaluated import consensus_rule

    labels = _read_tables(source, keep_going=keep_going).labels
    status = consensus_status(labels, consensus_rule())
    annotators, divided = annotator_reliability(labels, status), disputed_comparisons(labels, status)
    if as_json:
        tables = {"people": annotators, "disagreements": divided}
        content = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
        write_output(json.dumps(content, indent=2) + "\n", None)
        return 0
    if annotators.empty:
        write_output("No comparison is labelled by two people.\n", None)
        return 0
    _print_table(annotators, "how reliable people are (Dawid and Skene)")
    return _print_table(divided.head(_SHOWN), f"{len(divided)} comparisons on which they don't agree")


@group.command("import")
def labels_import(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="Comparisons in any supported format, or labels in a CSV file."
        ),
    ],
    labels: Labels = None,
    by: Annotated[
        str | None, typer.Option(metavar="NAME", help="Annotator of labels that name none.")
    ] = None,
    keep_going: KeepGoing = False,
    as_json: Json = False,
) -> int:
    """Add labels of a file or directory to the database. Labels that it already has are skipped.

    Labels without an annotator are skipped unless --by names one.
    """
    from data.comparisons.labels import label_csv
    from data.comparisons.labels.label_store import LabelStore, import_label_table
    from serving.comparisons.labels.endpoints import default_address

    if by is not None:
        require_person(by, "--by")
    if source.suffix.lower() == ".csv":
        problems = Problems(keep_going)
        table = label_csv.read_labels(source, problems, may_be_anonymous=True)
        print_skipped(problems.skipped)
    else:
        table = _read_tables(source, keep_going=keep_going).labels
    with closing(LabelStore.open(labels or default_address())) as store:
        moved = import_label_table(table, store, by)
    line = f"{moved.added} labels added, {moved.already_stored} already stored"
    if moved.unattributed:
        line += f"; {moved.unattributed} without an annotator not added (--by NAME adds them)"
    if moved.contradictory:
        line += f"; {moved.contradictory} not added: a later row has another status at the same time"
    sys.stdout.write((json.dumps(asdict(moved)) if as_json else line) + "\n")
    return 0


@group.command("export")
def labels_export(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="Output file or directory.")],
    labels: Labels = None,
    comparisons: Annotated[
        Path | None,
        typer.Option(
            metavar="SOURCE",
            help="Comparisons whose labels are written, in any supported format. Default: the input of the"
            " last `dvc repro`; with --format csv, all labels of the database.",
        ),
    ] = None,
    form: Annotated[
        Literal["csv", "xml", "tables"] | None,
        typer.Option(
            "--format",
            help="csv: labels only, to be placed next to the data as labels.csv; xml: comparisons with"
            " labels, in one XML file; tables: like xml, but Parquet files in a"
            " directory. Default: by the suffix of -o, else csv.",
        ),
    ] = None,
) -> int:
    """Write the last label of each person for each comparison. Withdrawn labels are not written.

    An existing file is replaced, except a CSV file with labels that the database lacks: import it first.
    With --format xml or tables, comparisons without a label in the database are written with their label in
    the data of --comparisons.
    """
    from data.comparisons.labels.consensus import consensus_status
    from data.comparisons.labels.label_store import LabelStore
    from serving.comparisons.evaluated import consensus_rule
    from serving.comparisons.labels.endpoints import default_address
    from serving.comparisons.xml.report import write_comparisons

    if form != "tables":
        formats: tuple[Literal["csv", "xml"], ...] = ("csv", "xml")
        form = form_of(form, output, formats)
    with closing(LabelStore(labels or default_address())) as store:
        store.check_reachable()
        if form == "csv":
            count = _write_csv(store, comparisons, output)
        else:
            tables = _labelled_tables(store, comparisons, output)
            count = len(tables.labels)
    if form == "tables":
        tables.write(output)
    elif form == "xml":
        consensus = consensus_status(tables.labels, consensus_rule())
        status = tables.comparisons["comparison_id"].map(consensus)
        write_output(write_comparisons(tables, status.fillna("").tolist()), output)
    sys.stdout.write(f"{count} labels -> {output}\n")
    return 0


def _write_csv(store: LabelStore, source: Path | None, output: Path) -> int:
    import pandas as pd

    from data.comparisons.labels import label_csv
    from data.comparisons.labels.label_store import export_label_table

    labels = export_label_table(store)
    if source is not None:
        identifiers = _read_tables(source).comparisons["comparison_id"]
        labels = labels[labels["comparison_id"].isin(identifiers)]
    file = output / label_csv.FILE if output.is_dir() else output
    if file.exists():
        # labels that exist only in this file must not be lost
        before = label_csv.read_labels(file, Problems())[["comparison_id", "status", "annotator"]]
        stored = {label[:3] for label in store.all_identifying_values()}
        lost = sum(label not in stored for label in before.itertuples(index=False, name=None))
        if lost:
            problem = f"{lost} of its labels are not in the store; first: perfjudge labels import {file}"
            raise InputError(problem, file=file)
    times = labels["labelled_at"].map(lambda at: "" if pd.isna(at) else at.isoformat())
    _write_label_csv(labels.assign(labelled_at=times)[_LABEL_COLUMNS], file)
    return len(labels)


def _write_label_csv(rows: pd.DataFrame, file: Path) -> None:
    from data.tables.cells import written_csv

    # as bytes: identifiers stay unchanged, so that labels find their comparisons
    write_output(written_csv(rows).encode(), file)


def _labelled_tables(store: LabelStore, source: Path | None, output: Path) -> ComparisonTables:
    from data.comparisons.labels.label_store import export_label_table
    from serving.comparisons.labels.endpoints import ingested_directory

    place = source or ingested_directory()
    if place is None:
        raise InputError("--comparisons SOURCE is missing, and there is no default; make it with: dvc repro")
    refuse_input(output, [Path(place)])
    tables = _read_tables(Path(place))
    labels = export_label_table(store, tables.labels)
    return replace(tables, labels=labels[labels["comparison_id"].isin(tables.comparisons["comparison_id"])])


def _read_tables(source: Path, *, keep_going: bool = False) -> ComparisonTables:
    from data.comparisons import formats
    from serving.comparisons.command import read_source

    return read_source(formats.recognise_format(source), [source], Problems(keep_going))


def _print_table(table: pd.DataFrame, caption: str | None = None, *, as_json: bool = False) -> int:
    import pandas as pd

    if as_json:
        write_output(table.to_json(orient="records", indent=2) + "\n", None)
        return 0
    texts = {
        name: ["" if pd.isna(value) else format(value, _NUMBERS.get(name, "")) for value in column]
        for name, column in table.items()
    }
    rows = zip(*texts.values(), strict=True)
    write_output(text_table(list(table.columns), rows, numbers=_NUMBERS, caption=caption), None)
    return 0
