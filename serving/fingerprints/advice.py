"""What pages of profiles tell those who act on them: what to look at, to measure, and not to trust."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from serving.fingerprints.profiled import ProfiledPage, Reported
from serving.pages.apart import listed
from serving.pages.charts import counted, percent
from serving.pages.papers import worded
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
