"""Which runs are invalid, which defects are found, and which test cases behave alike."""

from __future__ import annotations

import numpy as np
import pandas as pd

from serving.pages.apart import CONFIDENCE
from serving.pages.charts import Chart, Words, counted, percent
from serving.pages.marks import Bars, Cells, HeatCell
from serving.pages.panels import Axis, Panel, drawn

#: Who says that a run is invalid, in the order of the bars, and what a reader calls them.
JUDGES = {"rules": "the rules alone", "tree": "the tree alone", "both": "rules and tree"}
_CAUSES = "In brackets: abnormal pairs."
#: How large a table of groups is still drawn.
_GROUPS = 40


def validity_told(validity: pd.DataFrame) -> str:
    """Say how many invalid runs are caught, by the rules alone and with the tree, and at what price.

    Parameters
    ----------
    validity : DataFrame
        ``judge, fold, kind, runs, rejected``; ``kind`` is empty for valid runs.
    """
    shares = _shares(validity.assign(kind=np.where(validity["kind"] == "", "", "invalid")))
    if "invalid" not in shares.index:
        return "Nobody flagged a run as invalid: there is nothing to learn a tree from."
    caught, wrongly = (
        [percent(shares[judge].get(kind, np.nan)) for judge in JUDGES] for kind in ("invalid", "")
    )
    return (
        f"Of the invalid runs, the rules alone find {caught[0]}, the tree alone {caught[1]}, both together "
        f"{caught[2]}; of the valid ones they wrongly reject {wrongly[0]}, {wrongly[1]} and {wrongly[2]}."
    )


def validity_chart(validity: pd.DataFrame) -> Chart | None:
    """Draw which share of the runs of each kind of invalidity is rejected, and of the valid ones.

    Returns
    -------
    Chart or None
        None where nobody flagged a run as invalid.
    """
    shares = _shares(validity)
    if set(shares.index) <= {""}:
        return None
    ordered = shares.loc[sorted(shares.index, key=lambda kind: (kind == "", kind))]
    judges = [judge for judge in JUDGES if ordered[judge].notna().any()]
    invalid = ordered.loc[ordered.index != "", judges[-1]]
    title = (
        f"Hardest to tell are runs of the kind {invalid.idxmin()}: "
        f"{JUDGES[judges[-1]]} reject {percent(float(invalid.min()), 0)} of them"
    )
    if not _stands_out(invalid, ordered.loc[invalid.index, "runs"]):
        title = (
            f"No kind of invalid run can be told to be harder than the others: {JUDGES[judges[-1]]} reject "
            f"{_range(invalid)} of each"
        )
    bars = [
        Bars(ordered[judge], JUDGES[judge], turn=turn, turns=len(judges)) for turn, judge in enumerate(judges)
    ]
    kinds = _labels([kind or "valid (should stay)" for kind in ordered.index], ordered["runs"])
    panel = Panel(bars, _shares_axis("runs that are rejected (% of that kind)"), Axis("kind", kinds))
    words = Words(
        "validity-chart",
        title,
        "Bars of the share of runs that are rejected, by kind of run",
        "On test cases held out whole; the tree was learned on the other folds.",
    )
    return drawn(words, [panel], (8.4, 1.3 + 0.55 * len(ordered)))


