"""The champion's worst mistakes, with the samples of both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.comparisons.labels.consensus import decided_labels
from data.comparisons.sides import Floats, Sides
from data.comparisons.tables import COMPARISON_DTYPES, OPERATION, ComparisonTables, comparison_units
from data.comparisons.validity import invalid_reasons
from data.paths import FamilyPaths
from features.comparisons.vectors import PreparedComparisons
from serving.comparisons.explain.features import Fact
from serving.comparisons.explain.sentences import Facts, direction_words, write_sentences
from serving.reports.chart_marks import Boxes, Dots, ValueLine, even_slice
from serving.reports.charts import INK, Chart, Words, percent, plain_number, with_noun
from serving.reports.evaluation_files import surest_mistakes
from serving.reports.panels import Axis, Mark, Panel, draw_chart
from serving.reports.separation import common_causes

#: Maximal number of shown mistakes.
MOST = 20
#: Facts with their weights, in addition to the change and the usual variation between builds.
_FACTS: tuple[tuple[Fact, float], ...] = (("separation", 1.0), ("scatter", 1.0))
#: Most dots over one box; of more samples an even share is drawn.
DOTS = 60
#: A change of so many standard deviations of the difference of two builds exceeds their variation.
_USUAL = 2.0
#: From so many earlier builds on, a change is compared with their level.
_ENOUGH = 4
#: Columns of possible causes, with their names.
_CAUSES = {
    "benchmark": "benchmark",
    "group": "group of operations",
    "machine": "machine",
    "unit": "unit",
    "better": "direction (lower or higher is better)",
    "earlier": "number of earlier builds",
}
#: Smaller changes are rounded to 0.0 %.
_NO_CHANGE = 0.0005


@dataclass(frozen=True)
class DrawnPair:
    """Baseline and target of one configuration."""

    threads: int
    baseline_median: float  # in the unit of the result
    shift: float  # change of the median as a share of the baseline's; negative is worse
    #: boxes: shape (5,), min, q1, median, q3, max of baseline and target; samples: empty for summaries. As
    #: multiples of the baseline's median.
    boxes: tuple[NDArray[np.float64], ...]
    samples: tuple[NDArray[np.float64], ...]


@dataclass(frozen=True)
class Mistake:
    """One wrong out-of-fold verdict, and its measurements in sentences."""

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
    is_undecidable: bool = False

    @property
    def worst_pair(self) -> DrawnPair:
        """The configuration with the worst change; ValueError without configurations."""
        return min(self.pairs, key=lambda pair: pair.shift)

    @property
    def shifts(self) -> str:
        """The range of changes over the configurations, in words."""
        low, high = (percent(choose(pair.shift for pair in self.pairs)) for choose in (min, max))
        return low if low == high else f"{low} to {high}"


def worst_mistakes(
    verdicts: pd.DataFrame, tables: ComparisonTables, min_effect_size: float, max_mistakes: int = MOST
) -> list[Mistake]:
    """Return the `max_mistakes` wrong verdicts with the highest confidence, the highest first, as `Mistake`.

    Half of them are missed, half are false alarms, unless one kind has fewer. Confidence is the distance of
    the probability from the threshold, as a share of the largest possible one. Every verdict other than the
    label is wrong, also ``unsure``. `verdicts`: one model's out-of-fold verdicts: ``comparison_id, verdict,
    status`` (the label), ``probability, threshold``. `tables`: the comparisons of the verdicts, with their
    samples and labels. `min_effect_size`: a share, for ``is_undecidable``, see `is_undecidable`.
    """
    comparisons = tables.comparisons[list(COMPARISON_DTYPES)]
    ranked = surest_mistakes(verdicts, "comparison_id", len(verdicts))
    is_extra = ranked.groupby("status").cumcount() >= max_mistakes / 2
    chosen = np.sort(np.argsort(is_extra.to_numpy(bool), kind="stable")[:max_mistakes])
    rows = ranked.iloc[chosen].merge(comparisons, on="comparison_id", validate="one_to_one")
    tables = _with_comparisons(tables, rows[list(COMPARISON_DTYPES)])
    sides = Sides.from_tables(tables)
    measured = tables.results.drop_duplicates(OPERATION)[[*OPERATION, "unit", "better"]]
    people = rows["comparison_id"].map(_annotators_by_id(tables.labels)).fillna("\N{EN DASH}")
    rows = rows.merge(measured, on=OPERATION, how="left").assign(label=rows["status"], labelled_by=people)
    names = [field.name for field in fields(Mistake) if field.name in rows]
    prepared = PreparedComparisons.from_sides(sides)
    has_both = np.isfinite(sides.baseline_five[:, 2] + sides.target_five[:, 2])
    mistakes = []
    for place, row in enumerate(rows[names].to_dict("records")):
        here = prepared.sides.comparison == place
        change, usual = prepared.change[here], prepared.steps.yardstick.usual_difference[here]
        pairs = np.flatnonzero(has_both & (sides.comparison == place)).tolist()
        mistake = Mistake(
            f"mistake-{place + 1}",
            **row,
            pairs=tuple(_drawn_pair(sides, at) for at in pairs),
            words=_fact_sentences(prepared, place, str(row["unit"])),
            is_undecidable=is_undecidable(row["label"], change, usual, min_effect_size),
        )
        mistakes.append(mistake)
    return mistakes


def is_undecidable(label: str, change: Floats, usual: Floats, min_effect_size: float) -> bool:
    """Return whether the medians of a comparison with a wrong verdict speak against its label.

    A label ``fail`` is contradicted if no configuration is worse by at least the minimum effect size, or by
    twice the usual difference; another label if a configuration is worse by more than both. False without
    configurations, or if a change is unknown. `change`, `usual`: shape (n_configurations,); change of the
    median (negative is worse) and standard deviation of the difference of two builds. All are shares.
    """
    if not (len(change) and np.isfinite(change).all()):
        return False
    limits = min_effect_size, _USUAL * usual
    is_small, is_large = -change < np.minimum(*limits), -change > np.maximum(*limits)
    return bool(is_small.all() if label == "fail" else is_large.any())


def causes_of_mistakes(mistakes: Sequence[Mistake], verdicts: pd.DataFrame, tables: ComparisonTables) -> str:
    """Return sentences on common causes of `mistakes`, see `common_causes`; arguments as `worst_mistakes`."""
    comparisons, results = tables.comparisons[list(COMPARISON_DTYPES)], tables.results
    cases = comparisons[comparisons["comparison_id"].isin(verdicts["comparison_id"])]
    builds = cases.merge(results[[*OPERATION, "order"]].drop_duplicates(), on=OPERATION)
    builds = builds[builds["order"] < builds["baseline_from"]]["comparison_id"].value_counts()
    earlier = cases["comparison_id"].map(builds).fillna(0)
    ranges = ["0", f"1 to {_ENOUGH - 1}"], f"at least {_ENOUGH}"
    cases = cases.assign(earlier=np.select([earlier == 0, earlier < _ENOUGH], *ranges))
    described = results.drop_duplicates(OPERATION)[[*OPERATION, "group", "unit", "better"]]
    cases = cases.merge(described, on=OPERATION, how="left")
    worst = cases[cases["comparison_id"].isin([mistake.comparison_id for mistake in mistakes])]
    return common_causes(worst, cases, _CAUSES, "comparisons")


def describe_measurements(root: Path, comparisons: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return sentences about the measured changes of comparisons, by comparison_id; unknown ids are left out.

    They state the change, the usual variation, the separation of the sides, and their scatter; of an invalid
    comparison, why it cannot be judged. InputError if the tables of the project `root` are missing or broken.
    """
    tables = ComparisonTables.read(FamilyPaths("comparisons", root).interim)
    rows = tables.comparisons[tables.comparisons["comparison_id"].isin(comparisons)][list(COMPARISON_DTYPES)]
    if rows.empty:
        return {}
    tables = _with_comparisons(tables, rows)
    sides = Sides.from_tables(tables)
    prepared = PreparedComparisons.from_sides(sides)
    units, reasons = comparison_units(tables), invalid_reasons(sides)
    return {
        name: (f"cannot be judged: {reason}",) if reason else _fact_sentences(prepared, place, unit)
        for place, (name, unit, reason) in enumerate(zip(rows["comparison_id"], units, reasons, strict=True))
    }


