"""Evaluate models, the matrix paper's tables, ablation and reference methods on held-out test cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from data.matrices.tables import Flags, Floats, MatrixTables
from data.parallel import Compute, side_by_side
from training.evaluation.metrics import summarise_entry
from training.matrices.engine.engine import Engine, FittedEngine
from training.matrices.engine.grouping import Grouping
from training.matrices.engine.judges import Alarms
from training.matrices.engine.stored import EngineRecipe
from training.matrices.fitting import (
    CellAnswers,
    EngineFit,
    FoldPart,
    MatrixExamples,
    Mistakes,
    accuracy_spread,
    add_mistakes,
    judge_all_fits,
    results_row,
)
from training.matrices.judging import judge_tables
from training.matrices.promote import rank_models
from training.matrices.schemes import (
    FOLLOWED,
    GROUPED,
    RAW,
    AblationStep,
    Cell,
    Scheme,
    TableRow,
    describe_scheme,
)

SERVED_COLUMNS = (
    *("pair_id", "workload", "group", "fold", "verdict", "probability", "status"),
    *("baseline_runs", "target_runs", "reason"),
)
#: A fold's number, training runs with flags, test runs without (prepared, and as measured), and engine.
FoldTask: TypeAlias = tuple[int, MatrixTables, MatrixTables, MatrixTables, FittedEngine | None]


def served_and_validity(
    examples: MatrixExamples,
    fold_of: pd.Series,
    recipe: EngineRecipe,
    engines: Sequence[FittedEngine | None],
    compute: Compute,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two tables: verdicts on held-out ``examples.pairs``, and counts of runs rejected as invalid.

    The first has ``pair_id, workload, group, fold, verdict, probability`` (of fail; NaN if invalid),
    ``status`` (the label, "fail" or "pass"), ``baseline_runs, target_runs`` (numbers of runs judged valid)
    and ``reason``, by ascending fold. The second has ``judge`` ("rules", "tree", or "both": either of them),
    ``fold, kind`` (of invalidity, or "unknown"; empty for valid runs), ``runs, rejected`` (counts of the runs
    that analysts flagged valid or invalid), and no row if no validity tree was trained. `fold_of` is the fold
    by test case; `engines`, in ascending order of folds, were fitted by the evaluation (None: they are fitted
    here); ValueError if their number is not that of the folds.
    """
    workload, tasks = examples.tables.runs["workload"], []
    for fold, engine in zip(sorted(fold_of.unique()), engines, strict=True):
        inside = workload.isin(fold_of.index[fold_of == fold]).to_numpy(bool)
        test = examples.tables.select_runs(inside).without_flags()
        measured = examples.measured.select_runs(inside).without_flags()
        train = examples.tables.select_runs(~inside)
        tasks.append((int(fold), train, test, measured, engine))
    judged = side_by_side(partial(judge_fold, recipe=recipe), tasks, compute, "answers of matrices")
    verdicts, rejected = zip(*judged, strict=True)
    abnormal = examples.pairs.set_index("pair_id")["abnormal"]
    served = pd.concat(verdicts, ignore_index=True)
    served = served[served["pair_id"].isin(abnormal.index)]
    status = np.where(abnormal.loc[served["pair_id"]], "fail", "pass")
    served = served.assign(status=status)[list(SERVED_COLUMNS)].reset_index(drop=True)
    return served, _validity_table(rejected, examples)


