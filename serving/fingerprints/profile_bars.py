"""Profiles and their differences as bar charts for pages, and recommendations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from data.tables.problems import shorten_names
from features.fingerprints.matrix import categories_of
from serving.fingerprints.profiled import ProfiledPage, Reported
from serving.reports.charts import percent, plain_number, two_decimals, with_noun
from serving.reports.rendering import QUIHO, render, reword_text
from serving.reports.separation import join_names
from training.fingerprints.differences import ProfileDifference
from training.fingerprints.prediction import Prediction
from training.fingerprints.profiles import Profile

#: Width of an interval, as a share of the value, above which a prediction is uncertain.
_WIDE = 1.0
#: Numbers of bars of a profile and of a difference that are not folded.
SHOWN, CHANGED = 5, 8
#: Importance below which only the name is shown.
NAMED = 0.5


def report_advice(page_data: ProfiledPage) -> Iterator[str]:
    """Yield plain text on all profiles: the clearest rankings, those not to use, and errors of predictions.

    The clearest are at most two trusted profiles, or one if any profile is not trusted.
    """
    trusted = [profile for profile in page_data.profiles.values() if profile.trust.enough]
    refused = [profile for profile in page_data.profiles.values() if not profile.trust.enough]
    trusted.sort(key=lambda row: (row.trust.chance, -row.trust.top_rank_stability, row.application))
    for profile in trusted[: 1 if refused else 2]:
        yield _leaders_advice(profile)
    if trusted:
        yield "To compare versions of an application, compare their profiles; ignore insignificant changes."
    if refused:
        names = join_names([profile.application for profile in refused])
        nearest = min(refused, key=lambda profile: (len(profile.trust.reasons), profile.trust.chance))
        first = " first (others: section Profiles)" if len(nearest.trust.reasons) > 1 else ""
        yield f"Do not use the rankings of {names}: the machines do not show which stressors come first."
        reason = reword_text(nearest.trust.reasons[0])
        yield (
            f"For example, to make the ranking of {nearest.application} usable, solve this problem{first}. "
            f"{reason[:1].upper()}{reason[1:]}."
        )
    errors = page_data.accuracy.drop(columns="application").median()
    if errors.notna().any():
        yield (
            "Expect errors in predictions for unknown CPU models. The section Profiles has those of "
            "`perfjudge irup profile --predict` (extra trees). The best of the other methods, in the section "
            f"Stability and accuracy, has a median error of {percent(errors.min())} (median over the "
            "applications)."
        )


def profile_advice(profile: Profile, predictions: Sequence[Prediction]) -> Iterator[str]:
    """Yield sentences on one profile: use of its ranking and predictions, limits, machines to measure."""
    trust = profile.trust
    if trust.enough:
        yield _leaders_advice(profile)
        yield (
            "Measure the application and these stressors again after a change; `perfjudge irup diff` tests "
            "which stressors changed significantly."
        )
    else:
        yield "Do not use this ranking: any data gives one, and this one may be due to chance."
        yield f"To get a trusted ranking: {reword_text('; '.join(trust.reasons))}."
    if trust.unpredicted:
        yield f"Do not use its predictions: {reword_text('; '.join(trust.unpredicted))}."
    yield (
        f"Do not apply it to other hardware: it holds for {with_noun(trust.machines, 'machine')} of "
        f"{with_noun(trust.cpus, 'CPU model')}, where the median error is {percent(trust.median_error, 0)}."
    )
    wide = [row.machine for row in predictions if row.high - row.low > _WIDE * abs(row.value)]
    if wide:
        yield (
            f"Run the application on {join_names(wide)} before you decide: the interval is wider than the "
            "predicted value."
        )


def difference_advice(difference: ProfileDifference) -> Iterator[str]:
    """Yield three plain sentences: stressors to examine, or machines to measure, and how to read a change."""
    if difference.reasons:
        yield f"Do not use this difference: {reword_text('; '.join(difference.reasons))}."
        yield f"Measure {difference.a} and {difference.b} on the same machines, and on more of them."
    elif difference.moved_stressors:
        yield (
            f"Look for a cause that affects {join_names(difference.moved_stressors)}: these importances "
            "changed significantly."
        )
        yield "Ignore the other stressors, even those with long bars: their changes are not significant."
    else:
        yield (
            f"Do not look for a cause in the machine's resources: the profiles of {difference.a} and "
            f"{difference.b} do not differ significantly."
        )
        yield f"Measure them on more than {with_noun(difference.units, 'machine')} to detect smaller changes."
    yield "Do not read the size of a change as lost time: importances are relative, the largest is 100."


def _leaders_advice(profile: Reported | Profile) -> str:
    trust = profile.trust
    lead = "it leads" if len(trust.leaders) == 1 else "they lead"
    return (
        f"If {profile.application} is slow, look first at the resources stressed by "
        f"{join_names(trust.leaders)}: {lead} the ranking in {percent(trust.top_rank_stability, 0)} of "
        "resamples."
    )


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
        """The interval as text; a dash for NaN."""
        return "\N{EN DASH}" if math.isnan(self.low) else f"{self.low:.0f} to {self.high:.0f}"


@dataclass(frozen=True)
class ProfileBars:
    """The profile of one application; `number` is the paper's figure, `shown`: not folded."""

    anchor: str
    profile: Reported | Profile
    number: str = ""
    shown: bool = False

    @property
    def title(self) -> str:
        """The stressors that the application depends on, or that they are unknown."""
        application, leaders = self.profile.application, self.profile.trust.leaders
        if not self.profile.trust.enough:
            return f"{application}: these machines do not show which resources it depends on"
        order = "; their order is uncertain" if len(leaders) > 1 else ""
        return f"{application} depends on {join_names(leaders)}{order}"

    @property
    def reliability(self) -> str:
        """The figures of the reliability in one line."""
        trust = self.profile.trust
        first = "the leading stressors are" if trust.enough else "the most frequent first stressor is"
        return (
            f"{trust.machines} machines of {trust.cpus} CPU models. Sorted by {trust.by}, {first} first "
            f"in {percent(trust.top_rank_stability, 0)} of resamples; the p-value of the largest "
            f"correlation with the performance is {trust.chance:.3f}. With whole CPU models held out, "
            f"R\N{SUPERSCRIPT TWO} is {two_decimals(trust.r2)} and the median error "
            f"{percent(trust.median_error)}; predictions are {'not ' if trust.unpredicted else ''}trusted"
        )

    @property
    def top(self) -> list[Bar]:
        """The most important stressors."""
        return _table_bars(self.profile.features.head(SHOWN), "stressor")

    @property
    def rest(self) -> list[Bar]:
        """The next stressors, down to an importance of `NAMED`."""
        others = self.profile.features.iloc[SHOWN:]
        return _table_bars(others[others["importance"] >= NAMED], "stressor")

    @property
    def faint(self) -> list[str]:
        """The names of the other stressors."""
        others = self.profile.features.iloc[SHOWN:]
        return others.loc[others["importance"] < NAMED, "stressor"].tolist()

    @property
    def seed(self) -> list[Bar]:
        """The ranking by the paper's method; empty if it was not computed."""
        features = self.profile.features
        if "seed_importance" not in features:
            return []
        return bars_from_shares(features.set_index("stressor")["seed_importance"])

    @property
    def categories(self) -> list[Bar]:
        """The categories of table 1 in the paper."""
        return _table_bars(self.profile.categories, "category")

    @property
    def clusters(self) -> list[str]:
        """The clusters of correlated stressors, which divide importance, among the most important ones."""
        clusters, texts = self.profile.clusters.set_index("cluster"), []
        for cluster in self.profile.features["cluster"].head(SHOWN).unique():
            stressors = clusters["stressors"][cluster]
            if ", " in stressors:
                texts.append(f"{stressors} (total importance {clusters['importance'][cluster]:.0f})")
        return texts