def _with_comparisons(tables: ComparisonTables, comparisons: pd.DataFrame) -> ComparisonTables:
    results = tables.results.merge(comparisons[OPERATION].drop_duplicates(), on=OPERATION)
    return replace(tables, results=results, comparisons=comparisons)


def _fact_sentences(prepared: PreparedComparisons, row: int, unit: str) -> tuple[str, ...]:
    # the models of the folds are not stored, so no model orders the facts
    facts = Facts.from_comparison(prepared, row)
    return write_sentences(facts, direction_words(unit, facts.sign), None, _FACTS)


def _annotators_by_id(labels: pd.DataFrame) -> pd.Series:
    """Return the annotators of each comparison, by its id; of settled labels only those."""
    labels = decided_labels(labels)
    settled = labels["annotator"].isna()
    settled |= ~labels["comparison_id"].isin(labels.loc[settled, "comparison_id"])
    named = labels[settled].dropna(subset=["labelled_by"]).drop_duplicates(["comparison_id", "labelled_by"])
    return named.groupby("comparison_id")["labelled_by"].agg(", ".join)


def _drawn_pair(sides: Sides, at: int) -> DrawnPair:
    median = float(sides.baseline_five[at, 2])
    unit = median or 1.0
    boxes = tuple(five[at] / unit for _, _, five in sides.both_sides)
    samples = tuple(lists.samples_of_row(at) / unit for _, lists, _ in sides.both_sides)
    shift = float(sides.sign[at]) * float(boxes[1][2] - boxes[0][2])
    return DrawnPair(int(sides.threads[at]), median, shift, boxes, samples)


