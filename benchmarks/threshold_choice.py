"""Ways to choose a threshold inside of the training part, beside the best threshold on held-out groups.

The public data are SAP HANA's without the third that `benchmarks.transfer` keeps back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.guarantees import Learner, read_labelled
from benchmarks.sap_hana import read_series
from benchmarks.table import SEED, SHARED, Table, publish
from benchmarks.transfer import Labelled, Part
from data.comparisons.params import Comparisons
from data.comparisons.sides import Floats, Ints
from data.params import load
from training.comparisons.family import Examples
from training.evaluation.calibration import learn_calibration, log_odds
from training.evaluation.thresholds import best_cut

FOLDS, SEEDS = 5, range(SEED, SEED + 20)
MODELS = ("xgboost", "logistic")
#: A function of labels, out-of-fold probabilities and groups of the training part that returns a threshold.
Choice = Callable[[Ints, Floats, NDArray[np.object_]], float]


def highest(y: Ints, probability: Floats, _: NDArray[np.object_], width: float = 0.0) -> float:
    """Return the probability with the highest balanced accuracy, or, with a width, its kernel estimate.

    `width` is the standard deviation of the normal kernel, in log-odds.
    """
    from scipy.stats import norm

    # without a kernel, one of the fails' probabilities is best
    values = np.unique(np.r_[probability[y == 1], 1 / (1 + np.exp(-np.linspace(-7, 7, 141)))])
    odds, tried = log_odds(probability), log_odds(values)
    beyond = odds[None, :] - tried[:, None]
    share = norm.cdf(beyond / width) if width else (beyond >= 0).astype(float)
    balanced = (share[:, y == 1].mean(axis=1) + 1 - share[:, y == 0].mean(axis=1)) / 2
    return float(values[balanced.argmax()])


def by_base_rate(y: Ints, probability: Floats, groups: NDArray[np.object_]) -> float:
    calibrated = learn_calibration(y, probability, groups).map_probability(probability)
    return float(probability[calibrated >= y.mean()].min(initial=1.0))


CHOICES: dict[str, Choice] = {
    "middle of the plateau (shipped)": lambda y, probability, _: best_cut(y, probability).threshold,
    "highest inside": highest,
    "smoothed, width 0.25": partial(highest, width=0.25),
    "smoothed, width 0.5": partial(highest, width=0.5),
    "smoothed, width 1": partial(highest, width=1.0),
    "calibrated, at the share of fails": by_base_rate,
}


def score_seed(examples: Examples, learner: Learner, seed: int) -> list[float]:
    """Return the balanced accuracy of each choice, and last that at the best threshold, pooled over folds."""
    probability = np.zeros(len(examples.y))
    failed = np.zeros((len(CHOICES), len(examples.y)), bool)
    for inside, inner, test, judged in learner.predict_folds(examples, FOLDS, seed):
        probability[test] = judged
        for number, choose in enumerate(CHOICES.values()):
            failed[number, test] = judged >= choose(inside.y, inner, inside.groups)
    is_fail = examples.y == 1
    balanced = (failed[:, is_fail].mean(axis=1) + 1 - failed[:, ~is_fail].mean(axis=1)) / 2
    return [*balanced.tolist(), best_cut(examples.y, probability).balanced_accuracy]


def main(shared: Path = SHARED) -> None:
    """Compare ways to choose a threshold on whole operations, with 20 seeds of folds and models."""
    rows: list[tuple[object, ...]] = []
    labelled = Labelled.from_tables(read_series(shared / "sap-hana"))
    known, _ = Part(shared).split_rows(labelled.table.frame["operation"])
    shipped, shipped_examples = read_labelled(Path(), load(Comparisons).section.decide.min_effect_size or 0.0)
    for name, table, examples in (
        ("SAP HANA, without the kept-back third", labelled.table, labelled.select_rows(known).examples),
        ("shipped measurement", shipped, shipped_examples),
    ):
        for model in MODELS:
            learner = Learner(model, table.constraints)
            scores = np.array([score_seed(examples, learner, seed) for seed in SEEDS])
            for choice, score in zip([*CHOICES, "best on the held-out operations"], scores.T, strict=True):
                gain, lost = score - scores[:, 0], (scores[:, -1] - score).mean()
                cells = f"{score.mean():.4f} ± {score.std():.4f}", f"{gain.mean():+.4f} ± {gain.std():.4f}"
                rows.append((name, model, choice, *cells, f"{lost:.4f}"))
    columns = ("data", "model", "threshold", "balanced accuracy", "more than shipped", "less than the best")
    notes = """
    - Thresholds come from out-of-fold predictions inside of the training part: 3 inner folds of whole
      operations.
    - Balanced accuracy of the pooled verdicts on 5 folds of whole operations; mean and standard deviation
      over 20 seeds.
    - Width: standard deviation of a normal kernel on log-odds. The best threshold is known only afterwards.
    - Models with the first parameters of the catalogue.
    """
    publish("threshold-choice", [Table("Choice of the threshold", dict.fromkeys(columns, ""), rows, notes)])


if __name__ == "__main__":
    typer.run(main)
