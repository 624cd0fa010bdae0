"""What pages of profiles tell those who act on them: what to look at, to measure, and not to trust."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from data.fingerprints.params import TrustLimits
from serving.fingerprints.profiled import ProfiledPage, Reported
from serving.pages.apart import listed
from serving.pages.charts import counted, percent
from serving.pages.papers import worded
from training.fingerprints.differences import ProfileDifference
from training.fingerprints.prediction import Prediction
from training.fingerprints.profiles import Profile, Trust

#: An interval that is wider than this, as a share of the value, decides little.
_WIDE = 1.0


def report_advice(given: ProfiledPage, limits: TrustLimits) -> Iterator[str]:
    """Yield sentences for whoever reads the report of all profiles."""
    trusted = [one for one in given.profiles.values() if one.trust.enough]
    refused = [one for one in given.profiles.values() if not one.trust.enough]
    for one in sorted(trusted, key=lambda one: (-one.trust.r2, one.application))[: 1 if refused else 2]:
        yield _lean(one)
    if trusted:
        yield (
            "Compare versions of an application by the differences of profiles: only what really "
            "moved is a change."
        )
    if refused:
        names = listed([one.application for one in refused])
        best = max((one.trust for one in refused), key=lambda trust: (trust.machines, trust.cpus))
        yield f"Decide nothing by the rankings of {names}: they are shown, but cannot be told from chance."
        yield _more(best, limits.machines, limits.cpus)
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
        yield f"Measure more machines of other CPU models first: {worded('; '.join(found.trust.reasons))}."
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


def _lean(one: Reported | Profile) -> str:
    first = one.features["stressor"].iloc[0]
    return (
        f"Look at what {first} exercises before anything else if {one.application} is slow: it explains most "
        f"(R² {one.trust.r2:.2f} on CPU models that were held out)."
    )


def _more(trust: Trust, machines: int, cpus: int) -> str:
    """Say how many machines and CPU models are lacking at least."""
    lacking = [
        counted(most - have, f"more {what}")
        for most, have, what in ((machines, trust.machines, "machine"), (cpus, trust.cpus, "CPU model"))
        if most > have
    ]
    if lacking:
        return f"Measure {' and '.join(lacking)} at least, as different as you can get them."
    return (
        "Measure CPU models that differ more, or more stressors: the number of machines is not what "
        "is lacking."
    )
