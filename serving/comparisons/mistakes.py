"""The champion's worst mistakes, with the samples that misled it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.labels.consensus import decided
from data.comparisons.sides import Sides
from data.comparisons.tables import COMPARISON_DTYPES, OPERATION, ComparisonTables, units
from data.paths import Places
from features.comparisons.vectors import PreparedComparisons
from serving.comparisons.explain.features import Fact
from serving.comparisons.explain.sentences import Facts, direction, sentences
from serving.reports.chart_marks import Boxes, Dots, ValueLine, thinned
from serving.reports.charts import INK, Chart, Words, counted, percent, plain
from serving.reports.evaluation_files import surest_mistakes
from serving.reports.panels import Axis, Mark, Panel, drawn

MOST = 12
#: What is told beside the shift and what builds usually differ by.
_TOLD: tuple[tuple[Fact, float], ...] = (("separation", 1.0), ("scatter", 1.0))
#: Dots drawn over one box; of more samples an even share is drawn.
DOTS = 60
#: A shift that rounds to 0.0 % is told as none.
_NO_SHIFT = 0.0005


@dataclass(frozen=True)
class DrawnPair:
    """Baseline and target of one configuration, as shares of the baseline's median."""

    threads: int
    baseline_median: float  # in the unit of the result
    shift: float  # Target's median against the baseline's, negative where the target is worse
    #: Min, q1, median, q3, max of baseline and target, relative to the baseline's median
    boxes: tuple[NDArray[np.float64], ...]
    #: their samples, relative likewise; empty where the source has summaries only
    samples: tuple[NDArray[np.float64], ...]


@dataclass(frozen=True)
class Mistake:
    """One wrong verdict on a held-out fold, and what was measured in sentences."""

    anchor: str
    comparison_id: str
    benchmark: str
    operation: str
    machine: str
    unit: str
    better: str
    label: str
    labelled_by: str
    verdict: str
    probability: float
    threshold: float
    pairs: tuple[DrawnPair, ...]
    words: tuple[str, ...] = ()

    @property
    def worst(self) -> DrawnPair:
        """The configuration whose median fell most."""
        return min(self.pairs, key=lambda pair: pair.shift)

    @property
    def shifts(self) -> str:
        """The range of median shifts over the configurations, in words."""
        low, high = (percent(choose(pair.shift for pair in self.pairs)) for choose in (min, max))
        return low if low == high else f"{low} to {high}"


def worst_mistakes(verdicts: pd.DataFrame, tables: ComparisonTables, most: int = MOST) -> list[Mistake]:
    """Find the wrong verdicts that the model was surest of.

    `verdicts`: one model's held-out verdicts, with the columns of `serving.comparisons.evaluated.VERDICTS`.
    `tables`: what the comparisons were made of.
    `most`: how many to return.
    Returns: the surest first. Sureness is how far a probability lies from its threshold, as a share of how
    far it could.
    """
    comparisons = tables.comparisons[list(COMPARISON_DTYPES)]
    found = surest_mistakes(verdicts, "comparison_id", most).merge(
        comparisons, on="comparison_id", validate="one_to_one"
    )
    tables = _with_comparisons(tables, found[list(COMPARISON_DTYPES)])
    sides = Sides.of(tables)
    measured = tables.results.drop_duplicates(OPERATION)[[*OPERATION, "unit", "better"]]
    people = found["comparison_id"].map(_people(tables.labels)).fillna("\N{EN DASH}")
    told = found.merge(measured, on=OPERATION, how="left").assign(label=found["status"], labelled_by=people)
    names = [field.name for field in fields(Mistake) if field.name in told]
    asked = PreparedComparisons.of(sides)
    return [
        Mistake(
            f"mistake-{place + 1}",
            **row,
            pairs=tuple(_pair(sides, at) for at in _judged(sides, place)),
            words=_words(asked, place, str(row["unit"])),
        )
        for place, row in enumerate(told[names].to_dict("records"))
    ]


