"""The knobs of fingerprints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from data.params import Count, FamilySection, Ingest, Share
from data.tables.documents import Section

Entry = Literal["ensemble", "forest", "seed", "median"]


class TrustLimits(Section):
    """What a profile must reach, or the answer is "not enough diversity".

    The same stressors must come first in the share ``leading`` of the resamples, and stand out from chance
    at the ``significance`` of the section; ``r2`` and ``error``, the median one, are for predictions alone.
    """

    machines: Count = 15
    cpus: Count = 5
    leading: Share = 0.9
    r2: float = 0.5
    error: Share = 0.25


class Profiling(Section):
    """How profiles are made and compared, of ``applications`` at most.

    Machines are resampled ``resamples`` times for an interval of ``confidence``; two profiles differ at
    ``significance``, after as many exchanges. ``tolerance`` (on the scale of 100) is what the seed's
    algorithm calls similar. The seed's own method is fitted by ``boosting``, and on ``seed_resamples`` for
    its stability.
    """

    applications: Count = 120
    resamples: Count = 200
    confidence: Share = 0.9
    significance: Share = 0.025
    tolerance: Annotated[float, Field(gt=0)] = 10
    trust: TrustLimits = TrustLimits()
    boosting: Literal["gradient-boosting", "xgboost"] = "gradient-boosting"
    seed_resamples: Annotated[int, Field(ge=2)] = 5


class Predicting(Section):
    """How predictions are judged: on CPU models held out, within this relative error of the truth."""

    tolerance: Share = 0.1
    entries: tuple[Entry, ...] = get_args(Entry)


class ValidateFingerprints(Section):
    """The share of the fingerprint that a machine may lack, and of the machines that may lack a stressor.

    Beyond it either is left out, below it the gaps are left to the model.
    """

    missing: Share = 0.2


class FeaturizeFingerprints(Section):
    """Which rates are used: on one thread, on all threads of the machine, or both side by side."""

    threads: Literal["one", "all", "both"] = "both"


class Fingerprints(FamilySection):
    """The family ``fingerprints``: a section per verb."""

    family: ClassVar[str] = "fingerprints"
    ingest: Ingest = Ingest(path=Path("data/raw/fingerprints"))
    checks: ValidateFingerprints = ValidateFingerprints()
    featurize: FeaturizeFingerprints = FeaturizeFingerprints()
    profile: Profiling = Profiling()
    evaluate: Predicting = Predicting()
