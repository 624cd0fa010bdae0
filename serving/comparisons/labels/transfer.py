"""What ``perfjudge labels import`` and ``export`` do: labels of files go into a store, and come back."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

import pandas as pd

from data.comparisons import formats
from data.comparisons.labels import listed
from data.comparisons.labels.consensus import consensus
from data.comparisons.labels.store.kept import LabelStore
from data.comparisons.labels.store.moving import move_in, moved_out
from data.comparisons.tables import ComparisonTables
from data.errors import InputError
from data.tables.cells import written_csv
from data.tables.problems import Problems
from serving.answering import tell_skipped, write
from serving.comparisons.command import read_source
from serving.comparisons.evaluated import rule_under
from serving.comparisons.labels.store.beginning import default_address, ingested
from serving.comparisons.xml.report import written

Form = Literal["csv", "xml", "tables"]


def import_labels(
    source: Path, address: str | None, by: str | None, *, keep_going: bool, as_json: bool
) -> int:
    """Add the labels of a source to a store, say how many, and return the exit code.

    Raises
    ------
    InputError
        If the source cannot be read, or the store does not answer.
    """
    problems = Problems(keep_going)
    if source.suffix == ".csv":
        labels = listed.read(source, problems)
    else:
        labels = read_source(formats.sniff(source), [source], problems).labels
    tell_skipped(problems.skipped)
    with closing(LabelStore.open(address or default_address())) as store:
        moved = move_in(labels, store, by)
    told = f"{moved.added} labels added, {moved.known} were there"
    if moved.nobodys:
        told += f"; {moved.nobodys} are settled, no person's, and stay with their data (--by NAME takes them)"
    sys.stdout.write((json.dumps(asdict(moved)) if as_json else told) + "\n")
    return 0


def export_labels(address: str | None, source: Path | None, form: Form, output: Path) -> int:
    """Write what people say now, in one piece, and return the exit code.

    Raises
    ------
    InputError
        If the store does not answer, the comparisons cannot be read, or a file would be lost.
    """
    with closing(LabelStore(address or default_address())) as store:
        store.look()
        many = _FORMS[form](store, source, output)
    sys.stdout.write(f"{many} labels -> {output}\n")
    return 0


def _as_csv(store: LabelStore, source: Path | None, output: Path) -> int:
    """Write a ``labels.csv``, as it lies beside data: labels of a source's comparisons, if one is given."""
    labels = moved_out(store)
    if source is not None:
        known = _tables(source).comparisons["comparison_id"]
        labels = labels[labels["comparison_id"].isin(known)]
    file = output / listed.FILE if output.is_dir() else output
    if file.exists():
        _require_kept(listed.read(file, Problems()), store, file)
    times = labels["labelled_at"].map(lambda at: "" if pd.isna(at) else at.isoformat())
    columns = ["comparison_id", "status", "annotator", "labelled_at"]
    # as bytes: identifiers stay as they are, so that the labels find their comparisons
    write(written_csv(labels.assign(labelled_at=times)[columns]).encode(), file)
    return len(labels)


def _require_kept(before: pd.DataFrame, store: LabelStore, file: Path) -> None:
    """Refuse to write over labels that stand nowhere else."""
    whose = ["comparison_id", "annotator"]
    kept = pd.MultiIndex.from_frame(before[whose]).isin(pd.MultiIndex.from_frame(store.last()[whose]))
    if not kept.all():
        told = f"{(~kept).sum()} of its labels are not in the store; first: perfjudge labels import {file}"
        raise InputError(told, file=file)


def _as_xml(store: LabelStore, source: Path | None, output: Path) -> int:
    """Write comparisons in the layout of seed 000, figure 6.1, with all labels and what they come to."""
    tables = _labelled(store, source)
    status = tables.comparisons["comparison_id"].map(consensus(tables.labels, rule_under()))
    write(written(tables, status.fillna("").tolist()), output)
    return len(tables.labels)


def _as_tables(store: LabelStore, source: Path | None, output: Path) -> int:
    """Write comparisons, their results and all labels."""
    tables = _labelled(store, source)
    tables.write(output)
    return len(tables.labels)


def _labelled(store: LabelStore, source: Path | None) -> ComparisonTables:
    place = source if source is not None else ingested()
    if place is None:
        raise InputError("--comparisons SOURCE is missing; expected what the labels are about")
    tables = _tables(Path(place))
    labels = moved_out(store, tables.labels)
    return replace(tables, labels=labels[labels["comparison_id"].isin(tables.comparisons["comparison_id"])])


def _tables(source: Path) -> ComparisonTables:
    return read_source(formats.sniff(source), [source], Problems())


_FORMS: dict[Form, Callable[[LabelStore, Path | None, Path], int]] = {
    "csv": _as_csv,
    "xml": _as_xml,
    "tables": _as_tables,
}