def judge_fold(task: FoldTask, *, recipe: EngineRecipe) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Train on a fold's training runs; return verdicts on its test pairs, and the validity tree's on runs.

    The engine of `task`, if any, was fitted to the training runs as `recipe` says; else it is fitted here.
    The first table has ``pair_id, workload, group, verdict, probability`` (of fail; NaN if invalid),
    ``baseline_runs, target_runs, reason, fold``, also for pairs without a label. The second has ``run_id,
    fold, tree`` (bool: whether it rejects the run), and is empty if no tree was trained.
    """
    from sklearn import config_context

    fold, train, test, measured, engine = task
    with config_context(assume_finite=True, skip_parameter_validation=True):
        trained = recipe.train(train, engine)
    verdicts = pd.DataFrame(judge_tables(trained, measured, n_attributions=0).verdicts)
    columns = [name for name in SERVED_COLUMNS if name in verdicts]
    served = verdicts[columns].astype({"probability": "float64"}).assign(fold=fold)
    if trained.validity is None:
        return served, pd.DataFrame(columns=["run_id", "fold", "tree"])
    is_invalid = [path is not None for path in trained.validity.decision_paths(test)]
    return served, test.runs[["run_id"]].assign(fold=fold, tree=is_invalid)


def served_summary(rows: pd.DataFrame) -> dict[str, Any]:
    """Return scores and counts of verdicts as a dict; a pair judged ``invalid`` counts as ``pass``.

    The keys are ``kind`` ("served"), each field of `Scores` (``balanced_accuracy`` to ``average_precision``),
    with a dict of ``mean, std`` over folds and ``pooled``, and the counts ``pairs, fails`` (by label) and
    ``invalid``. `rows` has ``fold, status, verdict, probability``; the status is the label. Average precision
    is never pooled (None), and None throughout if a probability is missing. ZeroDivisionError unless every
    fold has both labels.
    """
    counts = {
        "pairs": len(rows),
        "fails": int((rows["status"] == "fail").sum()),
        "invalid": int((rows["verdict"] == "invalid").sum()),
    }
    return summarise_entry(rows.assign(kind="served", repeat=0)) | counts


def _validity_table(tree_verdicts: Sequence[pd.DataFrame], examples: MatrixExamples) -> pd.DataFrame:
    """Return validity.parquet: runs rejected by rules, tree, or either, against the analysts' flags."""
    if not any(len(runs) for runs in tree_verdicts):
        return pd.DataFrame(columns=["judge", "fold", "kind", "runs", "rejected"])
    rules = ~examples.decisions.runs["kept"].to_numpy(bool)
    runs = examples.measured.runs[["run_id", "valid"]].assign(rules=rules)
    tree = pd.concat(tree_verdicts)
    flagged_runs = runs[runs["valid"].notna()].merge(tree, on="run_id", validate="one_to_one")
    kinds = examples.measured.causes.set_index("run_id")["invalid_kind"]
    kind = flagged_runs["run_id"].map(kinds[~kinds.index.duplicated()]).astype("str").fillna("")
    wrong = ~flagged_runs["valid"].astype(bool)
    kind = kind.mask(wrong & (kind == ""), "unknown").where(wrong, "")
    flagged_runs = flagged_runs.assign(kind=kind, both=flagged_runs["rules"] | flagged_runs["tree"])
    rows = flagged_runs.melt(["fold", "kind"], ["rules", "tree", "both"], "judge", "rejected")
    counted = rows.groupby(["judge", "fold", "kind"], sort=True)["rejected"].agg(["size", "sum"])
    return counted.reset_index().rename(columns={"size": "runs", "sum": "rejected"})


def validity_summary(table: pd.DataFrame) -> dict[str, dict[str, float | int]]:
    """Return a dict of figures for each judge of validity.parquet, sorted by name; invalid is positive.

    Its keys are ``runs, invalid, false_positive, false_negative`` (counts) and ``balanced_accuracy`` (6
    decimals; NaN unless there are valid and invalid runs).
    """
    summaries: dict[str, dict[str, float | int]] = {}
    for name, rows in table.groupby("judge", sort=True):
        wrong, numbers = rows["kind"] != "", rows[["runs", "rejected"]]
        (invalid, caught), (valid, alarms) = (numbers[flags].sum().tolist() for flags in (wrong, ~wrong))
        counts = Mistakes(invalid + valid, invalid, alarms, invalid - caught)
        named = zip(("runs", "invalid", "false_positive", "false_negative"), astuple(counts), strict=True)
        summaries[str(name)] = dict(named) | {"balanced_accuracy": round(counts.balanced_accuracy, 6)}
    return summaries


def grouping_table(examples: MatrixExamples, seed: int) -> pd.DataFrame:
    """Return a row per test case: ``workload``, given ``group``, ``automatic`` group; sorted by workload.

    Only valid runs count. Automatic groups are learned from raw metrics; a test case gets the group of most
    of its runs, the first by name of equally frequent ones.
    """
    valid = examples.tables.select_runs(examples.tables.runs["valid"].to_numpy(bool))
    grouping = Grouping.from_tables("automatic", valid, valid.raw_metrics, seed)
    groups = grouping.assign_groups(valid).runs["group"].to_numpy()
    cases = valid.runs[["workload", "group"]].assign(automatic=groups).groupby("workload")
    return cases.agg(
        group=("group", "first"), automatic=("automatic", lambda names: names.mode().iloc[0])
    ).reset_index()


