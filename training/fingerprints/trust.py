"""How far a profile can be trusted: its ranking of stressors, and its predictions.

A ranking is trusted under two conditions. Some stressor correlates with the performance more closely than
with performances permuted among the CPU models, and the same stressors lead when the machines are resampled.
How well a regression predicts held-out CPU models is a separate question: few machines may show clearly which
stressors an application depends on, and yet not how fast the next CPU will be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from data.fingerprints.params import TrustLimits
from features.fingerprints.matrix import Measured
from training.fingerprints.importance import (
    STILL,
    HeldOut,
    log_rates,
    needed_machines_factor,
    standardise_columns,
)

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Unit = Literal["CPU models", "machines"]
Lens = Literal["importance", "correlation"]
#: Size of the largest group of leaders; a larger one would be uninformative.
LEADERS = 5
#: Largest factor of the number of machines that is recommended.
MANY_TIMES = 10.0


@dataclass(frozen=True)
class Trust:
    """The evidence for and against a profile, which must be falsifiable (section 7, the fingerprint paper).

    `r2` is that of log performance with whole CPU models held out (negative: worse than the mean),
    `median_error` the median relative error of these predictions. `stability` is the mean overlap (Jaccard)
    of the top five stressors between bootstrap resamples of the machines. `leaders` are the stressors ahead
    of all others by the measure `by`, in any order, empty if there are `reasons`; `top_rank_stability` is the
    share of the resamples where they are ahead; without leaders, where the first stressor is. `chance` is a
    p-value: how often permuted performances correlate as closely with any stressor. `reasons` and
    `unpredicted` tell why the ranking, and why predictions on other CPU models, cannot be trusted; empty
    where they can.
    """

    machines: int
    cpus: int
    r2: float
    median_error: float
    stability: float
    leaders: tuple[str, ...]
    top_rank_stability: float
    by: Lens
    chance: float
    reasons: tuple[str, ...]
    unpredicted: tuple[str, ...]

    @property
    def enough(self) -> bool:
        """Whether the machines are diverse enough for a ranking."""
        return not self.reasons

    @property
    def ranking_verdict(self) -> str:
        """The verdict on the ranking in one line: "trusted: ..." or "not enough diversity: ..."."""
        if self.reasons:
            return f"not enough diversity: {'; '.join(self.reasons)}"
        names = self.leaders
        who = f"{names[0]} comes" if len(names) == 1 else f"{', '.join(names)} in any order come"
        return f"trusted: {who} first by {self.by} in {self.top_rank_stability:.0%} of resamples"

    @property
    def prediction_verdict(self) -> str:
        """The verdict on predictions in one line: "predictions are trusted" or why not."""
        reason = "; ".join(self.unpredicted)
        return f"predictions cannot be trusted: {reason}" if reason else "predictions are trusted"


@dataclass(frozen=True)
class Lead:
    """The leaders of a ranking, over resamples of the machines.

    `columns` is the smallest group ahead of all others in enough resamples, or the first column alone;
    `share` the share of those resamples; `settled`: whether it is enough. `rival` is the column that is most
    often ahead of the group (if none ever is, most often next); `times` the factor by which the number of
    such machines must grow to settle the order (distances grow with the square root): 1 or more, infinity if
    no number suffices.
    """

    by: Lens
    columns: tuple[int, ...]
    share: float
    settled: bool
    rival: int
    times: float


def choose_lead(shares: Floats, related: Floats, limit: float) -> Lead:
    """Return the leaders of a ranking of stressors (column indices), by importance or by correlation.

    Importance is divided among correlated stressors. This hides a cause among many similar ones, although the
    cause still has the closest correlation with the performance. So correlation is used if its leaders are
    also the first by importance as measured, and lead by correlation in more resamples than the leaders by
    importance do by importance. `shares` are importances, `related` correlations, as in `find_leaders`.
    """
    by_importance = find_leaders("importance", shares, limit)
    by_correlation = find_leaders("correlation", related, limit)
    first = np.argsort(-shares[0], kind="stable")[: len(by_correlation.columns)]
    same = set(first.tolist()) == set(by_correlation.columns)
    return by_correlation if same and by_correlation.share > by_importance.share else by_importance


def find_leaders(by: Lens, values: Floats, limit: float) -> Lead:
    """Return the smallest group of columns that leads; if no group of up to five does, the first alone.

    `values`, shape (1 + n_resamples, n_columns), are importances or correlations, as measured in the first
    row. Groups are its largest column, its two largest, and so on, never all columns. A group leads if all
    its values exceed all others in at least the share `limit` of the resamples. The only column of `values`
    always leads; with more, ValueError without resamples.
    """
    order, first = np.argsort(-values[0], kind="stable"), None
    for size in range(1, min(LEADERS + 1, len(order))):
        lead = _lead_of_group(by, order[:size], order[size:], values[1:], limit)
        if lead.settled:
            return lead
        first = first or lead
    return first or Lead(by, (0,), 1.0, True, 0, 1.0)


def _lead_of_group(by: Lens, group: Rows, others: Rows, resampled: Floats, limit: float) -> Lead:
    from scipy.special import ndtri

    best = others[resampled[:, others].argmax(axis=1)]
    distance = resampled[:, group].min(axis=1) - resampled[np.arange(len(resampled)), best]
    ahead = distance > 0
    rival = np.bincount(best if ahead.all() else best[~ahead]).argmax()
    clear = float(distance.mean() / max(distance.std(), STILL))
    times = (float(ndtri(limit)) / clear) ** 2 if clear > 0 else np.inf
    share, members = float(ahead.mean()), tuple(group.tolist())
    return Lead(by, members, share, share >= limit, int(rival), max(times, 1.0))


@dataclass(frozen=True)
class Chance:
    """The closest absolute correlation of any stressor (column `closest`) with the performance.

    `usual` is the level that the closest exceeds in a share `level` of the permutations.
    """

    closest: int
    correlation: float
    usual: float
    p_value: float

    @property
    def machines_factor(self) -> float:
        """The factor of the number of machines that would make this correlation significant, or infinity."""
        return (self.usual / self.correlation) ** 2 if self.correlation > 0 else np.inf


def chance_correlation(measured: Measured, deals: int, level: float, seed: int) -> Chance:
    """Return the closest correlation of any stressor with the performance, and its p-value.

    The p-value is the share of the original and `deals` (at least one) permutations of performances among CPU
    models whose closest correlation is at least as large. The machines of a CPU model are near-copies: their
    common part is permuted as a whole, the rest among all machines. Taking the closest of all stressors
    allows for their number (Westfall and Young 1993).
    """
    permuted = _permute_speeds(measured, deals, np.random.default_rng(seed))
    dealt = np.column_stack([measured.log_speed, permuted])
    scores = standardise_columns(log_rates(measured.x))
    correlations = np.abs(scores.T @ standardise_columns(dealt)) / len(dealt)
    largest = correlations.max(axis=0)
    # a deal that changes nothing must count as equal in spite of rounding
    reached = largest >= largest[0] * (1 - STILL)
    closest, usual = int(correlations[:, 0].argmax()), float(np.quantile(largest[1:], 1 - level))
    return Chance(closest, float(largest[0]), usual, float(reached.mean()))


def _permute_speeds(measured: Measured, deals: int, generator: np.random.Generator) -> Floats:
    names, rows = np.unique(measured.cpus, return_inverse=True)
    common = np.bincount(rows, measured.log_speed) / np.bincount(rows)
    left = measured.log_speed - common[rows]
    order = generator.permuted(np.tile(np.arange(len(names)), (deals, 1)), axis=1)
    return (common[order][:, rows] + generator.permuted(np.tile(left, (deals, 1)), axis=1)).T


def too_few_messages(machines: int, cpus: int, limits: TrustLimits) -> Iterator[str]:
    """Yield a message for machines, and one for CPU models, if they are fewer than `limits` require."""
    required = (machines, limits.min_machines, "machines"), (cpus, limits.min_cpus, "CPU models")
    for have, least, what in required:
        if have < least:
            yield f"{have} {what}, fewer than {least}: {least - have} more are needed at least"


@dataclass(frozen=True)
class Evidence:
    """The evidence that a profile is judged by; `unit` is the unit of resampling."""

    measured: Measured
    unit: Unit
    lead: Lead
    chance: Chance
    worth: HeldOut

    @cached_property
    def n_cpu_models(self) -> int:
        """The number of CPU models."""
        return len(np.unique(self.measured.cpus))

    @property
    def n_units(self) -> int:
        """The number of CPU models or machines, whichever are resampled."""
        return self.n_cpu_models if self.unit == "CPU models" else len(self.measured.y)

    def ranking_reasons(self, limits: TrustLimits, level: float) -> Iterator[str]:
        """Yield messages why the ranking cannot be trusted, and which machines would help; else none."""
        yield from too_few_messages(len(self.measured.y), self.n_cpu_models, limits)
        if self.chance.p_value > level:
            chance, named = self.chance, self.measured.columns[self.chance.closest]
            advice = self._advise_machines(
                chance.machines_factor,
                f"on which {named} differs are needed to decide whether it is the cause",
                "performance follows no measured stressor: other stressors are needed, not other machines",
            )
            yield (
                f"no stressor correlates significantly: the largest is of {named}, a correlation of "
                f"{chance.correlation:.2f}, and chance alone reaches {chance.usual:.2f} "
                f"(p {chance.p_value:.3f}, more than {level:g}): {advice}"
            )
        if not self.lead.settled:
            columns, scores = self.measured.columns, standardise_columns(log_rates(self.measured.x))
            first, rival = self.lead.columns[0], self.lead.rival
            alike = float(scores[:, first] @ scores[:, rival]) / len(scores)
            by = "correlation with the performance" if self.lead.by == "correlation" else self.lead.by
            differing = "on which only one of the two is high"
            advice = self._advise_machines(
                self.lead.times,
                f"{differing} are needed",
                f"more machines like these will not help: add machines {differing}",
            )
            yield (
                "no group of stressors comes first in the required "
                f"{limits.min_top_rank_stability:.0%} of resamples: {columns[first]} has the highest {by} in "
                f"{self.lead.share:.0%}, next most often {columns[rival]}; their rates have a correlation of "
                f"{alike:.2f}, so {advice}"
            )

    def prediction_reasons(self, limits: TrustLimits, seed: int) -> Iterator[str]:
        """Yield messages why predictions cannot be trusted, and which machines would help; else none."""
        yield from too_few_messages(len(self.measured.y), self.n_cpu_models, limits)
        if not self.worth.r2 >= limits.min_r2:
            advice = self._advise_machines(
                needed_machines_factor(self.measured, self.worth.r2, limits.min_r2, seed),
                "like these would reach it",
                "more machines like these would hardly reach it, only more different ones",
            )
            short = f"{limits.min_r2 - self.worth.r2:.2f} less than {limits.min_r2:g}"
            yield f"R2 {self.worth.r2:.2f} on held-out CPU models, {short}: {advice}"
        if self.worth.median_error > limits.max_median_error:
            off = f"median error {self.worth.median_error:.1%} on held-out CPU models"
            yield f"{off}, more than {limits.max_median_error:.0%}"

    def _advise_machines(self, times: float, fewer: str, hopeless: str) -> str:
        if not times <= MANY_TIMES:
            return hopeless
        return f"about {ceil(self.n_units * max(times - 1, 0)) + 1} more {self.unit} {fewer}"


def judge_profile(
    evidence: Evidence, stability: float, limits: TrustLimits, level: float, seed: int
) -> Trust:
    """Return whether a profile's ranking and predictions can be trusted, with reasons in words if not.

    `stability` is the mean overlap of the top five between resamples, `level` the significance level; `seed`
    is for the regressions that estimate the number of machines needed.
    """
    measured, lead, worth = evidence.measured, evidence.lead, evidence.worth
    reasons = tuple(evidence.ranking_reasons(limits, level))
    unpredicted = tuple(evidence.prediction_reasons(limits, seed))
    leaders = () if reasons else tuple(measured.columns[column] for column in lead.columns)
    figures = len(measured.y), evidence.n_cpu_models, worth.r2, worth.median_error, stability
    return Trust(*figures, leaders, lead.share, lead.by, evidence.chance.p_value, reasons, unpredicted)
