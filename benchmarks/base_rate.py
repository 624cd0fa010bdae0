"""Base rates estimated without labels, and verdicts corrected for them: ``python -m benchmarks.base_rate``.

It reads SAP HANA's public series, divided at random; their labels only score the results. Choices were made
on the first half, which ``--part choose`` prints; ``docs/results/base-rate.md`` has the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.sap_hana import SAP_HANA, champion_name, read_labelled, verdict_figures
from benchmarks.table import SEED, Table, publish
from data.comparisons.sides import Floats, Sides
from data.paths import FamilyPaths
from training.comparisons.base_rate import BaseRate, TrainingScores, estimate_base_rate
from training.comparisons.stored import ReadyModel
from training.evaluation.calibration import calibration_error

Flags = NDArray[np.bool_]
Part = Literal["choose", "report"]
PARTS = get_args(Part)
SIZES, RATES, STREAMS = (200, 1000, 5000), (0.005, 0.01, 0.02, 0.05, 0.1, 0.4), 100
VERDICTS = {
    "base rate": "", "share of regressions": ".2%", "calibration error": ".3f", "balanced accuracy": ".3f",
    "average precision": ".3f", "unsure": ".1%", "missed": ".1%", "false alarms": ".2%",
}  # fmt: skip
SIMULATED = {
    "comparisons": "", "number": ",d", "true share": ".1%", "mean estimate": ".2%", "black box": ".2%",
    "interval holds": ".0%", "median width": ".2%", "assumption rejected": ".0%",
}  # fmt: skip


def verdict_rows(model: ReadyModel, sides: Sides, failed: Flags, estimate: BaseRate) -> list[list[object]]:
    """Return rows of the table of verdicts: at the base rate of training, the estimated and the true one."""
    card, probability, rows = model.card, model.predict_uncleaned(sides), []
    true, trained = float(failed.mean()), float(np.mean(card.require_scores().failed))
    for name, rate, moved in (
        ("of the training data", trained, card),
        ("estimated", estimate.rate, card.at_base_rate(estimate.rate, probability)),
        ("given: the true one", true, card.at_base_rate(true, probability)),
    ):
        figures = verdict_figures(replace(model, card=moved), sides, failed)
        figures["calibration"] = calibration_error(failed.astype(np.int64), figures["probability"])
        names = ("calibration", "balanced_accuracy", "average_precision", "unsure", "missed", "alarms")
        rows.append([name, rate, *(figures[figure] for figure in names)])
    return rows


class Pool(NamedTuple):
    """Labelled scores that streams are drawn from, and the training scores of the estimate."""

    training: TrainingScores
    scores: Floats
    failed: Flags

    def stream(self, size: int, rate: float, generator: np.random.Generator) -> Floats:
        """Draw scores with replacement, of which the share `rate` are regressions in the mean."""
        fails = generator.binomial(size, rate)
        counts = ((~self.failed, size - fails), (self.failed, fails))
        return np.concatenate([generator.choice(self.scores[label], count) for label, count in counts])


Source = Callable[[np.random.Generator], Pool]


def halves(training: TrainingScores, generator: np.random.Generator) -> Pool:
    scores, y, groups = training.rows
    known = (generator.permutation(groups.max() + 1) % 2 == 0)[groups]
    names = groups[known].astype(np.str_)
    part = TrainingScores.from_rows(scores[known], y[known], names, training.min_effect_size)
    return Pool(part, scores[~known], y[~known] == 1)


def simulated_figures(source: Source, size: int, rate: float, threshold: float) -> list[object]:
    generator = np.random.default_rng([SEED, size, int(1000 * rate)])
    pools = [source(generator) for _ in range(STREAMS)]
    streams = [(pool.training, pool.stream(size, rate, generator)) for pool in pools]
    found = [estimate_base_rate(*stream, threshold) for stream in streams]
    ends = np.array([(one.rate, one.black_box, one.low, one.high) for one in found], np.float64)
    estimates, black_box, low, high = ends.T
    holds, rejected = (low <= rate) & (rate <= high), np.mean([not one.explains_scores for one in found])
    return [estimates.mean(), black_box.mean(), holds.mean(), np.median(high - low), rejected]


def main(path: Path = SAP_HANA, part: Part = "report") -> None:
    """Estimate the base rate of half of the series, and of simulated streams."""
    tables, y = read_labelled(path)
    series = np.unique(tables.comparisons["operation"].to_numpy(np.str_), return_inverse=True)[1]
    half = np.random.default_rng(SEED).permutation(series.max() + 1) % len(PARTS)
    rows = half[series] == PARTS.index(part)
    chosen = tables.comparisons[rows].reset_index(drop=True)
    sides, failed = Sides.from_tables(replace(tables, comparisons=chosen)), y[rows] == 1
    champion = champion_name()
    model = ReadyModel.read(FamilyPaths("comparisons").models / champion)
    training, probability = model.card.require_scores(), model.predict_uncleaned(sides)
    found = estimate_base_rate(training, probability, model.card.threshold)
    sources: dict[str, Source] = {
        "shipped measurement": partial(halves, training),
        "SAP HANA": lambda _: Pool(training, probability, failed),
    }
    below = (failed & (probability == 0)).sum()
    ends = f"{found.low:.2%} to {found.high:.2%}"
    distances = f"{found.distance:.4f}, by chance at most {found.max_distance:.4f}"
    notes = [
        f"SAP HANA, half of the series: {len(failed)} comparisons, {failed.sum()} regressions.",
        f"Of these regressions, {below} are below the minimum effect size: missed at every base rate.",
        f"Estimate {found.rate:.2%}, 95 % interval {ends}; by black-box shift {found.black_box:.2%}.",
        f"Distance to the nearest mixture: {distances}.",
        "Choices were made on the other half: scores below the threshold are not told apart by the estimate.",
    ]
    title = f"Base rates estimated without labels ({champion})"
    verdicts = Table(title, VERDICTS, verdict_rows(model, sides, failed, found), notes)
    rows = [
        [name, size, rate, *simulated_figures(source, size, rate, model.card.threshold)]
        for (name, source), size, rate in product(sources.items(), SIZES, RATES)
    ]
    notes = [
        f"{STREAMS} streams a row, drawn with replacement from labelled comparisons.",
        "Shipped measurement: out-of-fold probabilities of half of the operations, another half per stream.",
        "The estimate knows the other half. Its interval ignores the error of the half of the stream.",
        "SAP HANA: the comparisons of the table above; the estimate knows the shipped measurement.",
    ]
    simulated = Table("Simulated streams", SIMULATED, rows, notes)
    publish("base-rate", [verdicts, simulated], dry=part != "report")


if __name__ == "__main__":
    typer.run(main)
