"""What ``perfjudge labels`` does: read, compute, print."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons import formats
from data.comparisons.labels import label_csv
from data.comparisons.labels.consensus import Rule, consensus, disagreements, people
from data.comparisons.labels.label_store import LabelStore, move_in, moved_out
from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables, versions
from data.comparisons.validity import unusable
from data.errors import InputError, visible
from data.tables.cells import written_csv
from data.tables.problems import Problems
from features.comparisons.vectors import FEATURES, vectors
from serving.answering import tell_skipped, write
from serving.comparisons.command import read_source
from serving.comparisons.evaluated import EvaluatedComparisons, rule_under
from serving.comparisons.labels.endpoints import default_address, ingested
from serving.comparisons.model import Judge, load
from serving.comparisons.xml.report import written
from serving.reports.text_tables import tabulated
from training.comparisons.label_review import UNLABELLED, Pool, Suspect, next_to_label, suspects

#: Suspects that the report shows.
_MOST = 20


def doubts(evaluated: EvaluatedComparisons) -> dict[str, Any]:
    """Look for doubtful labels in the held-out verdicts on whole operations.

    Returns: the first suspects, how `many` there are, how reliable `people` are, and on how many comparisons
    they are `divided`.
    """
    found, labels = _suspects(evaluated), evaluated.tables.labels
    status = consensus(labels, evaluated.rule)
    return {
        "suspects": found[:_MOST],
        "many": len(found),
        "people": people(labels, status).to_dict("records"),
        "divided": len(disagreements(labels, status)),
    }


def _suspects(evaluated: EvaluatedComparisons) -> list[Suspect]:
    verdicts: pd.DataFrame = evaluated.of("grouped", "model")
    return suspects(verdicts, evaluated.metrics.champion, evaluated.tables.labels)


def counts(root: Path = Path()) -> dict[str, int]:
    """Count the labels that the project learns from, by what they say; nothing before it has any."""
    from data.paths import Places

    directory = Places("comparisons", root).interim
    if not (directory / "labels.parquet").is_file():
        return {}
    labels = ComparisonTables.SPECS["labels"].read(directory / "labels.parquet")
    return consensus(labels, rule_under(root)).value_counts().to_dict()


#: What is told of every comparison.
NEXT = ("comparison_id", "benchmark", "operation", "machine", "versions", "probability", "why")
#: The rule where there is no champion.
_RULE = "rank_z_min"


@dataclass(frozen=True)
class ToLabel:
    """Comparisons that can be judged, with their pool."""

    comparisons: pd.DataFrame  # as the table, and ``versions``
    pool: Pool  # in the same order
    probability: NDArray[np.float64]  # shape (n_comparisons,), the champion's; NaN without one

    @classmethod
    def of(cls, tables: ComparisonTables, served: Judge | None, counting: Rule = "majority") -> ToLabel:
        """Leave out what cannot be judged, and compute what is known of the rest; labels weigh by a rule."""
        usable = unusable(tables) == ""
        named = tables.comparisons.assign(versions=versions(tables))[usable].reset_index(drop=True)
        sides = Sides.of(ComparisonTables(tables.results, named, tables.labels))
        x = vectors(sides)
        y = _known(named, tables.labels, counting)
        groups = (named["benchmark"] + "/" + named["operation"]).to_numpy(np.str_)
        probability = np.full(len(named), np.nan)
        if served is not None:
            probability = served.model.judged(sides)
        rule = -np.nan_to_num(x[:, FEATURES.index(_RULE)])
        suspicion = rule if served is None else probability
        return cls(named, Pool(x, y, groups, suspicion), probability)

    def labelled(self, labels: pd.DataFrame, counting: Rule) -> ToLabel:
        """Return the same with other labels."""
        return replace(self, pool=replace(self.pool, y=_known(self.comparisons, labels, counting)))

    def identifiers(self) -> Sequence[str]:
        """Return all that are not labelled, those to label next first."""
        rows = next_to_label(self.pool, len(self.comparisons))
        return self.comparisons["comparison_id"].iloc[rows].tolist()

    def first(self, n: int) -> pd.DataFrame:
        """Return the comparisons to label next, with the columns `NEXT`, the first of them first."""
        rows = next_to_label(self.pool, n)
        found = bool((self.pool.y == 1).any())
        told = "a model of the labels so far is unsure" if found else "most suspicious, or drawn at random"
        chosen = self.comparisons.iloc[rows].assign(probability=self.probability[rows], why=told)
        return chosen[[*NEXT]].reset_index(drop=True)


def _known(comparisons: pd.DataFrame, labels: pd.DataFrame, counting: Rule) -> NDArray[np.int64]:
    status = comparisons["comparison_id"].map(consensus(labels, counting))
    return np.select([status == "fail", status == "pass"], [1, 0], UNLABELLED).astype(np.int64)


Form = Literal["csv", "xml", "tables"]


def import_labels(
    source: Path, address: str | None, by: str | None, *, keep_going: bool, as_json: bool
) -> int:
    """Add the labels of a source to a store, say how many, and return the exit code.

    Raises InputError if the source cannot be read, or the store does not answer.
    """
    problems = Problems(keep_going)
    if source.suffix == ".csv":
        labels = label_csv.read(source, problems)
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
    """Write current labels in one piece, and return the exit code.

    `form`: "csv": labels alone; "xml": the comparisons in the layout of seed 000, figure 6.1, with their
    labels; "tables": the comparisons as Parquet.

    Raises InputError if the store does not answer, the comparisons cannot be read, or a file would be lost.
    """
    with closing(LabelStore(address or default_address())) as store:
        store.look()
        if form == "csv":
            many = _write_csv(store, source, output)
        else:
            tables = _labelled(store, source)
            many = len(tables.labels)
            if form == "tables":
                tables.write(output)
            else:
                status = tables.comparisons["comparison_id"].map(consensus(tables.labels, rule_under()))
                write(written(tables, status.fillna("").tolist()), output)
    sys.stdout.write(f"{many} labels -> {output}\n")
    return 0


def _write_csv(store: LabelStore, source: Path | None, output: Path) -> int:
    """Write a ``labels.csv``, as it lies beside data: labels of a source's comparisons, if one is given."""
    labels = moved_out(store)
    if source is not None:
        known = _read(source).comparisons["comparison_id"]
        labels = labels[labels["comparison_id"].isin(known)]
    file = output / label_csv.FILE if output.is_dir() else output
    if file.exists():
        _require_kept(label_csv.read(file, Problems()), store, file)
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


