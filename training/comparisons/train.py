"""Fits with the parameters chosen by the searches; stage ``train`` fits to all labelled comparisons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.parallel import side_by_side
from data.tables.parquet import read_written_table
from data.tables.specs import read_table
from training.comparisons.base_rate import TrainingScores
from training.comparisons.decision import examples_of, learn_decision, read_out_of_fold
from training.comparisons.family import Examples, Family, FeatureTable
from training.comparisons.label_review import read_training_data
from training.comparisons.stored import TEXTS, Card, ReadyModel, StoredExamples, TrainedModel
from training.comparisons.tune import Classified
from training.estimators.answering import Floats, MonotoneConstraints
from training.estimators.catalogue import CATALOGUE, build_pipeline, fail_probability, without_sampler
from training.estimators.out_of_distribution import TrainingDistribution, score_held_out_rows
from training.evaluation.search import read_tuned
from training.registry.stored import deciles_of_features

#: Largest number of examples stored with a model.
MOST = 2000
#: Number of rows to compute the importance of features from.
_WEIGHED = 400
#: Columns with the annotator; the first that exists is used.
_WHO = ("annotator", "labelled_by")


def write_examples(
    model: TrainedModel, table: FeatureTable, seen: Examples, labels: Path, directory: Path
) -> None:
    """Write examples.npz: up to 2,000 (`MOST`) labelled comparisons of `table` as nearest examples.

    The file is written to `directory`; of comparisons with equal features, it has only the first, whatever
    the labels. Each label ("pass", "fail") gets up to 1,000, or what the other leaves if it has fewer. If a
    label has more comparisons than it gets, half of those chosen are nearest to the threshold of ``fail``,
    and the others are drawn with the model's seed. They come with annotators and times from the Parquet file
    `labels` (FileNotFoundError if missing), and with the importance of the features and the distribution of
    the training rows `seen`, for the out-of-distribution score. The SHA-256 of ``model.skops`` in `directory`
    is stored, too; InputError if ``model.skops`` does not exist yet.
    """
    ready, examples = ReadyModel.from_trained(model), table.examples
    chosen = _choose_examples(ready, examples.x, examples.y)
    annotators = _label_annotators(read_written_table(labels))
    named = table.frame.iloc[chosen].merge(annotators, "left", ["comparison_id", "status"])
    columns = ("comparison_id", "benchmark", "operation", "status", "labelled_by", "labelled_at")
    # how much medians worsened in passes where one did
    passed = table.frame.loc[table.frame["status"] == "pass", "medians_min"].to_numpy(np.float64)
    worsened = passed[passed < 0] ** 2
    StoredExamples(
        **dict(zip(TEXTS, (named[name].fillna("").to_numpy(np.str_) for name in columns), strict=True)),
        rows=examples.x[chosen].astype(np.float32),
        weights=_feature_importance(ready, examples.x, model.card.seed),
        prior=np.quantile(worsened, [0.5, 0.95]) if len(worsened) else np.zeros(2),
        distribution=TrainingDistribution.from_rows(seen.x, seen.groups),
    ).write(directory)


def _choose_examples(ready: ReadyModel, rows: Floats, failed: NDArray[np.int64]) -> NDArray[np.intp]:
    """Choose at most `MOST` distinct rows, passes first; half of each label are nearest to the threshold."""
    different = np.flatnonzero(~pd.DataFrame(rows).duplicated())  # missing values are equal
    labels = [different[failed[different] == label] for label in (0, 1)]
    few = min(len(members) for members in labels)
    rooms = [max(MOST // 2, MOST - few) if len(members) > few else min(few, MOST // 2) for members in labels]
    chosen = [_of_label(ready, rows, members, room) for members, room in zip(labels, rooms, strict=True)]
    return np.concatenate(chosen)


def _of_label(ready: ReadyModel, rows: Floats, members: NDArray[np.intp], room: int) -> NDArray[np.intp]:
    """Choose `room` rows: half of them nearest to the threshold, the rest at random."""
    if len(members) <= room:
        return members
    distance = np.abs(ready.predict_probability(rows[members]) - ready.card.threshold)
    order = members[np.argsort(distance, kind="stable")]
    others = np.random.default_rng(ready.card.seed).permutation(order[room // 2 :])
    return np.sort(np.concatenate([order[: room // 2], others[: room - room // 2]]))


def _feature_importance(ready: ReadyModel, rows: Floats, seed: int) -> Floats:
    drawn = np.random.default_rng(seed).permutation(len(rows))[:_WEIGHED]
    size = np.abs(ready.predict_and_explain(rows[drawn])[1]).mean(axis=0)
    return size / size.sum() if size.sum() > 0 else np.full(len(size), 1 / len(size))


def _label_annotators(labels: pd.DataFrame) -> pd.DataFrame:
    who = next(name for name in _WHO if name in labels)
    named = labels.assign(who=labels[who].fillna("").astype(str), at=labels.get("labelled_at", pd.NaT))
    grouped = named.groupby(["comparison_id", "status"]).agg(
        labelled_by=("who", lambda names: ", ".join(sorted({*names} - {""}))), last=("at", "max")
    )
    when = grouped["last"].map(lambda at: "" if pd.isna(at) else at.isoformat(timespec="seconds"))
    return grouped.drop(columns="last").assign(labelled_at=when).reset_index()


@dataclass(frozen=True)
class Fit:
    """A model to fit to the rows of `train`, and to test on the vectors of `test`."""

    model: str
    tuned: Classified
    train: Examples
    test: NDArray[np.float64]
    seed: int
    constraints: MonotoneConstraints | None = None


def fit_pipeline(fit: Fit) -> Any:
    """Return the pipeline of ``fit.model`` with its tuned parameters, fitted to ``fit.train``.

    Its steps are those of `build_pipeline`; both labels must occur in ``fit.train``.
    """
    unfitted = build_pipeline(CATALOGUE[fit.model], fit.tuned.params, fit.train.y, fit.seed, fit.constraints)
    return unfitted.fit(fit.train.x, fit.train.y)


def fit_and_predict(fit: Fit) -> NDArray[np.float64]:
    """Fit the model of `fit` and return the uncalibrated probability of fail of every row of ``fit.test``.

    Shape (n_test,), in the order of the rows; ``fit.seed`` is the seed of the fit.
    """
    return fail_probability(fit_pipeline(fit), fit.test)


def train(family: Family) -> None:
    """Run stage train: fit all tuned models; write model, card and nearest examples of each.

    They are fitted to the extra training data, and to all labelled rows not below the minimum effect size,
    each once with and once without its history. InputError if a file of featurize or tune is missing,
    FileNotFoundError without labels.parquet.
    """
    table = family.read_features()
    examples, seed = examples_of(family, table), family.params.seed
    tuned = read_tuned(family.paths.tuned, Classified)["all"]
    learnt = read_training_data(family.features_file, table, examples).all_rows
    fits = [
        Fit(name, chosen, learnt, examples.x[:0], seed, table.constraints) for name, chosen in tuned.items()
    ]
    compute = replace(family.params.compute, jobs=1)
    pipelines = side_by_side(fit_pipeline, fits, compute, f"train {family.name}")
    how = family.section.decide
    run_spread = float(read_table(family.stage_file("runs"), {"spread": "float64"})["spread"].iloc[0])
    usual = deciles_of_features(table.columns, examples.x[examples.needs_model])
    seen = examples.all_rows
    score = score_held_out_rows(seen.x, seen.groups)
    out_of_fold = read_out_of_fold(family.paths.tuned, [("all", name) for name in tuned])
    for fit, whole, probability in zip(fits, pipelines, out_of_fold, strict=True):
        chosen = fit.tuned
        learned = learn_decision(examples, probability, chosen.threshold, how, seed)
        card = Card(
            model=fit.model,
            features=table.columns,
            threshold=learned.threshold,
            params=chosen.params,
            reference=table.reference_medians(),
            data_digest=table.digest,
            seed=seed,
            min_effect_size=how.min_effect_size or 0.0,
            usual=usual,
            calibration=learned.calibration,
            beneath=learned.beneath,
            risk_guarantee=learned.guarantee,
            cuts=learned.cuts,
            policy=learned.policy,
            run_spread=run_spread,
            out_of_distribution=score,
        )
        model = TrainedModel(without_sampler(whole), card)
        calibrated = ReadyModel.from_trained(model).calibrate_and_raise(probability, examples.x)
        masked = np.where(examples.needs_model, calibrated, 0.0)
        scores = TrainingScores.from_rows(masked, examples.y, examples.groups, card.min_effect_size)
        model = replace(model, card=replace(card, training_scores=scores))
        directory = family.paths.models / fit.model
        model.write(directory)
        write_examples(model, table, seen, family.paths.interim / "labels.parquet", directory)