def bars_from_shares(shares: pd.Series) -> list[Bar]:
    """Return bars of the five largest `shares`, largest first, with NaN as interval ends.

    `shares` (by stressor) become importances unchanged: the largest must already be scaled to 100.
    """
    ranking = shares.sort_values(ascending=False, kind="stable").head(SHOWN)
    return [
        Bar(str(name), value, math.nan, math.nan, categories_of(str(name))) for name, value in ranking.items()
    ]


def _table_bars(table: pd.DataFrame, name: str) -> list[Bar]:
    categories = "categories" if name == "stressor" else name
    return [
        Bar(str(row[name]), row["importance"], row["low"], row["high"], tuple(row[categories].split(", ")))
        for row in table.to_dict("records")
    ]


@dataclass(frozen=True)
class DifferenceBars:
    """The difference of two profiles; `number` is the paper's figure (quiho paper, figures 11, 13 and 14)."""

    anchor: str
    difference: ProfileDifference
    number: str = ""

    @property
    def title(self) -> str:
        """The stressors that changed significantly, or that they are unknown."""
        pair, moved = f"{self.difference.a} against {self.difference.b}", self.difference.moved_stressors
        if self.difference.reasons:
            return f"{pair}: these machines do not show what changed"
        if not moved:
            return f"{pair}: no stressor differs significantly"
        verb = "differs" if len(moved) == 1 else "differ"
        return f"{pair}: {shorten_names(moved, 3)} {verb} significantly"

    @property
    def top(self) -> list[dict[str, Any]]:
        """The stressors with the smallest p-values."""
        return self.difference.features.head(CHANGED).to_dict("records")

    @property
    def seed_verdict(self) -> str:
        """The verdict of the paper's algorithm (section 5.3)."""
        stops, tolerance = self.difference.stops_at, self.difference.tolerance
        if stops is None:
            return f"finds no change of more than {plain_number(tolerance)} points: equivalent"
        return (
            "examines the stressors in descending order of importance in the first profile. It stops at the "
            f"first change of more than {plain_number(tolerance)} points, that of {stops}, and calls the "
            "profiles not equivalent"
        )


def profile_page(profile: Profile, predictions: Sequence[Prediction], warnings: Sequence[str]) -> str:
    """Return a profile as a self-contained HTML page with advice, and any predictions and warnings."""
    heading = f"Resources that {profile.application} depends on"
    bars = ProfileBars("profile", profile, shown=True)
    content = {"predictions": predictions, "measured": profile.measured, "warnings": warnings}
    return _render_page(heading, profile_advice(profile, predictions), profiles=[bars], **content)


def difference_page(difference: ProfileDifference) -> str:
    """Return the difference of two profiles (b - a) as a self-contained HTML page with advice."""
    heading, bars = f"{difference.a} against {difference.b}", DifferenceBars("difference", difference)
    return _render_page(heading, difference_advice(difference), differences=[bars])


def _render_page(heading: str, points: Iterable[str], **shown: Any) -> str:
    content = dict.fromkeys(("profiles", "differences", "predictions", "warnings"), ()) | shown
    return render("irup_page.html", heading=heading, points=list(points), papers=[QUIHO], **content)
