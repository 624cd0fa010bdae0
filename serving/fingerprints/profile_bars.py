"""Profiles as bar charts for pages, largest first, or the reason why they cannot be ranked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from data.fingerprints.tables import CATEGORIES
from features.fingerprints.matrix import stressor_of
from serving.fingerprints.profiled import ProfiledPage, Reported
from serving.reports.charts import counted, figures, percent, plain
from serving.reports.rendering import QUIHO, render, worded
from serving.reports.separation import listed
from training.fingerprints.differences import ProfileDifference
from training.fingerprints.prediction import Prediction
from training.fingerprints.profiles import Profile

#: An interval that is wider than this, as a share of the value, decides little.
_WIDE = 1.0


def report_advice(given: ProfiledPage) -> Iterator[str]:
    """Yield sentences for whoever reads the report of all profiles."""
    trusted = [one for one in given.profiles.values() if one.trust.enough]
    refused = [one for one in given.profiles.values() if not one.trust.enough]
    for one in sorted(trusted, key=_clearest)[: 1 if refused else 2]:
        yield _lean(one)
    if trusted:
        yield (
            "Compare versions of an application by the differences of profiles: only what really "
            "moved is a change."
        )
    if refused:
        names = listed([one.application for one in refused])
        nearest = min(refused, key=lambda one: (len(one.trust.reasons), one.trust.chance))
        yield f"Decide nothing by the rankings of {names}: they are shown, but cannot be told from chance."
        yield f"For {nearest.application}, which is nearest to an answer: {worded(nearest.trust.reasons[0])}."
    errors = given.accuracy.drop(columns="application").median()
    if errors.notna().any():
        yield (
            f"Where a machine was only fingerprinted, expect predictions to be off by "
            f"{percent(errors.min(), 0)} or "
            "more if its CPU model is unknown: `perfjudge irup profile --predict` gives each an interval."
        )


def profile_advice(found: Profile, predictions: Sequence[Prediction]) -> Iterator[str]:
    """Yield sentences for whoever reads the profile of one application."""
    if found.trust.enough:
        yield _lean(found)
        yield (
            "Measure the application and these stressors again after a change; `perfjudge irup diff` tells "
            "what really moved."
        )
    else:
        yield "Decide nothing by this ranking: a regression always returns one, and this one may be chance."
        yield f"What is lacking: {worded('; '.join(found.trust.reasons))}."
    if found.trust.unpredicted:
        yield f"Plan nothing by its predictions: {worded('; '.join(found.trust.unpredicted))}."
    yield (
        f"Do not carry it over to other hardware: it holds for {counted(found.trust.machines, 'machine')} of "
        f"{counted(found.trust.cpus, 'CPU model')}, where the median error is "
        f"{percent(found.trust.median_error, 0)}."
    )
    wide = [one.machine for one in predictions if one.high - one.low > _WIDE * abs(one.value)]
    if wide:
        yield (
            f"Run the application on {listed(wide)} before you buy or place: the interval there is as "
            f"wide as the value."
        )


def difference_advice(found: ProfileDifference) -> Iterator[str]:
    """Yield sentences for whoever reads the difference of two profiles."""
    if found.reasons:
        yield f"Decide nothing by this difference: {worded('; '.join(found.reasons))}."
        yield f"Measure {found.a} and {found.b} on the same machines, and on more of them."
    elif found.moved:
        yield f"Look for the cause where {listed(found.moved)} would feel it: that is what really moved."
        yield (
            "Leave the other stressors alone, however long their bars: they moved no more than "
            "chance moves them."
        )
    else:
        yield (
            f"Look for no cause in the machine's resources: {found.a} and {found.b} lean on the same "
            f"ones, as far as can be told."
        )
        yield (
            f"Were they measured on more than {counted(found.units, 'machine')}, smaller changes "
            f"could be told."
        )
    yield (
        "Do not read the size of a change as time lost: importances are relative, the most important is 100."
    )


def _clearest(one: Reported) -> tuple[float, float, str]:
    return one.trust.chance, -one.trust.leading, one.application


def _lean(one: Reported | Profile) -> str:
    first = listed(one.trust.leaders)
    return (
        f"Look at what {first} exercises before anything else if {one.application} is slow: it explains most "
        f"in {percent(one.trust.leading, 0)} of resamples of the machines."
    )


#: Bars that are open to be seen; the others are folded away. Of a difference more are open.
SHOWN, CHANGED = 5, 8
#: Importances below this are named without their number.
NAMED = 1.0


@dataclass(frozen=True)
class Bar:
    """One stressor, cluster or category."""

    name: str
    importance: float
    low: float
    high: float
    categories: tuple[str, ...]

    @property
    def interval(self) -> str:
        """The interval in words."""
        return "\N{EN DASH}" if math.isnan(self.low) else f"{self.low:.0f} to {self.high:.0f}"


@dataclass(frozen=True)
class ProfileBars:
    """The profile of one application."""

    anchor: str
    profile: Reported | Profile
    number: str = ""
    shown: bool = False

    @property
    def title(self) -> str:
        """The stressors that the application depends on, or that they cannot be determined."""
        application, leaders = self.profile.application, self.profile.trust.leaders
        if not self.profile.trust.enough:
            return f"{application}: what it leans on cannot be told from these machines"
        which = "; which of them more cannot be told" if len(leaders) > 1 else ""
        return f"{application} leans on {listed(leaders)}{which}"

    @property
    def told(self) -> str:
        """The figures of trust in one line."""
        trust = self.profile.trust
        return (
            f"{trust.machines} machines of {trust.cpus} CPU models. What comes first does so by "
            f"{trust.by} in {percent(trust.leading, 0)} of resamples; that chance would do as well has p "
            f"{trust.chance:.3f}. With whole CPU models held out, R\N{SUPERSCRIPT TWO} is "
            f"{figures(trust.r2)} and the median error {percent(trust.median_error)}: "
            f"{worded(trust.predicting)}"
        )

    @property
    def top(self) -> list[Bar]:
        """The most important ones."""
        return _bars(self.profile.features.head(SHOWN), "stressor")

    @property
    def rest(self) -> list[Bar]:
        """Those after them, down to an importance of `NAMED`."""
        others = self.profile.features.iloc[SHOWN:]
        return _bars(others[others["importance"] >= NAMED], "stressor")

    @property
    def faint(self) -> list[str]:
        """The names of all others."""
        others = self.profile.features.iloc[SHOWN:]
        return others.loc[others["importance"] < NAMED, "stressor"].tolist()

    @property
    def seed(self) -> list[Bar]:
        """The ranking by the paper's method; empty if it was not computed."""
        features = self.profile.features
        if "seed_importance" not in features:
            return []
        return of_shares(features.set_index("stressor")["seed_importance"])

    @property
    def categories(self) -> list[Bar]:
        """The categories of table 1."""
        return _bars(self.profile.categories, "category")

    @property
    def clusters(self) -> list[str]:
        """Stressors that rise and fall together and hence share importance, of the most important ones."""
        known, told = self.profile.clusters.set_index("cluster"), []
        for cluster in self.profile.features["cluster"].head(SHOWN).unique():
            stressors = _listed(known["stressors"][cluster])
            if len(stressors) > 1:
                told.append(f"{', '.join(stressors)} (together {known['importance'][cluster]:.0f})")
        return told


