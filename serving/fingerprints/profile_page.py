"""Profiles and differences as a page of their own, which works offline."""

from __future__ import annotations

from collections.abc import Sequence

from serving.fingerprints.profile_bars import Bars, Changes
from serving.fingerprints.profiled import Reported
from serving.report import render
from training.fingerprints.differences import Difference
from training.fingerprints.prediction import Prediction
from training.fingerprints.profiles import Profile


def profile_page(found: Profile, predictions: Sequence[Prediction], warnings: Sequence[str]) -> str:
    """Return one profile, and the predictions asked for, as self-contained HTML."""
    reported = Reported(found.application, found.features, found.clusters, found.categories, found.trust)
    return render(
        "irup_page.html",
        heading=f"What {found.application} leans on",
        profiles=[Bars("profile", reported, shown=True)],
        differences=[],
        predictions=predictions,
        measured=found.measured,
        warnings=warnings,
    )


def difference_page(found: Difference) -> str:
    """Return the difference of two profiles as self-contained HTML."""
    return render(
        "irup_page.html",
        heading=f"{found.a} against {found.b}",
        profiles=[],
        differences=[Changes("difference", found)],
        predictions=(),
        warnings=(),
    )