def causes_chart(verdicts: pd.DataFrame) -> Chart | None:
    """Draw which share of the abnormal pairs of each cause is found.

    Parameters
    ----------
    verdicts : DataFrame
        Held-out verdicts of one entry: ``cause, status, verdict``; an unknown cause is empty.

    Returns
    -------
    Chart or None
        None where no cause is known.
    """
    known = verdicts[(verdicts["cause"].fillna("") != "") & (verdicts["status"] == "fail")]
    if known.empty:
        return None
    by_cause = (known["verdict"] == "fail").groupby(known["cause"]).agg(["mean", "size"])
    found = by_cause.sort_values("mean", kind="stable")
    least, title = found.iloc[0], f"All abnormal pairs of {counted(len(found), 'kind')} are found"
    if least["mean"] < 1:
        title = (
            f"Least found is {found.index[0]}: {percent(float(least['mean']), 0)} of "
            f"{counted(int(least['size']), 'abnormal pair')}"
        )
        if not _stands_out(found["mean"], found["size"]):
            title = (
                f"No cause can be told to be harder to find than the others: {_range(found['mean'])} of each"
            )
    causes = Axis("cause", _labels([str(cause) for cause in found.index], found["size"]))
    panel = Panel(
        [Bars(found["mean"])], _shares_axis("abnormal pairs that are found (% of the cause)"), causes
    )
    words = Words("causes", title, "Bars of the share of abnormal pairs that are found, by cause", _CAUSES)
    return drawn(words, [panel], (8.4, 1.1 + 0.3 * len(found)))


def groups_chart(groups: pd.DataFrame) -> Chart | None:
    """Draw how many test cases of each given group lie in each automatic one.

    Parameters
    ----------
    groups : DataFrame
        ``workload, group, automatic``, a row per test case.

    Returns
    -------
    Chart or None
        None where there is one group only, or too many to draw.
    """
    table = pd.crosstab(groups["group"], groups["automatic"])
    if len(table) < 2 or max(table.shape) > _GROUPS:  # noqa: PLR2004 - nothing to compare
        return None
    from sklearn.metrics import adjusted_rand_score

    agree = float(adjusted_rand_score(groups["group"], groups["automatic"]))
    table = table.iloc[np.argsort(table.to_numpy().argmax(axis=1), kind="stable")]
    title = (
        f"{counted(table.shape[1], 'automatic group')} beside {counted(len(table), 'given one')} "
        f"agree by {agree:.2f} (1: the same, 0: by chance)"
    )
    words = Words(
        "groups-chart",
        title,
        "Table of given groups by automatic groups",
        "Numbers are test cases. Agreement is the adjusted Rand index.",
    )
    counts, most = table.to_numpy().tolist(), int(table.to_numpy().max())
    cells = [
        [HeatCell(count, 0.25 + 0.6 * count / most) if count else None for count in row] for row in counts
    ]
    panel = Panel(
        [Cells(cells)],
        Axis("automatic group (name)", [str(one) for one in table.columns]),
        Axis("given group (workload type)", [str(one) for one in table.index]),
    )
    size = max(4.6, 2.6 + 0.45 * table.shape[1]), max(3.4, 1.4 + 0.3 * len(table))
    return drawn(words, [panel], size, narrows=False)


def _shares(validity: pd.DataFrame) -> pd.DataFrame:
    """Return by kind how many runs there are, and which share of them each judge rejects."""
    sums = validity.groupby(["kind", "judge"])[["runs", "rejected"]].sum()
    shares = (sums["rejected"] / sums["runs"]).unstack("judge").reindex(columns=list(JUDGES))
    return shares.assign(runs=sums["runs"].unstack("judge").max(axis="columns"))


def _stands_out(shares: pd.Series, sizes: pd.Series) -> bool:
    """Return whether the smallest share can be told from that of all others (Fisher's exact test)."""
    from scipy.stats import fisher_exact

    right = (shares * sizes).round()
    table = pd.DataFrame({"right": right, "wrong": sizes - right})
    least = shares.idxmin()
    p: float = fisher_exact([table.loc[least], table.drop(index=least).sum()]).pvalue
    return p < 1 - CONFIDENCE


def _range(shares: pd.Series) -> str:
    low, high = percent(float(shares.min()), 0), percent(float(shares.max()), 0)
    return low if low == high else f"{low} to {high}"


def _labels(names: list[str], sizes: pd.Series) -> list[str]:
    return [f"{name} ({int(size):,})" for name, size in zip(names, sizes, strict=True)]


def _shares_axis(label: str) -> Axis:
    return Axis(label, percent=True, low=0, high=1)
