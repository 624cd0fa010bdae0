"""Models and schemes to evaluate: for the tables of the matrix paper, the ablation and the champion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Scheme:
    """A combination of remedies: a row of the ablation. Sections are of the matrix paper.

    `metrics` are "summary" or "raw" (section 4.2); where a source has no summary metrics, raw ones are used.
    `form` is a name in `features.matrices.forms.FORMS` (4.5). `prune`: whether runs flagged invalid are left
    out of training (4.1); else they take their matrix's label. `grouping` is "none", "given" or "automatic"
    (4.3): given groups have their own classifiers, automatic ones are used only to estimate noise.
    `components` is the largest number of principal components, None without projection (4.2). `balance`:
    whether cost ratio, resampling rate, threshold and the weight of a group's own classifier are searched
    (4.4); else errors cost the same and the threshold is 0.5. `tuned`: whether the classifier's own
    hyperparameters, and whether to project, are searched; not in the paper.
    """

    metrics: str
    form: str
    prune: bool
    grouping: str
    components: int | None
    balance: bool
    tuned: bool = False


NAIVE = Scheme("summary", "flattened", prune=False, grouping="none", components=None, balance=False)
FULL = Scheme("raw", "contrasted", prune=True, grouping="automatic", components=100, balance=True, tuned=True)
#: The medians of both sides, for classifiers without features of ours.
PLAIN = replace(FULL, form="medians", grouping="none", components=None)
#: Contrasts and medians side by side, for blends.
JOINED = replace(FULL, form="joined", components=None)
#: The scheme for data larger than memory: given groups can be split while the data is read.
LARGE = replace(FULL, grouping="given")


@dataclass(frozen=True)
class Cell:
    """A model under a scheme."""

    model: str
    scheme: Scheme

    @property
    def entry_name(self) -> str:
        """Its name in metrics.json."""
        return f"{self.model} {self.scheme.form}"


#: Valid vectors and abnormal ones among them (section 3).
VECTORS, ABNORMAL = 20_920, 740
#: Pairs of vectors, and abnormal ones, of table 8 and of the last row of table 5 (section 6.2).
PAIRS, ABNORMAL_PAIRS = 9_540, 377


@dataclass(frozen=True)
class Printed:
    """The figures of a row in a table of the matrix paper; table 2 has false negatives only."""

    false_negative: int
    false_positive: int | None = None
    balanced_accuracy: float | None = None


#: Seed 001 before any remedy except that invalid runs are removed (tables 2 and 4), then with one remedy
#: after another.
INITIAL = replace(NAIVE, prune=True)
RAW = replace(INITIAL, metrics="raw")
GROUPED = replace(RAW, grouping="given")

TREE, LOGISTIC, TAN, SIMILARITY = "decision-tree", "logistic", "tan", "similarity-logistic"
#: The classifiers that also learn from medians.
PLAIN_MODELS = frozenset({LOGISTIC, "random-forest", "xgboost"})
#: Blends of two classifiers of a kind, on contrasts and on medians, by name; the kind.
BLENDS = {"xgboost-blend": "xgboost"}
#: The classifiers of tables 4, 6 and 7, whose remedies are added one by one.
FOLLOWED = (TREE, LOGISTIC, TAN)


@dataclass(frozen=True)
class TableRow:
    """A row of a table of the matrix paper, the cell that reproduces it, and the printed figures."""

    table: int
    row: str
    cell: Cell
    printed: Printed

    @property
    def first_columns(self) -> dict[str, Any]:
        """The first columns of its row in tables.parquet."""
        about = {"table": self.table, "row": self.row, "model": self.cell.model}
        return about | {"scheme": describe_scheme(self.cell.scheme)}


_TUNED = replace(GROUPED, components=FULL.components, balance=True)
_TUNED_PAIRS = replace(_TUNED, form="concatenated")
_CONCATENATED, _SUBTRACTED = replace(RAW, form="concatenated"), replace(RAW, form="subtracted")
#: The rows of tables 2 and 4 to 8, in the paper's order.
TABLE_ROWS = (
    TableRow(2, "Decision tree", Cell(TREE, INITIAL), Printed(577)),
    TableRow(2, "Logistic regression", Cell(LOGISTIC, INITIAL), Printed(739)),
    TableRow(2, "TAN", Cell(TAN, INITIAL), Printed(605)),
    TableRow(2, "SVM", Cell("svm", INITIAL), Printed(737)),
    TableRow(2, "Random forest", Cell("random-forest", INITIAL), Printed(517)),
    TableRow(4, "DTree", Cell(TREE, INITIAL), Printed(577, 58, 0.61)),
    TableRow(4, "Logistic", Cell(LOGISTIC, INITIAL), Printed(739, 2, 0.50)),
    TableRow(4, "TAN", Cell(TAN, INITIAL), Printed(605, 172, 0.59)),
    TableRow(5, "DTree", Cell(TREE, _TUNED), Printed(122, 280, 0.91)),
    TableRow(5, "Logistic", Cell(LOGISTIC, _TUNED), Printed(253, 808, 0.81)),
    TableRow(5, "TAN", Cell(TAN, _TUNED), Printed(160, 846, 0.87)),
    TableRow(5, "Sim-Logistic", Cell(SIMILARITY, _TUNED_PAIRS), Printed(117, 454, 0.82)),
    TableRow(6, "DTree", Cell(TREE, RAW), Printed(282, 179, 0.81)),
    TableRow(6, "Logistic", Cell(LOGISTIC, RAW), Printed(674, 43, 0.54)),
    TableRow(6, "TAN", Cell(TAN, RAW), Printed(277, 1149, 0.78)),
    TableRow(7, "DTree", Cell(TREE, GROUPED), Printed(223, 157, 0.85)),
    TableRow(7, "Logistic", Cell(LOGISTIC, GROUPED), Printed(322, 332, 0.77)),
    TableRow(7, "TAN", Cell(TAN, GROUPED), Printed(235, 390, 0.83)),
    TableRow(8, "Sim-Logistic", Cell(SIMILARITY, _CONCATENATED), Printed(215, 379, 0.69)),
    TableRow(8, "Conc-Logistic", Cell(LOGISTIC, _CONCATENATED), Printed(290, 99, 0.61)),
    TableRow(8, "Sub-Logistic", Cell(LOGISTIC, _SUBTRACTED), Printed(334, 45, 0.55)),
    TableRow(8, "Conc-DTree", Cell(TREE, _CONCATENATED), Printed(138, 72, 0.81)),
    TableRow(8, "Sub-DTree", Cell(TREE, _SUBTRACTED), Printed(204, 148, 0.72)),
    TableRow(8, "Con-TAN", Cell(TAN, _CONCATENATED), Printed(142, 411, 0.79)),
    TableRow(8, "Sub-TAN", Cell(TAN, _SUBTRACTED), Printed(209, 563, 0.69)),
)


def table_rows(full: Scheme) -> list[TableRow]:
    """Return `TABLE_ROWS` with the number of components of `full`, which only table 5 uses."""
    return [
        replace(row, cell=Cell(row.cell.model, replace(row.cell.scheme, components=full.components)))
        if row.cell.scheme.balance
        else row
        for row in TABLE_ROWS
    ]


def candidate_cells(models: Iterable[str], full: Scheme) -> list[Cell]:
    """Return the candidates: `models` under the `full` scheme, then plain ones, then the matrix paper's.

    Blends are under the scheme `JOINED`. Plain candidates are those of `models` in `PLAIN_MODELS`, under the
    scheme `PLAIN`. The matrix paper's are the cells of its table 5, with similarity-logistic, which is
    therefore never under `full`.
    """
    names = list(models)
    ours = [Cell(model, JOINED if model in BLENDS else full) for model in names if model != SIMILARITY]
    plain = [Cell(model, PLAIN) for model in names if model in PLAIN_MODELS]
    return [*ours, *plain, *(row.cell for row in table_rows(full) if row.table == 5)]  # noqa: PLR2004


@dataclass(frozen=True)
class Remedy:
    """A remedy: a noun phrase, the field of `Scheme`, and the matrix paper's table with it and all before."""

    words: str
    field: str
    table: int | None = None