def _labelled(store: LabelStore, source: Path | None) -> ComparisonTables:
    place = source if source is not None else ingested()
    if place is None:
        raise InputError("--comparisons SOURCE is missing; expected what the labels are about")
    tables = _read(Path(place))
    labels = moved_out(store, tables.labels)
    return replace(tables, labels=labels[labels["comparison_id"].isin(tables.comparisons["comparison_id"])])


#: Disagreements that a table shows; JSON has all.
_SHOWN = 20
_NUMBERS = {
    "probability": ".3f",
    "doubt": ".3f",
    "sensitivity": ".3f",
    "specificity": ".4f",
    "agreement": ".3f",
}


def give_next(
    source: Path, number: int, uri: str | None, *, keep_going: bool, as_json: bool, output: Path | None
) -> int:
    """Print what to label next, or write it as a CSV file to fill in.

    Raises InputError if the source cannot be read, or there is no such model.
    """
    tables = _read(source, keep_going=keep_going)
    try:
        served = load(uri)
    except InputError:
        if uri is not None:
            raise
        served = None
    chosen = ToLabel.of(tables, served, rule_under()).first(number)
    if output is not None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        blank = chosen.drop(columns="probability").assign(status="", annotator="", labelled_at=now)
        order = ["comparison_id", "status", "annotator", "labelled_at", "operation", "versions", "why"]
        about = blank[order[4:]].map(lambda cell: visible(cell) if isinstance(cell, str) else cell)
        # as bytes: identifiers stay as they are, so that the labels find their comparisons
        write(written_csv(blank[order[:4]].join(about)).encode(), output)
        return 0
    return _give(chosen, as_json=as_json)


def give_suspects(project: Path, number: int, *, as_json: bool) -> int:
    """Print the labels to look at again; InputError if the stages' files are not there."""
    found = _suspects(EvaluatedComparisons.read(project))
    rows = pd.DataFrame([asdict(one) for one in found[:number]])
    if len(rows) and not as_json:
        rows["why"] = rows["why"].map("; ".join)
    return _give(rows, f"{len(found)} labels to look at again", as_json=as_json)


def give_people(source: Path, *, keep_going: bool, as_json: bool) -> int:
    """Print how reliable people are and where they don't agree; InputError if the source cannot be read."""
    labels = _read(source, keep_going=keep_going).labels
    status = consensus(labels, rule_under())
    who, divided = people(labels, status), disagreements(labels, status)
    if as_json:
        content = {"people": json.loads(_json(who)), "disagreements": json.loads(_json(divided))}
        write(json.dumps(content, indent=2) + "\n", None)
        return 0
    if who.empty:
        write("No comparison is labelled by two people.\n", None)
        return 0
    _give(who, "how reliable people are (Dawid and Skene)")
    return _give(divided.head(_SHOWN), f"{len(divided)} comparisons on which they don't agree")


def _read(source: Path, *, keep_going: bool = False) -> ComparisonTables:
    return read_source(formats.sniff(source), [source], Problems(keep_going))


def _json(table: pd.DataFrame) -> str:
    text: str = table.to_json(orient="records", indent=2)
    return text + "\n"


def _give(table: pd.DataFrame, caption: str | None = None, *, as_json: bool = False) -> int:
    if as_json:
        write(_json(table), None)
        return 0
    columns = list(table.columns)
    rows = [
        [
            "" if pd.isna(value) else format(value, _NUMBERS.get(name, ""))
            for name, value in zip(columns, row, strict=True)
        ]
        for row in table.to_numpy()
    ]
    write(tabulated(columns, rows, numbers=_NUMBERS, caption=caption), None)
    return 0
