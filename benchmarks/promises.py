"""Count over random splits by whole operations how often risk guarantees are kept.

Run it with ``python -m benchmarks.promises`` after the featurize stage; it writes
``docs/results/promises-<name>.md``.
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
from data.paths import Places
from features.comparisons.vectors import columns
from training.comparisons.decision import HeldRows, decision, outcomes, read_changes
from training.comparisons.family import Examples, FeatureTable, group_folds
from training.estimators.answering import Guide
from training.estimators.catalogue import CATALOGUE, fail_probability, pipeline
from training.evaluation.calibration import calibration_error
from training.evaluation.thresholds import below_floor, best_cut

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
ASKED = Decide(false_alarms=0.01, looks=0.05)


@dataclass(frozen=True)
class Labelled:
    """Labelled vectors, and flags of those below the minimum effect size."""

    examples: Examples
    below: NDArray[np.bool_]
    guide: Guide | None
    digest: str

    @classmethod
    def read(cls, root: Path, floor: float) -> Labelled:
        """Read the output of the featurize stage under `root`."""
        place = Places("comparisons", root).processed
        table = FeatureTable.read(place / "features.parquet", columns("extended"))
        below = below_floor(read_changes(place / "changes.parquet", table), floor)
        return cls(replace(table.examples, below=below), below, table.guide, table.digest)


@dataclass(frozen=True)
class Became:
    """The result of one split: counts of outcomes, and the errors of calibrated and raw probabilities."""

    counted: pd.DataFrame
    calibration_error: float
    raw_error: float


def split(labelled: Labelled, share: float, model: str, seed: int) -> Became:
    """Hold out a share of the operations at random, fit `model` to the others and count outcomes."""
    examples = labelled.examples
    names = np.unique(examples.groups)
    drawn = np.random.default_rng(seed).permutation(len(names))[: int(share * len(names))]
    out = np.isin(examples.groups, names[drawn])
    train, test = np.flatnonzero(~out), np.flatnonzero(out)
    inside = examples.rows(train)
    inner = np.zeros(len(train))
    for fitted_on, asked in group_folds(inside, INNER_FOLDS, seed, "inner folds"):
        inner[asked] = _said(labelled, model, inside.rows(fitted_on), inside.x[asked], seed)
    held = HeldRows(inside.y, inside.groups, inner, labelled.below[train])
    found = decision(held, best_cut(inside.y, np.where(inside.asked, inner, 0.0)).threshold, ASKED, seed)
    raw = _said(labelled, model, inside, examples.x[test], seed)
    below, y = labelled.below[test], examples.y[test]
    told = found.told(raw, below)
    errors = (calibration_error(y, np.where(below, 0.0, one)) for one in (told, raw))
    return Became(outcomes(found, y, told, below).assign(split=seed), *errors)


def _said(labelled: Labelled, name: str, examples: Examples, asked: Floats, seed: int) -> Floats:
    model, lessons = CATALOGUE[name], examples.lessons
    unfitted = pipeline(model, {**model.start, **PARAMS.get(name, {})}, lessons.y, seed, labelled.guide)
    return fail_probability(unfitted.fit(lessons.x, lessons.y), asked)


SPLITS = 200
#: Shares of the operations that are held out.
HELD = (0.25, 0.5)
SHARES = (0.02, 0.05, 0.1)
PROMISES = {
    "operations held out": ".0%",
    "may be missed": ".0%",
    "could be promised": ".1%",
    "measured at or below it": ".1%",
    "the same, where promised": ".1%",
    "missed, mean": ".2%",
    "unsure, mean where promised": ".1%",
    "unsure, mean where not": ".1%",
}
SENT = {
    "operations held out": ".0%",
    "sent to a person": ".1%",
    "missed": ".2%",
    "false alarms": ".2%",
    "calibration error": ".4f",
    "of the raw probability": ".4f",
}


def _promises(counted: pd.DataFrame, held: float) -> list[tuple[object, ...]]:
    """Return the rows of the table with the columns `PROMISES`."""
    rows: list[tuple[object, ...]] = []
    for share in SHARES:
        own = counted[(counted["kind"] == "missed") & np.isclose(counted["share"], share)]
        missed, made, unsure = own["missed"] / own["fails"], own["made"], own["unsure"] / own["cases"]
        kept = missed <= share
        where = (kept[made].mean(), missed.mean(), unsure[made].mean(), unsure[~made].mean())
        rows.append((held, share, made.mean(), kept.mean(), *where))
    return rows


def _sent(counted: pd.DataFrame, held: float, errors: tuple[float, float]) -> tuple[object, ...]:
    """Return the row of the table with the columns `SENT`, all splits pooled."""
    sums = counted[counted["kind"] == "chosen"].sum(numeric_only=True)
    parts = (("unsure", "cases"), ("missed", "fails"), ("false_alarms", "passes"))
    return (held, *(sums[name] / sums[whole] for name, whole in parts), *errors)


def _tables(labelled: Labelled, name: str, model: str, jobs: int) -> list[Table]:
    promises, sent = [], []
    for held in HELD:
        became = side_by_side(
            partial(split, labelled, held, model), range(SPLITS), Compute(jobs), f"{held:.0%} held out"
        )
        counted = pd.concat([each.counted for each in became], ignore_index=True)
        promises += _promises(counted, held)
        errors = np.mean([(each.calibration_error, each.raw_error) for each in became], axis=0)
        sent.append(_sent(counted, held, (float(errors[0]), float(errors[1]))))
    limits = f"At most {ASKED.false_alarms:.0%} false alarms and {ASKED.looks:.0%} sent to a person"
    pooled = "All splits pooled; errors of calibration are means over the splits."
    return [
        Table(f"Promises on {name}", PROMISES, promises, _notes(labelled, name, model)),
        Table(limits, SENT, sent, [pooled]),
    ]


def _notes(labelled: Labelled, name: str, model: str) -> list[str]:
    examples = labelled.examples
    operations, failed = (len(np.unique(one)) for one in (examples.groups, examples.groups[examples.y == 1]))
    data = (
        f"Data set: {name}, {len(examples.y)} comparisons of {operations} operations, {examples.y.sum()} "
        f"fails of {failed}, digest {labelled.digest[:12]}; {SPLITS} splits by operation, seeds from 0 on."
    )
    told = (
        f"Model: {model}{_params(model)}; calibration, cuts and "
        f"threshold are from {INNER_FOLDS} inner folds of the training operations. "
        f"Promises are made with {ASKED.confidence:.0%} confidence."
    )
    rest = (
        "Where a share cannot be promised, nothing passes: it is unsure or fails, and so the share is kept."
    )
    own = "One of fewer than 50 fails is more than 2 %: a quarter held out, no miss at all keeps that."
    return [data, told, rest, own]


def _params(model: str) -> str:
    given = PARAMS.get(model, {})
    named = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in given.items())
    return f" with {named}" if named else " with its first parameters"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.promises")
    parser.add_argument("--root", type=Path, default=Path(), help="where featurize ran")
    parser.add_argument("--name", default="measured", help="of the data set")
    parser.add_argument("--model", default="extra-trees", help="of the catalogue")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    labelled = Labelled.read(given.root, ASKED.floor or 0.0)
    publish(f"promises-{given.name}", _tables(labelled, given.name, given.model, given.jobs))


if __name__ == "__main__":
    from benchmarks import promises  # noqa: PLW0406 - other processes look for its functions there

    promises.main()