REMEDIES = (
    Remedy("exclusion of invalid runs", "prune", 4),
    Remedy("raw metrics", "metrics", 6),
    Remedy("groups of test cases", "grouping", 7),
    Remedy("principal components", "components"),
    Remedy("tuned cost, resampling and threshold", "balance", 5),
    Remedy("contrast with the baseline", "form"),
    Remedy("tuned classifier", "tuned"),
)


@dataclass(frozen=True)
class AblationStep:
    """A row of ablation.parquet."""

    part: str
    step: int
    remedy: str
    cell: Cell
    printed: Printed | None = None

    @property
    def first_columns(self) -> dict[str, Any]:
        """The first columns of its row in ablation.parquet."""
        about = {"part": self.part, "step": self.step, "remedy": self.remedy, "model": self.cell.model}
        return about | asdict(self.cell.scheme)


#: The remedies of the matrix paper, for vectors of single runs.
SINGLE = (*REMEDIES[:-2], Remedy("comparison with baseline runs", "form"))


def add_remedies(
    model: str, full: Scheme, remedies: Sequence[Remedy] = REMEDIES, part: str = "added"
) -> Iterator[AblationStep]:
    """Yield the steps from the naive to the `full` scheme of `model`, adding one remedy at a time.

    Step 0 is the naive scheme, with the remedy "none". A remedy sets its field to the value of `full`;
    ``printed`` are the paper's figures for this remedy and model, or None. `part` names the ablation in every
    step.
    """
    taken: dict[str, Any] = {}
    yield AblationStep(part, 0, "none", Cell(model, NAIVE))
    for number, remedy in enumerate(remedies, start=1):
        taken[remedy.field] = getattr(full, remedy.field)
        rows = {row.cell.model: row.printed for row in table_rows(full) if row.table == remedy.table}
        yield AblationStep(part, number, remedy.words, Cell(model, replace(NAIVE, **taken)), rows.get(model))