def told_of(root: Path, comparisons: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Say what was measured in comparisons of the project under `root`, by their ids."""
    tables = ComparisonTables.read(Places("comparisons", root).interim)
    kept = tables.comparisons[tables.comparisons["comparison_id"].isin(comparisons)][list(COMPARISON_DTYPES)]
    if kept.empty:
        return {}
    tables = _with_comparisons(tables, kept)
    asked = PreparedComparisons.of(Sides.of(tables))
    named = enumerate(zip(kept["comparison_id"], units(tables), strict=True))
    return {name: _words(asked, place, own) for place, (name, own) in named}


def _with_comparisons(tables: ComparisonTables, comparisons: pd.DataFrame) -> ComparisonTables:
    """Return `tables` with only these comparisons, and the results of their operations."""
    results = tables.results.merge(comparisons[OPERATION].drop_duplicates(), on=OPERATION)
    return replace(tables, results=results, comparisons=comparisons)


def _words(asked: PreparedComparisons, place: int, unit: str) -> tuple[str, ...]:
    """Say what was measured; the models of folds, which would say what they leant on, are not kept."""
    facts = Facts.of(asked, place)
    return sentences(facts, direction(unit, facts.sign), None, _TOLD, None)


def _people(labels: pd.DataFrame) -> pd.Series:
    """Return who labelled each comparison."""
    labels = decided(labels)
    settled = labels["annotator"].isna()
    settled |= ~labels["comparison_id"].isin(labels.loc[settled, "comparison_id"])
    named = labels[settled].dropna(subset=["labelled_by"]).drop_duplicates(["comparison_id", "labelled_by"])
    return named.groupby("comparison_id")["labelled_by"].agg(", ".join)


def _judged(sides: Sides, place: int) -> list[int]:
    """Return the configurations that both sides of a comparison have."""
    both = np.isfinite(sides.baseline_five[:, 2] + sides.target_five[:, 2])
    return np.flatnonzero(both & (sides.comparison == place)).tolist()


def _pair(sides: Sides, at: int) -> DrawnPair:
    median = float(sides.baseline_five[at, 2])
    unit = median or 1.0
    boxes = tuple(five[at] / unit for _, _, five in sides.both)
    samples = tuple(own.at(at) / unit for _, own, _ in sides.both)
    shift = float(sides.sign[at]) * float(boxes[1][2] - boxes[0][2])
    return DrawnPair(int(sides.threads[at]), median, shift, boxes, samples)


def mistake_chart(mistake: Mistake) -> Chart:
    """Draw baseline beside target for every configuration of `mistake`."""
    word = "Missed" if mistake.label == "fail" else "False alarm"
    worst = mistake.worst
    change = f"{percent(abs(worst.shift))} {'worse' if worst.shift < 0 else 'better'}"
    if abs(worst.shift) < _NO_SHIFT:
        change = "no shift of the median"
    given = "yet given" if mistake.label == "fail" else "given"
    title = (
        f"{word}: {mistake.operation}, {change} at {counted(worst.threads, 'thread')}, "
        f"{given} p = {mistake.probability:.2f}"
    )
    shows = f"Box plots of baseline and target by threads, median shifts {mistake.shifts}"
    ticks = [f"{pair.threads}\n{plain(pair.baseline_median)}" for pair in mistake.pairs]
    panel = Panel(
        [ValueLine(y=0), *_side(mistake.pairs, 0, "baseline"), *_side(mistake.pairs, 1, "target")],
        Axis(f"threads (number)\nbelow each: the baseline's median ({mistake.unit})", ticks),
        Axis(f"against baseline's median (%)\n{mistake.better} is better", percent=True),
    )
    return drawn(Words(mistake.anchor, title, shows), [panel], (max(3.9, 1.5 + 0.95 * len(ticks)), 2.9))


def _side(pairs: Sequence[DrawnPair], side: int, name: str) -> list[Mark]:
    """Return a box a configuration of one side of the comparison, and dots for its samples over each."""
    shift = (-0.2, 0.2)[side]
    boxes = Boxes(
        [pair.boxes[side] - 1 for pair in pairs], name, upright=True, shift=shift, width=0.32, fill=1 - side
    )
    shown = [pair.samples[side][thinned(len(pair.samples[side]), DOTS)] - 1 for pair in pairs]
    places = [place + shift + 0.1 * (np.arange(len(values)) % 3 - 1) for place, values in enumerate(shown)]
    look: Any = {"fill": INK, "edge": "none", "size": 11, "alpha": 0.6}
    return [boxes, *(Dots(x, values, **look) for x, values in zip(places, shown, strict=True))]