def of_shares(shares: pd.Series) -> list[Bar]:
    """Return the first bars of importances by stressor that have no intervals, the most important first."""
    ranking = shares.sort_values(ascending=False, kind="stable").head(SHOWN)
    return [
        Bar(str(name), float(value), math.nan, math.nan, CATEGORIES.get(stressor_of(str(name)), ("other",)))
        for name, value in ranking.items()
    ]


def _bars(table: pd.DataFrame, name: str) -> list[Bar]:
    categories = "categories" if name == "stressor" else name
    return [
        Bar(str(row[name]), row["importance"], row["low"], row["high"], _listed(row[categories]))
        for row in table.to_dict("records")
    ]


def _listed(told: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in told.split(",") if part.strip())


@dataclass(frozen=True)
class Changes:
    """The difference of two profiles, with the test result for each stressor.

    Figures 11, 13 and 14 of seed 003; `number` is the figure's number.
    """

    anchor: str
    difference: ProfileDifference
    number: str = ""

    @property
    def title(self) -> str:
        """The stressors that changed significantly, or why they cannot be determined."""
        pair, moved = f"{self.difference.a} against {self.difference.b}", self.difference.moved
        if self.difference.reasons:
            return f"{pair}: what moved cannot be told from these machines"
        if not moved:
            return f"{pair}: no stressor really moved"
        more = f" and {counted(len(moved) - 3, 'more', 'more')}" if len(moved) > 3 else ""  # noqa: PLR2004 - as named
        return f"{pair}: {', '.join(moved[:3])}{more} really moved"

    @property
    def top(self) -> list[dict[str, Any]]:
        """The stressors that changed most, which are open to be seen."""
        return self.difference.features.head(CHANGED).to_dict("records")

    @property
    def seed_verdict(self) -> str:
        """The verdict of the algorithm of section 5.3."""
        stops, tolerance = self.difference.stops_at, self.difference.tolerance
        if stops is None:
            return f"walks to the end with a tolerance of {plain(tolerance)}: equivalent"
        return f"stops at {stops} with a tolerance of {plain(tolerance)}: not equivalent"


def profile_page(found: Profile, predictions: Sequence[Prediction], warnings: Sequence[str]) -> str:
    """Return one profile and the predictions as self-contained HTML."""
    return render(
        "irup_page.html",
        heading=f"What {found.application} leans on",
        profiles=[ProfileBars("profile", found, shown=True)],
        differences=[],
        predictions=predictions,
        measured=found.measured,
        warnings=warnings,
        points=list(profile_advice(found, predictions)),
        papers=[QUIHO],
    )


def difference_page(found: ProfileDifference) -> str:
    """Return the difference of two profiles as self-contained HTML."""
    return render(
        "irup_page.html",
        heading=f"{found.a} against {found.b}",
        profiles=[],
        differences=[Changes("difference", found)],
        predictions=(),
        warnings=(),
        points=list(difference_advice(found)),
        papers=[QUIHO],
    )