def leave_out_remedies(
    model: str, full: Scheme, remedies: Sequence[Remedy] = REMEDIES, part: str = "left out"
) -> Iterator[AblationStep]:
    """Yield the `full` scheme of `model` (step 0, "none"), then the scheme without each remedy in turn.

    To leave out a remedy, its field is set to the value of the naive scheme. `part` names the ablation in
    every step.
    """
    yield AblationStep(part, 0, "none", Cell(model, full))
    for number, remedy in enumerate(remedies, start=1):
        without = replace(full, **{remedy.field: getattr(NAIVE, remedy.field)})
        yield AblationStep(part, number, remedy.words, Cell(model, without))


def single_run_steps(models: Iterable[str], full: Scheme) -> Iterator[AblationStep]:
    """Yield the steps of two ablations of vectors of single runs, with the matrix paper's remedies.

    The complete scheme is `full` with ``form="subtracted"``, ``grouping="given"`` and ``tuned=False``. In the
    first, remedies are added for each of `models`. In the second, each is left out for "logistic" only,
    because these steps take longest.
    """
    scheme = replace(full, form="subtracted", tuned=False, grouping="given")
    for model in models:
        yield from add_remedies(model, scheme, SINGLE, "single runs")
    yield from leave_out_remedies(LOGISTIC, scheme, SINGLE, "single runs, left out")


def grouping_steps(scheme: Scheme, model: str) -> Iterator[AblationStep]:
    """Yield three steps of an ablation: `model` under `scheme` with no, with given, with automatic groups."""
    for number, grouping in enumerate(("none", "given", "automatic")):
        cell = Cell(model, replace(scheme, grouping=grouping))
        yield AblationStep("grouping", number, f"{grouping} groups", cell)


def describe_scheme(scheme: Scheme) -> str:
    """Return a scheme in words, such as "summary metrics, flattened, invalid runs kept, imbalance tuned"."""
    parts = [f"{scheme.metrics} metrics", scheme.form]
    parts += [] if scheme.prune else ["invalid runs kept"]
    parts += [] if scheme.grouping == "none" else [f"{scheme.grouping} groups"]
    parts += [] if scheme.components is None else [f"at most {scheme.components} components"]
    parts += ["imbalance tuned"] if scheme.balance else []
    parts += ["classifier tuned"] if scheme.tuned else []
    return ", ".join(parts)
