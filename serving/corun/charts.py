"""What models of impact are worth: figures 4 and 5 of seed 002, importance, seconds, placements."""

from __future__ import annotations

import numpy as np
import pandas as pd

from serving.corun.evaluated import OnlineScores, Repeatability, where
from serving.corun.placement_check import Check
from serving.pages.apart import ERRORS
from serving.pages.charts import FAIL, INK, Chart, Words, counted, percent, plain
from serving.pages.marks import WORST, Bars, Diagonal, Dots, Histogram, Line, ValueLine, thinned
from serving.pages.panels import Axis, Mark, Panel, drawn

#: Features in the chart of importance, and residuals whose rows are named.
_FEATURES, _WORST = 20, 3
#: What the columns of residuals are called.
_AXES = {
    "fitted": Axis("predicted impact"),
    "residual": Axis("residual (impact)"),
    "theoretical": Axis("normal quantile"),
    "standardised": Axis("standardised residual"),
    "scale": Axis("\u221a of |standardised residual|"),
    "leverage": Axis("leverage (0 to 1)", low=0),
}
#: Dots beyond which an even share is drawn.
_DRAWN = 600


def residual_chart(name: str, residuals: pd.DataFrame, what: str) -> Chart | None:
    """Draw the four plots of figures 4 and 5: residuals, normal Q-Q, scale-location, leverage.

    Parameters
    ----------
    residuals : DataFrame
        As `training.corun.estimators.explaining.residuals` gives them.
    what : str
        Which model, for the title.

    Returns
    -------
    Chart or None
        None where there are none.
    """
    if residuals.empty:
        return None
    outside = float((residuals["standardised"].abs() > 3).mean())  # noqa: PLR2004 - three deviations
    worst = residuals.loc[residuals["residual"].abs().sort_values(kind="stable").index[::-1][:_WORST]]
    first = worst.iloc[0]
    title = (
        f"{what}: {percent(outside)} of the residuals lie beyond three standard deviations "
        "(0.3\N{NO-BREAK SPACE}% of normal ones would)"
    )
    note = (
        f"Residual: measured impact \N{MINUS SIGN} predicted impact of co-runs that the model had not seen. "
        f"The largest is {first['residual']:+.3f}, of {first['task']} beside {first['corunners']}; "
        f"the {_WORST} largest are marked."
    )
    shows = "Four plots of residuals of unseen co-runs: over fitted, Q-Q, scale, leverage"
    shown, zero = residuals[thinned(len(residuals), _DRAWN)], ValueLine(y=0, dash="--")
    quantiles = shown["theoretical"]
    equal = Diagonal(float(quantiles.min()), float(quantiles.max()))

    def panel(x: str, y: str, heading: str, *lines: Mark) -> Panel:
        dots = (
            Dots(shown[x], shown[y], size=9, thickness=0.25, told=_pairs(shown)),
            Dots(worst[x], worst[y], **WORST, told=_pairs(worst)),
        )
        return Panel([*dots, *lines], _AXES[x], _AXES[y], heading)

    panels = [
        panel("fitted", "residual", "Residuals and fitted", zero),
        panel("theoretical", "standardised", "Normal Q-Q", equal),
        panel("fitted", "scale", "Scale and location"),
        panel("leverage", "standardised", "Residuals and leverage", zero),
    ]
    return drawn(Words(name, title, shows, note), panels, (8.4, 7.0), across=2)


def _pairs(rows: pd.DataFrame) -> list[str]:
    return (rows["task"] + " beside " + rows["corunners"]).tolist()