def mistake_chart(mistake: Mistake) -> Chart:
    """Return box plots of both sides of each configuration, as changes from its baseline median in percent.

    Values above that median are positive, whether higher is better or worse. At most 60 samples are drawn as
    dots over a box, evenly spaced. ValueError without configurations.
    """
    kind = "Missed" if mistake.label == "fail" else "False alarm"
    worst, pairs = mistake.worst_pair, mistake.pairs
    change = f"median {percent(abs(worst.shift))} {'worse' if worst.shift < 0 else 'better'}"
    if abs(worst.shift) < _NO_CHANGE:
        change = "no shift of the median"
    place = f"{change} at {with_noun(worst.threads, 'thread')}"
    title = f"{kind}: {mistake.operation}, {place}, fail probability {mistake.probability:.3f}"
    shows = f"Box plots of baseline and target by threads, median shifts {mistake.shifts}"
    ticks = [f"{pair.threads}\n{plain_number(pair.baseline_median)}" for pair in pairs]
    panel = Panel(
        [ValueLine(y=0), *_side_marks(pairs, 0, "baseline"), *_side_marks(pairs, 1, "target")],
        Axis(f"threads (number)\nbaseline median ({mistake.unit})", ticks),
        Axis(f"change from baseline median (%)\n{mistake.better} is better", percent=True),
    )
    return draw_chart(Words(mistake.anchor, title, shows), [panel], (max(3.9, 1.5 + 0.95 * len(ticks)), 2.9))


def _side_marks(pairs: Sequence[DrawnPair], side: int, name: str) -> Iterator[Mark]:
    shift, boxes = (-0.2, 0.2)[side], [pair.boxes[side] - 1 for pair in pairs]
    yield Boxes(boxes, name, upright=True, shift=shift, width=0.32, fill=1 - side)
    for place, pair in enumerate(pairs):
        values = pair.samples[side][even_slice(len(pair.samples[side]), DOTS)] - 1
        x = place + shift + 0.1 * (np.arange(len(values)) % 3 - 1)
        yield Dots(x, values, fill=INK, edge="none", size=11, alpha=0.6)