def group_agreement(table: pd.DataFrame) -> dict[str, float | int]:
    """Return a dict: how many groups are ``given`` and ``automatic``, and their index ``adjusted_rand``.

    `table` has ``group`` and ``automatic`` by test case, as `grouping_table` returns them.
    """
    from sklearn.metrics import adjusted_rand_score

    return {
        "given": int(table["group"].nunique()),
        "automatic": int(table["automatic"].nunique()),
        "adjusted_rand": round(float(adjusted_rand_score(table["group"], table["automatic"])), 6),
    }


SIGMAS = 3.0
#: A standard deviation or a difference below this share of the mean is a rounding error.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class ReferenceMethod:
    """A reference method: a score by ``pair_id``, and the least score of an abnormal pair.

    The threshold has the highest balanced accuracy on the same pairs that it is scored on, which favours the
    reference method.
    """

    name: str
    score: pd.Series
    threshold: float


def reference_methods(tables: MatrixTables, abnormal: pd.Series) -> list[ReferenceMethod]:
    """Return four reference methods, each with its best threshold on the pairs in `abnormal`.

    Each has ``name``, ``score`` (by ``pair_id``) and ``threshold``. ``largest z`` is the largest absolute
    z-score of a raw metric, ``metrics beyond 3 sigma`` the number of raw metrics above 3; then both with
    ``, pooled noise`` in the name. See `raw_zscores`; a standard deviation of few runs is unreliable.
    `tables` has valid runs only. `abnormal` is the truth by ``pair_id``; a pair without a score has 0.
    """
    methods = []
    for suffix, pooled in (("", False), (", pooled noise", True)):
        scores = raw_zscores(tables, pooled=pooled).reindex(abnormal.index)
        for name, score in (
            (f"largest z{suffix}", scores.max(axis="columns")),
            (f"metrics beyond 3 sigma{suffix}", (scores > SIGMAS).sum(axis="columns").astype("float64")),
        ):
            filled_score = score.fillna(0.0)
            cut = best_threshold(abnormal.to_numpy(bool), filled_score.to_numpy(np.float64))
            methods.append(ReferenceMethod(name, filled_score, cut))
    return methods


def raw_zscores(tables: MatrixTables, *, pooled: bool) -> pd.DataFrame:
    """Return the absolute z-score of every raw metric: a row per ``pair_id``, sorted, a column per metric.

    It is the difference of the means of both sides' runs in sample standard deviations of the baseline;
    `pooled`: the variance is averaged over the baselines of the workload group. Infinite where the baseline
    does not vary and the target differs, 0 where both are equal (to 1e-9 of the mean); NaN where a side was
    not measured or no variance is known.
    """
    runs, metrics = tables.runs, tables.raw_metrics
    sides = runs.groupby(["pair_id", "side"], sort=False)[metrics]
    mean, variance = (frame.unstack("side") for frame in (sides.mean(), sides.var()))
    baseline, target = (mean.xs(side, axis="columns", level="side") for side in ("baseline", "target"))
    spread = variance.xs("baseline", axis="columns", level="side")
    if pooled:
        group = runs.groupby("pair_id", sort=False)["group"].first().reindex(spread.index)
        spread = spread.groupby(group).transform("mean")
    deviation = np.sqrt(spread)
    deviation = deviation.mask(deviation <= _ROUNDING * baseline.abs(), 0.0)
    difference = (target - baseline).abs()
    difference = difference.mask(difference <= _ROUNDING * baseline.abs(), 0.0)
    return (difference / deviation).mask((deviation == 0) & (difference == 0), 0.0)[metrics]


def best_threshold(abnormal: Flags, score: Floats) -> float:
    """Return the score with the highest balanced accuracy as a threshold, the highest of equally good ones.

    Scores at or above it are abnormal. Both arrays have shape (n_pairs,); both classes must occur.
    """
    cuts = np.unique(score)[::-1]
    judged = score[:, None] >= cuts
    accuracy = judged[abnormal].mean(axis=0) - judged[~abnormal].mean(axis=0)
    return float(cuts[accuracy.argmax()])


COST, UNDERSAMPLING, DIMENSION = 4, 5, 6
#: Cost of a missed abnormal vector, in false alarms.
COST_RATIOS = (1.0, 3.0, 10.0, 30.0, 100.0)
#: Number of points, from all normal vectors to as many as there are abnormal ones.
RATES = 4
#: Numbers of principal components; the metrics without projection come last.
DIMENSIONS = (5, 10, 25, 50, 100)


