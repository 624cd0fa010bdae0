"""Count over random splits by whole operations how often risk guarantees are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import typer

from benchmarks.table import Table, publish
from data.comparisons.params import Decide
from data.comparisons.sides import Floats, Ints
from data.parallel import Compute, side_by_side
from data.paths import FamilyPaths
from features.comparisons.vectors import model_columns
from training.comparisons.decision import count_outcomes, learn_decision, read_changes
from training.comparisons.family import Examples, FeatureTable, group_folds
from training.estimators.answering import MonotoneConstraints
from training.estimators.catalogue import CATALOGUE, build_pipeline, fail_probability
from training.evaluation.calibration import calibration_error
from training.evaluation.thresholds import below_min_effect, best_cut

#: Parameters of boosted trees instead of a search: between those that searches choose for many passes.
PARAMS: Mapping[str, Mapping[str, float]] = {
    "xgboost": {
        "trees": 120,
        "rate_of_learning": 0.08,
        "child_weight": 10.0,
        "columns": 0.5,
        "subsample": 0.8,
    }
}
INNER_FOLDS = 3
#: Limits in addition to the guarantees: the false positive rate and the review rate.
POLICY = Decide(max_false_positive_rate=0.01, max_review_rate=0.05)
SPLITS = 200
#: Shares of the operations that are held out.
HELD_OUT_SHARES = (0.25, 0.5)
SHARES = (0.02, 0.05, 0.1)
GUARANTEE_COLUMNS = {
    "operations held out": ".0%", "may be missed": ".0%", "could be promised": ".1%",
    "measured at or below it": ".1%", "the same, where promised": ".1%", "missed, mean": ".2%",
    "unsure, mean where promised": ".1%", "unsure, mean where not": ".1%",
}  # fmt: skip
REVIEW_COLUMNS = {
    "operations held out": ".0%", "sent to a person": ".1%", "missed": ".2%", "false alarms": ".2%",
    "calibration error": ".4f", "of the raw probability": ".4f",
}  # fmt: skip


@dataclass(frozen=True)
class Learner:
    """A model of the catalogue with fixed parameters: its first ones, changed by `params`."""

    name: str
    monotone: MonotoneConstraints | None
    params: Mapping[str, float] = field(default_factory=dict)

    def predict(self, train: Examples, x: Floats, seed: int) -> Floats:
        model, lessons = CATALOGUE[self.name], train.training_rows
        unfitted = build_pipeline(model, {**model.start, **self.params}, lessons.y, seed, self.monotone)
        return fail_probability(unfitted.fit(lessons.x, lessons.y), x)

    def predict_out_of_fold(self, examples: Examples, folds: int, seed: int) -> Floats:
        probability = np.zeros(len(examples.y))
        for train, test in group_folds(examples, folds, seed, "inner folds"):
            probability[test] = self.predict(examples.select_rows(train), examples.x[test], seed)
        return probability

    def predict_folds(
        self, examples: Examples, folds: int, seed: int
    ) -> Iterator[tuple[Examples, Floats, Ints, Floats]]:
        """Yield by fold the training part and its out-of-fold predictions, the test rows and predictions."""
        for train, test in group_folds(examples, folds, seed, "folds"):
            inside = examples.select_rows(train)
            inner = np.where(inside.needs_model, self.predict_out_of_fold(inside, INNER_FOLDS, seed), 0.0)
            raw = self.predict(inside, examples.x[test], seed)
            yield inside, inner, test, np.where(examples.needs_model[test], raw, 0.0)


def read_labelled(root: Path, min_effect_size: float) -> tuple[FeatureTable, Examples]:
    """Read the output of the featurize stage under `root`, and flag rows below the minimum effect size."""
    place = FamilyPaths("comparisons", root).processed
    table = FeatureTable.read(place / "features.parquet", model_columns("extended"))
    below = below_min_effect(read_changes(place / "changes.parquet", table), min_effect_size)
    return table, replace(table.examples, below=below)


def evaluate_split(
    examples: Examples, learner: Learner, share: float, seed: int
) -> tuple[pd.DataFrame, list[float]]:
    """Hold out a share of the operations, fit `learner` to the others; count outcomes.

    Also returns the errors of calibrated and raw probabilities.
    """
    names = np.unique(examples.groups)
    drawn = np.random.default_rng(seed).permutation(len(names))[: int(share * len(names))]
    out = np.isin(examples.groups, names[drawn])
    inside, test = examples.select_rows(np.flatnonzero(~out)), examples.select_rows(np.flatnonzero(out))
    inner = learner.predict_out_of_fold(inside, INNER_FOLDS, seed)
    threshold = best_cut(inside.y, np.where(inside.needs_model, inner, 0.0)).threshold
    thresholds = learn_decision(inside, inner, threshold, POLICY, seed)
    raw, below = learner.predict(inside, test.x, seed), ~test.needs_model
    calibrated = thresholds.calibrate_and_discount(raw, below)
    errors = [calibration_error(test.y, np.where(below, 0.0, values)) for values in (calibrated, raw)]
    return count_outcomes(thresholds, test.y, calibrated, below).assign(split=seed), errors


def guarantee_row(counted: pd.DataFrame, held_out_share: float, share: float) -> tuple[object, ...]:
    rows = counted[(counted["kind"] == "max_false_negative_rate") & np.isclose(counted["share"], share)]
    miss_rate, made = rows["false_negatives"] / rows["fails"], rows["made"]
    is_kept, unsure = miss_rate <= share, rows["unsure"] / rows["cases"]
    means = (is_kept[made].mean(), miss_rate.mean(), unsure[made].mean(), unsure[~made].mean())
    return held_out_share, share, made.mean(), is_kept.mean(), *means


def main(root: Path = Path(), name: str = "measured", model: str = "extra-trees", jobs: int = 2) -> None:
    """Count outcomes of a model of the catalogue on the data set `name`, featurized under `root`."""
    table, examples = read_labelled(root, POLICY.min_effect_size or 0.0)
    learner = Learner(model, table.constraints, PARAMS.get(model, {}))
    kept, sent = [], []
    for held_out_share in HELD_OUT_SHARES:
        evaluate = partial(evaluate_split, examples, learner, held_out_share)
        results = side_by_side(evaluate, range(SPLITS), Compute(jobs), f"{held_out_share:.0%} held out")
        counted = pd.concat([counts for counts, _ in results], ignore_index=True)
        kept += [guarantee_row(counted, held_out_share, share) for share in SHARES]
        sums = counted[counted["kind"] == "chosen"].sum(numeric_only=True)
        parts = (("unsure", "cases"), ("false_negatives", "fails"), ("false_positives", "passes"))
        rates = (sums[part] / sums[whole] for part, whole in parts)
        sent.append((held_out_share, *rates, *np.mean([errors for _, errors in results], axis=0)))
    groups = examples.groups
    operations, failed = (len(np.unique(part)) for part in (groups, groups[examples.y == 1]))
    changed = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in learner.params.items())
    notes = f"""
    - Data set: {name}, {len(examples.y)} comparisons of {operations} operations, {examples.y.sum()} fails of
      {failed}, digest {table.digest[:12]}; {SPLITS} splits by operation, seeds from 0 on.
    - Model: {model} with {changed or "its first parameters"}; calibration, cuts and threshold are from
      {INNER_FOLDS} inner folds of the training operations. Promises are made with {POLICY.confidence:.0%}
      confidence.
    - Where a share cannot be promised, nothing passes: it is unsure or fails, and so the share is kept.
    - One of fewer than 50 fails is more than 2 %: a quarter held out, no miss at all keeps that.
    """
    limits = f"At most {POLICY.max_false_positive_rate:.0%} false alarms and {POLICY.max_review_rate:.0%}"
    pooled = "All splits pooled; errors of calibration are means over the splits."
    tables = [
        Table(f"Promises on {name}", GUARANTEE_COLUMNS, kept, notes),
        Table(f"{limits} sent to a person", REVIEW_COLUMNS, sent, [pooled]),
    ]
    publish(f"guarantees-{name}", tables)


if __name__ == "__main__":
    from benchmarks import guarantees  # noqa: PLW0406 - other processes look for its functions there

    typer.run(guarantees.main)