def importance_chart(importance: pd.DataFrame) -> Chart | None:
    """Draw by how much the error grows when a feature is shuffled."""
    shown = importance.head(_FEATURES)
    if shown.empty or shown["rise"].iloc[0] <= 0:
        return None
    top = shown.iloc[0]
    cost = f"{plain(100 * top['rise'], 2)} points of mean error"
    title = f"Shuffling {top['feature']} costs most: {cost}"
    if top["rise"] <= ERRORS * top["spread"]:
        varies = f"\N{PLUS-MINUS SIGN} {plain(100 * top['spread'], 2)} over the shuffles"
        title = (
            f"Of no single feature can it be told that it matters: shuffling {top['feature']} costs "
            f"{cost} ({varies})"
        )
    elif len(shown) > 1 and told_alike(top, shown.iloc[1]):
        title = (
            f"Shuffling {top['feature']} or {shown['feature'].iloc[1]}, which cannot be told apart, "
            f"costs most: {cost}"
        )
    shows = f"Bars of permutation importance of {counted(len(shown), 'feature')}"
    note = "own_: the task, others_: its co-runners. Bars are one standard deviation over the shuffles."
    panel = Panel(
        [Bars(100 * shown["rise"], spread=100 * shown["spread"])],
        Axis("growth of the mean error when shuffled (percentage points)"),
        Axis("feature", shown["feature"].tolist()),
    )
    return drawn(Words("importance", title, shows, note), [panel], (8.4, 1.1 + 0.21 * len(shown)))


def told_alike(one: pd.Series, other: pd.Series) -> bool:
    """Return whether two features' importances differ by less than how both vary over the shuffles."""
    return bool(one["rise"] - other["rise"] <= ERRORS * np.hypot(one["spread"], other["spread"]))


def seconds_chart(online: OnlineScores, repeats: Repeatability, tolerance: float) -> Chart:
    """Draw the accuracy of the online models by the seconds that were sampled."""
    rows = pd.DataFrame([one.model_dump() for one in online.entries])
    own = where(rows, design=online.design)
    champion = where(own, model=online.champion).sort_values("seconds")
    first, at = champion.iloc[0], where(champion, seconds=online.trained_at).iloc[0]
    title = (
        f"{percent(at['within_tolerance'], 0)} within {percent(tolerance, 0)} after "
        f"{plain(at['seconds'])} s of "
        f"samples, {percent(first['within_tolerance'], 0)} after {plain(first['seconds'])} s"
    )
    if abs(at["within_tolerance"] - first["within_tolerance"]) <= np.hypot(at["spread"], first["spread"]):
        title += ": cannot be told apart over the folds"
    unseen = "tasks that the model has never seen" if online.design == "tasks" else "co-runs at random"
    note = f"Held out: {unseen}. Bars are one standard deviation over the folds."
    marks: list[Mark] = [
        Line(
            str(model),
            line["seconds"] * (1 + 0.02 * (look - 1.5)),
            line["within_tolerance"],
            look,
            spread=line["spread"],
        )
        for look, (model, line) in enumerate(own.sort_values("seconds").groupby("model", sort=True))
    ]
    if repeats.within_tolerance is not None:
        marks.append(ValueLine("measured once more", y=repeats.within_tolerance))
    panel = Panel(
        marks,
        Axis(
            "sampled seconds, alone and together (log scale)",
            ticks={second: plain(second) for second in sorted(own["seconds"].unique())},
            log=True,
        ),
        Axis(f"within {percent(tolerance, 0)} of the measured impact", percent=True),
    )
    words = Words("seconds", title, "Line chart of accuracy by sampled seconds, a line a model", note)
    return drawn(words, [panel], (8.4, 4.0))


def placement_chart(check: Check) -> Chart:
    """Draw the totals of placements at random, and where the chosen, the best and the worst lie."""
    saved = f"{check.random.mean() - check.chosen:.1f} s ({percent(check.saving)}) of run time"
    title = (
        f"Placed by predictions of unseen pairs, {check.tasks} tasks save {saved} against placements at "
        f"random; none saves more than {percent(check.possible)}"
    )
    note = (
        "Run times as the pairs were measured one by one. The best is known only once everything is "
        "measured; the chosen one needs solo runs and a model."
    )
    marks: list[Mark] = [
        Histogram(check.random, "at random"),
        ValueLine("chosen by predictions", check.chosen, colour=FAIL, dash="-", width=2),
        ValueLine("best there is", check.best, colour=INK, dash="--", width=2),
        ValueLine("worst there is", check.worst, colour=INK, width=2),
    ]
    panel = Panel(
        marks,
        Axis("run time of all tasks, two to a machine (s)"),
        Axis(f"placements (of {len(check.random):,})"),
    )
    shows = "Histogram of the total run time of random placements"
    return drawn(Words("placements-random", title, shows, note), [panel], (8.4, 3.6))