def curves_and_times(evaluation: Evaluation, folds: list[FoldPart]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table of balanced accuracy by one varied parameter, and a table of fit times.

    The first (figures 4 to 6 of the matrix paper) has ``figure, model, grouping, x, folds,
    balanced_accuracy`` (of all folds' vectors) and ``spread`` (population standard deviation over folds);
    ``x`` is the cost of a missed abnormal vector in false alarms (4), normal training vectors per abnormal
    one (5), or the number of dimensions (6; the largest is that of raw metrics, without projection). The
    second (figure 7) has ``model, dimensions, seconds`` (mean time of a fit). ZeroDivisionError if no valid
    training run of the first fold is abnormal.
    """
    train, seed = folds[0].train, evaluation.seed
    valid = train.runs[train.runs["valid"]]
    abnormal = int(valid["abnormal"].fillna(value=False).sum())
    settings = list(_curve_settings((len(valid) - abnormal) / abnormal, len(train.raw_metrics)))
    points = [
        (figure, x, EngineFit(Engine(Cell(model, scheme), 0, seed, fixed), part))
        for part in folds
        for model in FOLLOWED
        for figure, x, scheme, fixed in settings
    ]
    fitted = judge_all_fits([fit for _, _, fit in points], evaluation.compute, "figures of matrices")
    keys = ["figure", "model", "grouping", "x"]
    rows = pd.DataFrame(
        (figure, fit.engine.cell.model, fit.engine.cell.scheme.grouping, x, answers.vectors, answers.seconds)
        for (figure, x, fit), answers in zip(points, fitted, strict=True)
    ).set_axis([*keys, "counts", "seconds"], axis="columns")
    curves = []
    for key, of_folds in rows.groupby(keys, sort=True):
        counts, about = list(of_folds["counts"]), dict(zip(keys, key, strict=True))
        accuracy = add_mistakes(counts).balanced_accuracy
        scores = {"balanced_accuracy": accuracy, "spread": accuracy_spread(counts)}
        curves.append({**about, "folds": len(counts), **scores})
    timed = rows[rows["figure"] == DIMENSION].astype({"x": "int64"}).rename(columns={"x": "dimensions"})
    times = timed.groupby(["model", "dimensions"], as_index=False)["seconds"].mean()
    return pd.DataFrame(curves), times


def _curve_settings(
    ratio: float, columns: int
) -> Iterator[tuple[int, float, Scheme, dict[str, float | str]]]:
    for x in COST_RATIOS:
        yield COST, x, RAW, {"cost_ratio": x}
    for scheme in (RAW, GROUPED):
        for x in np.geomspace(ratio, 1.0, RATES):
            yield UNDERSAMPLING, float(x), scheme, {"sampler": "under", "rate": 1 / float(x)}
    for count in DIMENSIONS:
        if count < columns:
            yield DIMENSION, float(count), replace(RAW, components=count), {"components": count}
    yield DIMENSION, float(columns), RAW, {}


@dataclass
class Evaluation:
    """Results of cells on held-out test cases; each cell is fitted once.

    `parts` are the folds; `trials` is the number of search trials per fit; `alarms` is the guarantee for
    cells that are tuned; `answers_by_cell` stores the results.
    """

    examples: MatrixExamples
    split: str
    parts: Sequence[FoldPart]
    trials: int
    seed: int
    compute: Compute
    alarms: Alarms | None = None
    answers_by_cell: dict[Cell, list[CellAnswers]] = field(default_factory=dict)

    def fit_cells(self, cells: Iterable[Cell], title: str) -> None:
        """Fit those `cells` that are not fitted yet, in every fold, and store the results."""
        new = [cell for cell in dict.fromkeys(cells) if cell not in self.answers_by_cell]
        engines = [
            Engine(cell, self.trials, self.seed, alarms=self.alarms if cell.scheme.tuned else None)
            for cell in new
        ]
        fits = [EngineFit(engine, part) for engine in engines for part in self.parts]
        answers = iter(judge_all_fits(fits, self.compute, f"{title} of matrices"))
        self.answers_by_cell |= {cell: [next(answers) for _ in self.parts] for cell in new}

    def on_first_folds(self, folds: int) -> Evaluation:
        """Return a copy with the first `folds` folds, and the results of fitted cells there."""
        answers = {cell: answers[:folds] for cell, answers in self.answers_by_cell.items()}
        return replace(self, parts=self.parts[:folds], answers_by_cell=answers)

    @property
    def abnormal_pairs(self) -> pd.Series:
        """Whether each pair is abnormal, by ``pair_id``."""
        return self.examples.pairs.set_index("pair_id")["abnormal"]

    def results_table(self, rows: Iterable[TableRow] | Iterable[AblationStep]) -> pd.DataFrame:
        """Return tables.parquet or ablation.parquet, a row per entry of `rows`, whose cells must be fitted.

        Columns of optional numbers are floats even where all are missing.
        """
        truth = self.abnormal_pairs
        table = pd.DataFrame(
            entry.first_columns | results_row(self.answers_by_cell[entry.cell], truth, entry.printed)
            for entry in rows
        )
        numbers = [name for name in table if name.startswith("seed_") or name == "components"]
        return table.astype(dict.fromkeys(numbers, "float64"))

    def oof_table(self, cells: Iterable[Cell]) -> pd.DataFrame:
        """Return oof.parquet: verdicts of fitted `cells` and reference methods on every held-out pair.

        The columns are `OOF_COLUMNS`.
        """
        verdicts = []
        for cell in cells:
            scheme = describe_scheme(cell.scheme)
            about = {"entry": cell.entry_name, "kind": "model", "scheme": scheme, "model": cell.model}
            verdicts += [fold.pairs.assign(fold=fold.fold, **about) for fold in self.answers_by_cell[cell]]
        of_parts = [part.test.runs["pair_id"].drop_duplicates() for part in self.parts]
        folds = np.repeat([part.fold for part in self.parts], [len(pairs) for pairs in of_parts])
        fold_of = pd.Series(folds, pd.Index(pd.concat(of_parts), name="pair_id"))
        truth = self.abnormal_pairs
        truth = truth[truth.index.isin(fold_of.index)]
        for method in reference_methods(self.examples.runs_to_judge(fold_of.index), truth):
            score = method.score
            rows = pd.DataFrame({"pair_id": score.index, "fold": fold_of.loc[score.index].to_numpy()})
            about = {"entry": method.name, "kind": "opponent", "scheme": "", "model": "", "group_used": ""}
            judged = (score >= method.threshold).to_numpy()
            rows = rows.assign(**about, probability=np.nan, threshold=method.threshold, judged=judged)
            verdicts.append(rows)
        measured = self.examples.measured
        caused = measured.causes[measured.causes["cause"].fillna("") != ""]
        of_runs = caused.merge(measured.runs[["run_id", "pair_id"]], on="run_id", validate="many_to_one")
        causes = of_runs.drop_duplicates("pair_id")[["pair_id", "cause", "cause_size"]]
        labelled = self.examples.pairs.merge(causes, on="pair_id", how="left", validate="one_to_one")
        rows = pd.concat(verdicts, ignore_index=True)
        rows = rows.merge(labelled, on="pair_id", validate="many_to_one")
        verdict, status = (np.where(rows[name], "fail", "pass") for name in ("judged", "abnormal"))
        cause = rows["cause"].fillna("")
        rows = rows.assign(split=self.split, repeat=0, verdict=verdict, status=status, cause=cause)
        return rows[list(OOF_COLUMNS)]


OOF_COLUMNS = (
    *("pair_id", "workload", "group", "split", "repeat", "fold", "entry", "kind", "scheme", "model"),
    *("group_used", "probability", "threshold", "verdict", "status", "cause", "cause_size"),
)


def summarise_selection(oof: pd.DataFrame) -> dict[str, Any]:
    """Return the scores of a selection: each fold is judged by the model that is best on the other folds.

    The champion is the best of many models on the same pairs that its figures come from, which are therefore
    optimistic. Here, no fold takes part in choosing the model that it scores. The best model is the first of
    `rank_models`. `oof` has the columns of oof.parquet, for one split of at least two folds; entries
    that are not models are ignored. The result has ``kind`` ("selection"), and for each field of `Scores`
    (``balanced_accuracy`` to ``average_precision``) a dict of ``mean, std`` (over folds) and ``pooled`` (None
    for average precision). ZeroDivisionError unless every fold has both labels.
    """
    models = oof[oof["kind"] == "model"]
    chosen = []
    for fold in sorted(models["fold"].unique()):
        others = models[models["fold"] != fold]
        summaries = {str(name): summarise_entry(rows) for name, rows in others.groupby("entry", sort=True)}
        chosen.append(models[(models["fold"] == fold) & (models["entry"] == rank_models([summaries])[0])])
    return summarise_entry(pd.concat(chosen).assign(kind="selection"))
