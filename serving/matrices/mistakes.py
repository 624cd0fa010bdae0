"""The champion's worst mistakes on pairs of matrices, with the differences of all raw metrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from data.matrices.tables import MatrixTables
from features.matrices.forms import Removal, contrast_pairs, training_statistics
from serving.reports.chart_marks import Boxes, Dots, ValueLine, box_percentiles
from serving.reports.charts import INK, PASS, SERIES, Chart, Words, percent, plain_number, with_noun
from serving.reports.evaluation_files import surest_mistakes
from serving.reports.panels import Axis, Mark, Panel, draw_chart
from serving.reports.separation import common_causes

#: Maximal number of listed mistakes.
MOST = 20
#: Metrics are counted and drawn as dots whose difference exceeds so many units of noise.
BEYOND = 3.0
#: Most dots of a pair.
_DOTS = 10
#: Smaller differences are drawn here: a log axis has no 0.
_LEAST = 0.1
_CAUSES = {"group": "workload group", "cause": "cause", "size": "cause size"}


@dataclass(frozen=True)
class WorstMistakes:
    """The wrong verdicts with the highest confidence, and the differences of their metrics.

    `rows`: the verdicts, with ``n_beyond`` (number of metrics that differ by more than `BEYOND`), ``metric``
    and ``largest`` (the one that differs most, and its difference), and ``is_undecidable``. `sizes`: absolute
    differences in units of noise, a row per ``pair_id``, a column per metric.
    """

    rows: pd.DataFrame
    sizes: pd.DataFrame
    normal: float  # median of the largest differences of normal pairs
    abnormal: float  # median of the largest differences of abnormal pairs
    causes: str  # sentences on common causes

    @classmethod
    def from_verdicts(
        cls, verdicts: pd.DataFrame, sizes: pd.DataFrame, max_cases: int = MOST
    ) -> WorstMistakes:
        """Return at most `max_cases` mistakes, the highest confidence first.

        A miss is not decidable if its largest difference is at most the median of those of normal pairs, a
        false alarm if it is at least that of abnormal pairs. A pair without a row in `sizes` is decidable.
        `verdicts`: one model's out-of-fold verdicts on pairs, with ``group, cause, cause_size``.
        """
        largest = verdicts["pair_id"].map(sizes.max(axis="columns"))
        median = largest.groupby(verdicts["status"]).median().reindex(["pass", "fail"])
        size, usual = verdicts["cause_size"], verdicts["cause_size"].median()
        classes = np.where(size <= usual, f"at most {percent(usual, 0)}", f"above {percent(usual, 0)}")
        classes = np.where(size.notna(), classes, "")
        cases = verdicts.assign(cause=verdicts["cause"].fillna(""), largest=largest, size=classes)
        rows = surest_mistakes(cases, "pair_id", max_cases)
        known = sizes.reindex(rows["pair_id"])
        rows = rows.assign(
            n_beyond=(known > BEYOND).sum(axis="columns").to_numpy(),
            metric=known.fillna(0.0).idxmax(axis="columns").to_numpy(),
            is_undecidable=np.where(
                rows["status"] == "fail", rows["largest"] <= median["pass"], rows["largest"] >= median["fail"]
            ),
        )
        causes = common_causes(rows, cases, _CAUSES, "pairs")
        return cls(rows, known, float(median["pass"]), float(median["fail"]), causes)


def noise_units(tables: MatrixTables, fold_of: pd.Series) -> pd.DataFrame:
    """Return absolute differences of raw metrics in units of noise, by ``pair_id``, a column per metric.

    Differences and noise are those of the contrasted form; the noise of a pair is estimated from the other
    folds. The rows are fold by fold; a pair with a side without any value has none, and a metric that is
    missing on one side has 0. `tables` has the valid runs of the pairs, with labels. `fold_of`: the fold of
    each ``pair_id``.
    """
    fold = tables.runs["pair_id"].map(fold_of)
    parts = []
    for number in sorted(fold_of.unique()):
        inside = (fold == number).to_numpy(bool)
        statistics = training_statistics(tables.select_runs(~inside), tables.raw_metrics)
        held_out = tables.select_runs(inside)
        rows = contrast_pairs(held_out, statistics)
        removal = Removal.from_rows("contrasted", held_out, statistics, rows)
        parts.append(pd.DataFrame(removal.sizes, removal.pairs, statistics.metrics))
    return pd.concat(parts)


def mistakes_chart(mistakes: WorstMistakes) -> Chart:
    """Draw a box of the differences of all metrics for each mistake, and a dot per metric beyond `BEYOND`.

    IndexError without mistakes. The title compares the largest differences with those of normal pairs.
    """
    rows, sizes = mistakes.rows, mistakes.sizes.clip(lower=_LEAST).to_numpy()
    is_miss = (rows["status"] == "fail").to_numpy(bool)
    fives, nothing = [box_percentiles(row) for row in sizes], np.full(5, np.nan)
    ranks = mistakes.sizes.rank(axis="columns", ascending=False).to_numpy()
    is_dot = (ranks <= _DOTS) & (sizes > BEYOND)
    marks: list[Mark] = []
    kinds = ("false alarm", ~is_miss, 0, PASS), ("missed", is_miss, 2, SERIES[0])
    for name, chosen, fill, colour in kinds:
        boxes = [five if here else nothing for five, here in zip(fives, chosen, strict=True)]
        marks.append(Boxes(boxes, name, fill=fill))
        place, metric = np.nonzero(is_dot & chosen[:, None])
        names = [str(mistakes.sizes.columns[column]) for column in metric]
        marks.append(Dots(sizes[place, metric], place, fill=colour, edge=INK, size=9, point_names=names))
    for side, value, dash in (("normal", mistakes.normal, ":"), ("abnormal", mistakes.abnormal, "--")):
        marks.append(ValueLine(f"largest difference, median of {side} pairs", x=value, dash=dash))
    above = rows["largest"] > mistakes.normal
    parts = [
        f"{above[chosen].sum()} of {with_noun(int(chosen.sum()), noun)}"
        for chosen, noun in ((~is_miss, "false alarm"), (is_miss, "missed pair"))
        if chosen.any()
    ]
    words = Words(
        "mistakes-chart",
        f"In {' and '.join(parts)}, the largest difference of a metric is above "
        f"{plain_number(mistakes.normal, 3)} units of noise, the median of normal pairs",
        "Boxes of the differences of all raw metrics in units of noise, by pair",
        "Differences are drawn without signs. Boxes are quartiles, with whiskers to the smallest and largest "
        f"difference; dots are the metrics that differ most, by more than {BEYOND:g} units, at most {_DOTS} "
        f"per pair. Differences below {_LEAST:g} are drawn at {_LEAST:g}. An asterisk marks a pair that is "
        "not decidable by these data.",
    )
    stars = [
        f"{pair} *" if star else str(pair)
        for pair, star in zip(rows["pair_id"], rows["is_undecidable"], strict=True)
    ]
    powers = range(-1, int(np.log10(np.nanmax(sizes, initial=1.0))) + 1)
    ticks = {10.0**power: plain_number(10.0**power) for power in powers}
    axis = Axis("units of noise (log scale)", ticks=ticks, log=True)
    panel = Panel(marks, axis, Axis("pair", stars))
    return draw_chart(words, [panel], (8.4, 1.5 + 0.27 * len(rows)))
