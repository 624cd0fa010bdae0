"""Count over random splits by whole operations how often risk guarantees are kept.

Run it with ``python -m benchmarks.guarantees`` after the featurize stage; it writes
``docs/results/guarantees-<name>.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.table import Table, publish
from data.comparisons.params import Decide
from data.parallel import Compute, side_by_side
from data.paths import FamilyPaths
from features.comparisons.vectors import model_columns
from training.comparisons.decision import InnerPredictions, count_outcomes, learn_decision, read_changes
from training.comparisons.family import Examples, FeatureTable, group_folds
from training.estimators.answering import MonotoneConstraints
from training.estimators.catalogue import CATALOGUE, build_pipeline, fail_probability
from training.evaluation.calibration import calibration_error
from training.evaluation.thresholds import below_min_effect, best_cut

Floats = NDArray[np.float64]
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


@dataclass(frozen=True)
class Labelled:
    """Labelled vectors, and flags of those below the minimum effect size."""

    examples: Examples
    below: NDArray[np.bool_]
    monotone: MonotoneConstraints | None
    digest: str

    @classmethod
    def read(cls, root: Path, min_effect_size: float) -> Labelled:
        """Read the output of the featurize stage under `root`."""
        place = FamilyPaths("comparisons", root).processed
        table = FeatureTable.read(place / "features.parquet", model_columns("extended"))
        below = below_min_effect(read_changes(place / "changes.parquet", table), min_effect_size)
        return cls(replace(table.examples, below=below), below, table.constraints, table.digest)


@dataclass(frozen=True)
class SplitResult:
    """The result of one split: counts of outcomes, and the errors of calibrated and raw probabilities."""

    counted: pd.DataFrame
    calibration_error: float
    raw_error: float


def evaluate_split(labelled: Labelled, share: float, model: str, seed: int) -> SplitResult:
    """Hold out a share of the operations at random, fit `model` to the others and count outcomes."""
    examples = labelled.examples
    names = np.unique(examples.groups)
    drawn = np.random.default_rng(seed).permutation(len(names))[: int(share * len(names))]
    out = np.isin(examples.groups, names[drawn])
    train, test = np.flatnonzero(~out), np.flatnonzero(out)
    inside = examples.select_rows(train)
    inner = np.zeros(len(train))
    for fitted_on, validation in group_folds(inside, INNER_FOLDS, seed, "inner folds"):
        inner[validation] = _fit_and_predict(
            labelled, model, inside.select_rows(fitted_on), inside.x[validation], seed
        )
    inner_rows = InnerPredictions(inside.y, inside.groups, inner, labelled.below[train])
    thresholds = learn_decision(
        inner_rows, best_cut(inside.y, np.where(inside.needs_model, inner, 0.0)).threshold, POLICY, seed
    )
    raw = _fit_and_predict(labelled, model, inside, examples.x[test], seed)
    below, y = labelled.below[test], examples.y[test]
    calibrated = thresholds.calibrate_and_discount(raw, below)
    errors = (calibration_error(y, np.where(below, 0.0, probability)) for probability in (calibrated, raw))
    return SplitResult(count_outcomes(thresholds, y, calibrated, below).assign(split=seed), *errors)


def _fit_and_predict(labelled: Labelled, name: str, examples: Examples, x_test: Floats, seed: int) -> Floats:
    model, lessons = CATALOGUE[name], examples.training_rows
    unfitted = build_pipeline(
        model, {**model.start, **PARAMS.get(name, {})}, lessons.y, seed, labelled.monotone
    )
    return fail_probability(unfitted.fit(lessons.x, lessons.y), x_test)


SPLITS = 200
#: Shares of the operations that are held out.
HELD_OUT_SHARES = (0.25, 0.5)
SHARES = (0.02, 0.05, 0.1)
GUARANTEE_COLUMNS = {
    "operations held out": ".0%",
    "may be missed": ".0%",
    "could be promised": ".1%",
    "measured at or below it": ".1%",
    "the same, where promised": ".1%",
    "missed, mean": ".2%",
    "unsure, mean where promised": ".1%",
    "unsure, mean where not": ".1%",
}
REVIEW_COLUMNS = {
    "operations held out": ".0%",
    "sent to a person": ".1%",
    "missed": ".2%",
    "false alarms": ".2%",
    "calibration error": ".4f",
    "of the raw probability": ".4f",
}


def _guarantee_rows(counted: pd.DataFrame, held_out_share: float) -> list[tuple[object, ...]]:
    """Return the rows of the table with the columns `PROMISES`."""
    rows: list[tuple[object, ...]] = []
    for share in SHARES:
        share_rows = counted[
            (counted["kind"] == "max_false_negative_rate") & np.isclose(counted["share"], share)
        ]
        false_negative_rate, made, unsure = (
            share_rows["false_negatives"] / share_rows["fails"],
            share_rows["made"],
            share_rows["unsure"] / share_rows["cases"],
        )
        is_kept = false_negative_rate <= share
        means = (is_kept[made].mean(), false_negative_rate.mean(), unsure[made].mean(), unsure[~made].mean())
        rows.append((held_out_share, share, made.mean(), is_kept.mean(), *means))
    return rows


def _review_row(
    counted: pd.DataFrame, held_out_share: float, errors: tuple[float, float]
) -> tuple[object, ...]:
    """Return the row of the table with the columns `SENT`, all splits pooled."""
    sums = counted[counted["kind"] == "chosen"].sum(numeric_only=True)
    parts = (("unsure", "cases"), ("false_negatives", "fails"), ("false_positives", "passes"))
    return (held_out_share, *(sums[name] / sums[whole] for name, whole in parts), *errors)


def _page_tables(labelled: Labelled, name: str, model: str, jobs: int) -> list[Table]:
    risk_guarantees, sent = [], []
    for held_out_share in HELD_OUT_SHARES:
        became = side_by_side(
            partial(evaluate_split, labelled, held_out_share, model),
            range(SPLITS),
            Compute(jobs),
            f"{held_out_share:.0%} held out",
        )
        counted = pd.concat([result.counted for result in became], ignore_index=True)
        risk_guarantees += _guarantee_rows(counted, held_out_share)
        errors = np.mean([(result.calibration_error, result.raw_error) for result in became], axis=0)
        sent.append(_review_row(counted, held_out_share, (float(errors[0]), float(errors[1]))))
    limits = (
        f"At most {POLICY.max_false_positive_rate:.0%} false alarms and {POLICY.max_review_rate:.0%} "
        "sent to a person"
    )
    pooled = "All splits pooled; errors of calibration are means over the splits."
    return [
        Table(f"Promises on {name}", GUARANTEE_COLUMNS, risk_guarantees, _notes(labelled, name, model)),
        Table(limits, REVIEW_COLUMNS, sent, [pooled]),
    ]


def _notes(labelled: Labelled, name: str, model: str) -> list[str]:
    examples = labelled.examples
    operations, failed = (
        len(np.unique(groups)) for groups in (examples.groups, examples.groups[examples.y == 1])
    )
    data = (
        f"Data set: {name}, {len(examples.y)} comparisons of {operations} operations, {examples.y.sum()} "
        f"fails of {failed}, digest {labelled.digest[:12]}; {SPLITS} splits by operation, seeds from 0 on."
    )
    model_note = (
        f"Model: {model}{_describe_params(model)}; calibration, cuts and "
        f"threshold are from {INNER_FOLDS} inner folds of the training operations. "
        f"Promises are made with {POLICY.confidence:.0%} confidence."
    )
    rest = (
        "Where a share cannot be promised, nothing passes: it is unsure or fails, and so the share is kept."
    )
    few_fails_note = (
        "One of fewer than 50 fails is more than 2 %: a quarter held out, no miss at all keeps that."
    )
    return [data, model_note, rest, few_fails_note]


def _describe_params(model: str) -> str:
    changed = PARAMS.get(model, {})
    named = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in changed.items())
    return f" with {named}" if named else " with its first parameters"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.guarantees")
    parser.add_argument("--root", type=Path, default=Path(), help="where featurize ran")
    parser.add_argument("--name", default="measured", help="of the data set")
    parser.add_argument("--model", default="extra-trees", help="of the catalogue")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    labelled = Labelled.read(options.root, POLICY.min_effect_size or 0.0)
    publish(f"guarantees-{options.name}", _page_tables(labelled, options.name, options.model, options.jobs))


if __name__ == "__main__":
    from benchmarks import guarantees  # noqa: PLW0406 - other processes look for its functions there

    guarantees.main()
