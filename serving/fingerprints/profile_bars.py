"""A profile as a page shows it: bars from 100 downwards, or the reason why there is nothing to rank."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from data.fingerprints.stressors import CATEGORIES
from features.fingerprints.matrix import stressor_of
from serving.fingerprints.profiled import Reported
from serving.pages.charts import figures, percent
from training.fingerprints.profiles import Trust

#: Bars that are open to be seen; the others are folded away.
SHOWN = 5
#: From this importance on, the second stressor is worth naming.
SECOND = 10.0
#: Importances below this are named without their number.
NAMED = 1.0


@dataclass(frozen=True)
class Bar:
    """One stressor, cluster or category.

    Attributes
    ----------
    importance, low, high : float
        Most important = 100; ``low`` and ``high`` are the interval over the resamples, NaN if there is none.
    categories : tuple of str
        Of table 1, in its order.
    """

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
class Bars:
    """The profile of one application.

    Attributes
    ----------
    anchor, title : str
    number : str
        The figure of the seed that this is; may be empty.
    shown : bool
        Whether its ranking is open to be seen even if it cannot be trusted.
    application : str
    trust : Trust
    top : list of Bar
        The most important ones.
    seed : list of Bar
        What the seed's method ranks first.
    rest : list of Bar
        Those after them, down to an importance of `NAMED`.
    faint : list of str
        The names of all others.
    categories : list of Bar
        The categories of table 1.
    clusters : list of str
        Stressors that rise and fall together and hence share importance, where the most important have such
        companions.
    """

    anchor: str
    title: str
    number: str
    shown: bool
    application: str
    trust: Trust
    top: list[Bar]
    seed: list[Bar]
    rest: list[Bar]
    faint: list[str]
    categories: list[Bar]
    clusters: list[str]

    @property
    def told(self) -> str:
        """The figures of trust in one line."""
        trust = self.trust
        return (
            f"{trust.machines} machines of {trust.cpus} CPU models. With whole CPU models held out, "
            f"R\N{SUPERSCRIPT TWO} is {figures(trust.r2)} and the median error "
            f"{percent(trust.median_error)}. The top five overlap by {figures(trust.stability)} between "
            "resamples"
        )


def bars(anchor: str, profile: Reported, number: str = "", *, shown: bool = False) -> Bars:
    """Prepare `profile` for the page.

    Parameters
    ----------
    number : str
        The figure of the seed that this is, if any.
    shown : bool
        Whether its ranking is open to be seen even if it cannot be trusted.
    """
    every = list(_bars(profile.features, "stressor"))
    return Bars(
        anchor,
        title(profile),
        number,
        shown,
        profile.application,
        profile.trust,
        every[:SHOWN],
        of_shares(profile.seed_ranking),
        [bar for bar in every[SHOWN:] if bar.importance >= NAMED],
        [bar.name for bar in every[SHOWN:] if bar.importance < NAMED],
        list(_bars(profile.categories, "category")),
        _companions(profile),
    )


def of_shares(ranking: pd.Series) -> list[Bar]:
    """Return the first bars of a ranking without intervals: importances by stressor, most important first."""
    return [
        Bar(str(name), float(value), math.nan, math.nan, CATEGORIES.get(stressor_of(str(name)), ("other",)))
        for name, value in ranking.head(SHOWN).items()
    ]


def title(profile: Reported) -> str:
    """Say what the application leans on, or that this cannot be told."""
    if not profile.trust.enough:
        return f"{profile.application}: what it leans on cannot be told from these machines"
    first, *others = profile.top
    second = profile.features["importance"].iloc[1:2]
    then = f" first, then on {others[0]}" if (second >= SECOND).any() else ""
    return f"{profile.application} leans on {first}{then}"


def _bars(table: pd.DataFrame, name: str) -> Iterator[Bar]:
    for row in table.to_dict("records"):
        categories = row["categories"] if name == "stressor" else row[name]
        yield Bar(
            str(row[name]),
            float(row["importance"]),
            float(row["low"]),
            float(row["high"]),
            tuple(part.strip() for part in str(categories).split(",") if part.strip()),
        )


def _companions(profile: Reported) -> list[str]:
    told = []
    for cluster in profile.features["cluster"].head(SHOWN).unique():
        row = profile.clusters.set_index("cluster").loc[cluster]
        stressors = [name.strip() for name in str(row["stressors"]).split(",")]
        if len(stressors) > 1:
            told.append(f"{', '.join(stressors)} (together {float(row['importance']):.0f})")
    return told
