"""Pictures of cases in which perfjudge does not reach a goal on other people's data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.table import SEED
from data.comparisons.tables import ComparisonTables
from serving.reports.chart_marks import Dots
from serving.reports.charts import FAIL, GRID, INK, MUTED, PASS, styled_figure

IMAGES = Path("docs/images")
#: Versions of a series that are drawn before the baseline and after the target.
_AROUND = 60


@contextmanager
def _saved(name: str, size: tuple[float, float], rows: int = 1, columns: int = 1) -> Iterator[Any]:
    """Yield the axes, shape (rows, columns), of a figure in inches that is written to `IMAGES` at the end."""
    with styled_figure(*size) as figure:
        yield figure.subplots(rows, columns, squeeze=False)
        figure.savefig(IMAGES / f"transfer-{name}.svg", facecolor="white", metadata={"Date": None})


def draw_series(name: str, tables: ComparisonTables, cases: pd.DataFrame) -> None:
    """Draw the series around the comparisons `cases` (``comparison_id, title``): sides, and engineers' marks.

    `tables` has all comparisons of the series.
    """
    labelled = tables.comparisons.merge(tables.labels[["comparison_id", "status"]], on="comparison_id")
    marked = labelled[labelled["status"] == "fail"].groupby("operation")["target_from"].unique()
    chosen, results = cases.merge(tables.comparisons, on="comparison_id"), tables.results
    by_operation = dict(tuple(results[results["operation"].isin(chosen["operation"])].groupby("operation")))
    with _saved(name, (8.4, 1.5 * len(cases)), len(cases)) as all_axes:
        for axes, row in zip(all_axes[:, 0], chosen.itertuples(), strict=True):
            first, last = row.baseline_from - _AROUND, row.target_to + _AROUND
            of_series = by_operation[row.operation]
            shown = of_series[of_series["order"].between(first, last)]
            axes.plot(shown["order"], shown["value"], ".", color=MUTED, markersize=2.5)
            for begin, end, colour, side in (
                (row.baseline_from, row.baseline_to, PASS, "baseline"),
                (row.target_from, row.target_to, FAIL, "target"),
            ):
                values = shown["value"][shown["order"].between(begin, end)]
                axes.axvspan(begin - 0.5, end + 0.5, color=colour, alpha=0.25, linewidth=0, label=side)
                axes.hlines(values.median(), begin - 0.5, end + 0.5, color=colour, linewidth=1.4)
            for version in marked.get(row.operation, []):
                if first <= version <= last:
                    axes.axvline(version, color=INK, linewidth=0.9, linestyle=":")
            # without single outliers, next to which changes could not be seen
            low, high = shown["value"].quantile([0.01, 0.97])
            axes.set_ylim(low - 0.3 * (high - low), high + 0.6 * (high - low))
            axes.set_title(row.title, fontsize=8.5, loc="left")
            axes.set(xlim=(first, last), ylabel=str(shown["unit"].iloc[0]))
        all_axes[0, 0].legend(loc="upper right", ncols=2, fontsize=7.5)
        all_axes[-1, 0].set_xlabel("version; dotted: a change that engineers marked")


def draw_changes(name: str, accuracy: pd.DataFrame) -> None:
    """Draw balanced accuracy, shape (n_seeds, n_numbers_of_labels), a line per seed."""
    with _saved(name, (8.4, 3.2)) as ((axes,),):
        for seed, row in accuracy.iterrows():
            axes.plot(accuracy.columns, row, marker="o", markersize=4, label=f"seed {seed}")
        axes.set(xlabel="number of labels", ylabel="balanced accuracy")
        axes.legend(fontsize=7.5)


def draw_causes(name: str, pairs: pd.DataFrame) -> None:
    """Draw pairs by cause: their ``probability, threshold, cause`` and the flags ``abnormal, idle``."""
    names, noise = sorted(pairs["cause"].unique()), np.random.default_rng(SEED)
    with _saved(name, (8.4, 1.4 + 0.8 * len(names))) as ((axes,),):
        for (idle, abnormal), shown in pairs.groupby(["idle", "abnormal"]):
            label = f"{'abnormal' if abnormal else 'normal'}{', idle' if idle else ''}"
            lane = np.array([names.index(cause) for cause in shown["cause"]]) + 0.3 * (not abnormal)
            y, marker = lane + noise.uniform(-0.1, 0.1, len(shown)), "s" if idle else "o"
            fill = FAIL if abnormal else PASS
            Dots(shown["probability"], y, label, fill=fill, marker=marker, alpha=0.7).draw(axes)
        axes.axvline(pairs["threshold"].mean(), linewidth=0.9, linestyle=":", color="black")
        axes.set(yticks=range(len(names)), yticklabels=names)
        axes.set_xlabel("probability of abnormal; dotted: threshold")
        axes.figure.legend(loc="outside upper center", ncols=4, fontsize=8.5)


def draw_intervals(name: str, cases: pd.DataFrame) -> None:
    """Draw predicted impacts with their intervals (``value, low, high``), sorted by ``truth``."""
    ordered = cases.sort_values("truth").reset_index(drop=True)
    outside = (ordered["truth"] < ordered["low"]) | (ordered["truth"] > ordered["high"])
    with _saved(name, (8.4, 3.4)) as ((axes,),):
        for rows, colour, label in ((~outside, PASS, "interval"), (outside, FAIL, "interval without truth")):
            axes.vlines(ordered.index[rows], ordered["low"][rows], ordered["high"][rows], colour, label=label)
        axes.plot(ordered["value"], "_", color=INK, markersize=7, label="predicted")
        axes.plot(ordered["truth"], ".", color=INK, markersize=6, label="true")
        axes.set(xlabel="case, by true impact", ylabel="impact")
        axes.legend(fontsize=7.5, ncols=4)


def draw_errors(name: str, panels: Mapping[str, pd.DataFrame]) -> None:
    """Draw our mean error against that of a plain model, which names the second column, a panel per data set.

    Errors are shares, by group of cases. The groups of the five largest errors of ours have numbers.
    """
    with _saved(name, (8.4, 3.9), 1, len(panels)) as (row,):
        for axes, (title, errors) in zip(row, panels.items(), strict=True):
            y, x = np.maximum(100 * errors.to_numpy().T, 0.01)
            span = np.array([min(x.min(), y.min()) * 0.8, max(x.max(), y.max()) * 1.25])
            axes.plot(span, span, color=GRID, linewidth=1)
            axes.loglog(x, y, ".", color=PASS, markersize=3 if len(x) > 100 else 5, alpha=0.6)  # noqa: PLR2004
            worst: NDArray[np.int64] = np.argsort(y)[::-1][:5]
            axes.loglog(x[worst], y[worst], ".", color=FAIL, markersize=6)
            for number, place in enumerate(worst, 1):
                axes.annotate(f" {number}", (x[place], y[place]), fontsize=8, color=FAIL)
            axes.set_title(title, fontsize=9, loc="left")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter("{x:g}")
                axis.set_minor_formatter("")
            axes.set(xlim=span, ylim=span, xlabel=f"error of {errors.columns[1]} (%)", ylabel="our error (%)")
