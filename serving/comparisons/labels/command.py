"""The commands ``perfjudge labels``."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons import formats
from data.comparisons.labels import label_csv
from data.comparisons.labels.consensus import (
    Rule,
    annotator_reliability,
    consensus_status,
    disputed_comparisons,
)
from data.comparisons.labels.label_store import LabelStore, export_label_table, import_label_table
from data.comparisons.sides import Sides
from data.comparisons.tables import ComparisonTables, version_ranges
from data.comparisons.validity import unusable_reasons
from data.errors import InputError, escape_invisible
from data.paths import FamilyPaths
from data.tables.cells import written_csv
from data.tables.problems import Problems
from features.comparisons.vectors import FEATURES, feature_vectors
from serving.answering import print_skipped, write_output
from serving.comparisons.command import read_source
from serving.comparisons.evaluated import EvaluatedComparisons, consensus_rule
from serving.comparisons.labels.endpoints import default_address, ingested_directory
from serving.comparisons.model import Judge, load_judge, registered_name
from serving.comparisons.xml.report import write_comparisons
from serving.reports.text_tables import text_table
from training.comparisons.label_review import UNLABELLED, Pool, Suspect, next_to_label, suspected_labels
from training.registry.champions import CHAMPION, served_version

#: Most suspects on the report page.
_MOST = 20
#: Columns of the comparisons to label next.
NEXT = ("comparison_id", "benchmark", "operation", "machine", "versions", "probability", "reason")
#: Most disagreements in a table; JSON has all.
_SHOWN = 20
#: Formats of numbers in tables.
_NUMBERS = dict.fromkeys(("probability", "doubt", "sensitivity", "agreement"), ".3f") | {"specificity": ".4f"}
#: Columns of labels in a CSV file.
_LABEL_COLUMNS = ["comparison_id", "status", "annotator", "labelled_at"]
Form = Literal["csv", "xml", "tables"]


def doubtful_labels(evaluated: EvaluatedComparisons) -> dict[str, Any]:
    """Return the labels that out-of-fold verdicts contradict (folds of whole operations), and annotators.

    Keys: ``suspects``, the first 20 of `suspected_labels`, last those that only annotators dispute; ``many``,
    the number without this limit; ``people``, dicts with ``annotator, cases, fails, sensitivity, specificity,
    agreement``, empty if no comparison has two annotators; ``divided``, the number of comparisons whose
    annotators disagree.
    """
    rows, labels = _find_suspects(evaluated), evaluated.tables.labels
    status = consensus_status(labels, evaluated.rule)
    return {
        "suspects": rows[:_MOST],
        "many": len(rows),
        "people": annotator_reliability(labels, status).to_dict("records"),
        "divided": len(disputed_comparisons(labels, status)),
    }


def _find_suspects(evaluated: EvaluatedComparisons) -> list[Suspect]:
    verdicts: pd.DataFrame = evaluated.select_verdicts("grouped", "model")
    return suspected_labels(verdicts, evaluated.metrics.champion, evaluated.tables.labels)


def counts(root: Path) -> dict[str, int]:
    """Return the number of ingested comparisons by the status that their labels give together.

    The keys are "pass" and "fail"; one without comparisons is missing; ties are not counted. Empty before the
    pipeline has run. InputError if ``params.yaml`` or the table of labels in the project `root` is wrong.
    """
    file = FamilyPaths("comparisons", root).interim / "labels.parquet"
    if not file.is_file():
        return {}
    labels = ComparisonTables.SPECS["labels"].read(file)
    return consensus_status(labels, consensus_rule(root)).value_counts().to_dict()


@dataclass(frozen=True)
class LabelCandidates:
    """Comparisons that can be judged, with the pool for active learning."""

    comparisons: pd.DataFrame  # as the table, and ``versions``
    pool: Pool  # in the order of `comparisons`
    probability: NDArray[np.float64]  # shape (n_comparisons,), the champion's; NaN without one

    @classmethod
    def from_tables(
        cls, tables: ComparisonTables, served: Judge | None, counting: Rule = "majority"
    ) -> LabelCandidates:
        """Return the comparisons that can be judged, with their features, labels and probabilities.

        Without a model (`served`), a rank statistic orders them. `counting`: see `consensus_status`.
        """
        usable = unusable_reasons(tables) == ""
        comparisons = tables.comparisons.assign(versions=version_ranges(tables))[usable]
        comparisons = comparisons.reset_index(drop=True)
        sides = Sides.from_tables(ComparisonTables(tables.results, comparisons, tables.labels))
        x = feature_vectors(sides)
        groups = (comparisons["benchmark"] + "/" + comparisons["operation"]).to_numpy(np.str_)
        if served is None:
            probability = np.full(len(comparisons), np.nan)
            suspicion = -np.nan_to_num(x[:, FEATURES.index("rank_z_min")])
        else:
            probability = suspicion = served.model.predict_uncleaned(sides)
        pool = Pool(x, _label_classes(comparisons, tables.labels, counting), groups, suspicion)
        return cls(comparisons, pool, probability)

    def ordered_identifiers(self, labels: pd.DataFrame, counting: Rule) -> list[str]:
        """Return the ids of the comparisons that `labels` leave unlabelled, the next to label first."""
        pool = replace(self.pool, y=_label_classes(self.comparisons, labels, counting))
        rows = next_to_label(pool, len(self.comparisons))
        return self.comparisons["comparison_id"].iloc[rows].tolist()

    def first_candidates(self, n: int) -> pd.DataFrame:
        """Return the next `n` comparisons to label, or all unlabelled ones, with the columns `NEXT`."""
        rows = next_to_label(self.pool, n)
        if {0, 1} <= {*self.pool.y.tolist()}:
            reason = "a model of the labels so far is unsure"
        elif np.isnan(self.probability).all():
            reason = "most suspicious by a rank statistic, as there is no champion, or drawn at random"
        else:
            reason = "most suspicious, or drawn at random"
        chosen = self.comparisons.iloc[rows].assign(probability=self.probability[rows], reason=reason)
        return chosen[[*NEXT]].reset_index(drop=True)


def _label_classes(comparisons: pd.DataFrame, labels: pd.DataFrame, counting: Rule) -> NDArray[np.int64]:
    status = comparisons["comparison_id"].map(consensus_status(labels, counting))
    return np.select([status == "fail", status == "pass"], [1, 0], UNLABELLED).astype(np.int64)


def import_labels(
    source: Path, address: str | None, by: str | None, *, keep_going: bool, as_json: bool
) -> int:
    """Add the labels of a source to a store, print how many were added, and return the exit code, 0.

    `source`: a CSV file (suffix .csv) of labels, or comparisons in any format. `address`: of the store, whose
    SQLite file is created if missing; None: labels.db in the project. `by`: the annotator of labels without
    one; None: these are left out. `keep_going`: skip wrong rows and parts. `as_json`: print ``added,
    already_stored, unattributed``. Raises InputError if the source cannot be read, a label's time is in the
    future, or the store does not answer.
    """
    problems = Problems(keep_going)
    if source.suffix == ".csv":
        labels = label_csv.read_labels(source, problems)
        print_skipped(problems.skipped)
    else:
        labels = read_source(formats.recognise_format(source), [source], problems).labels
    with closing(LabelStore.open(address or default_address())) as store:
        moved = import_label_table(labels, store, by)
    line = f"{moved.added} labels added, {moved.already_stored} already stored"
    if moved.unattributed:
        line += f"; {moved.unattributed} without an annotator not added (--by NAME adds them)"
    sys.stdout.write((json.dumps(asdict(moved)) if as_json else line) + "\n")
    return 0


def export_labels(address: str | None, source: Path | None, form: Form, output: Path) -> int:
    """Write the current labels of a store to `output`, print their number, and return the exit code, 0.

    `address`: of the store (a missing SQLite file has no labels); None: labels.db in the project. `source`:
    the comparisons, only whose labels are written; None: the project's, or for "csv" all labels. `form`:
    "csv": labels only, in labels.csv if `output` is a directory; "xml": one file of comparisons with their
    labels, and the status that these give together; "tables": Parquet files in the directory `output`. "xml"
    and "tables" also have the labels of the source (see `export_label_table`). Existing files are replaced.
    Raises InputError if the store does not answer, the comparisons are missing or cannot be read, or an
    existing CSV file has a label that the store has never had (comparison, status and annotator).
    """
    with closing(LabelStore(address or default_address())) as store:
        store.check_reachable()
        if form == "csv":
            count = _write_csv(store, source, output)
        else:
            tables = _labelled_tables(store, source)
            count = len(tables.labels)
            if form == "tables":
                tables.write(output)
            else:
                consensus = consensus_status(tables.labels, consensus_rule())
                status = tables.comparisons["comparison_id"].map(consensus)
                write_output(write_comparisons(tables, status.fillna("").tolist()), output)
    sys.stdout.write(f"{count} labels -> {output}\n")
    return 0


def _write_csv(store: LabelStore, source: Path | None, output: Path) -> int:
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
    # as bytes: identifiers stay unchanged, so that labels find their comparisons
    write_output(written_csv(rows).encode(), file)


def _labelled_tables(store: LabelStore, source: Path | None) -> ComparisonTables:
    place = source or ingested_directory()
    if place is None:
        raise InputError("--comparisons SOURCE is missing; expected the comparisons of the labels")
    tables = _read_tables(Path(place))
    labels = export_label_table(store, tables.labels)
    return replace(tables, labels=labels[labels["comparison_id"].isin(tables.comparisons["comparison_id"])])


def give_next(
    source: Path, number: int, uri: str | None, *, keep_going: bool, as_json: bool, output: Path | None
) -> int:
    """Print up to `number` unlabelled comparisons to label next, or write them to a CSV file; return 0.

    Unlabelled are comparisons that can be judged and whose labels in `source` give neither pass nor fail. No
    label store is read. `uri`: the address of the model that gives ``probability`` and, until a fail and a
    pass are labelled, the order; None: the champion, or without one a rank statistic that gives the order.
    `keep_going`: skip parts that cannot be read. `output`: the CSV file to fill in (``status`` and
    ``annotator`` are empty); None: print a table, or with `as_json` a list, of ``comparison_id, benchmark,
    operation, machine, versions, probability, reason``. Raises InputError if the source or the model cannot
    be read or does not exist.
    """
    tables = _read_tables(source, keep_going=keep_going)
    champion_missing = uri is None and served_version(f"models:/{registered_name()}@{CHAMPION}") is None
    served = None if champion_missing else load_judge(uri)
    chosen = LabelCandidates.from_tables(tables, served, consensus_rule()).first_candidates(number)
    if output is None:
        return _print_table(chosen, as_json=as_json)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    blank = chosen.assign(status="", annotator="", labelled_at=now)
    about = blank[["operation", "versions", "reason"]].map(
        lambda value: escape_invisible(value) if isinstance(value, str) else value
    )
    _write_label_csv(blank[_LABEL_COLUMNS].join(about), output)
    return 0


def give_suspects(project: Path, number: int, *, as_json: bool) -> int:
    """Print the first `number` suspected labels of `project` as a table or JSON; return the exit code, 0.

    Labels that out-of-fold verdicts contradict come first, then labels that annotators dispute. The columns
    are ``comparison_id, status, labelled_by, probability, doubt, reason``. InputError if the stages' files do
    not exist.
    """
    labels = _find_suspects(EvaluatedComparisons.read(project))
    columns = [field.name for field in fields(Suspect)]
    rows = pd.DataFrame([asdict(suspect) for suspect in labels[:number]], columns=columns)
    if not as_json:
        rows["reason"] = rows["reason"].map("; ".join)
    return _print_table(rows, f"{len(labels)} labels to look at again", as_json=as_json)


def give_people(source: Path, *, keep_going: bool, as_json: bool) -> int:
    """Print the reliability and the disagreements of annotators; return the exit code, 0.

    A table has at most 20 disagreements; JSON (`as_json`) has all, in ``disagreements``, beside ``people``.
    `keep_going`: skip parts that cannot be read. InputError if `source`, comparisons of any format, cannot be
    read.
    """
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


def _read_tables(source: Path, *, keep_going: bool = False) -> ComparisonTables:
    return read_source(formats.recognise_format(source), [source], Problems(keep_going))


def _print_table(table: pd.DataFrame, caption: str | None = None, *, as_json: bool = False) -> int:
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
