"""The section ``fingerprints`` of params.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from data.params import Count, FamilySection, Ingest, Share
from data.tables.documents import Section

Entry = Literal["ensemble", "forest", "seed", "median"]


class TrustLimits(Section):
    """Limits that a profile must reach; otherwise the answer is "not enough diversity".

    ``leading`` is the least share of the resamples with the same leading stressors, which must also be
    significant; ``r2`` (least) and ``error`` (largest median relative error) apply to predictions only.
    """

    machines: Count = 15
    cpus: Count = 5
    leading: Share = 0.9
    r2: float = 0.5
    error: Share = 0.25


class Profiling(Section):
    """Parameters of profiles and their comparison, for at most ``applications`` applications.

    Machines are resampled ``resamples`` times for intervals of ``confidence``; two profiles are compared by
    as many permutations, at ``significance``. ``tolerance`` (largest importance: 100) is the difference that
    the algorithm of seed 003 calls similar; its method is fitted by ``boosting``, and its stability estimated
    with ``seed_resamples``.
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
    """Parameters of the evaluation on held-out CPU models: the relative error of a correct prediction."""

    tolerance: Share = 0.1
    entries: tuple[Entry, ...] = get_args(Entry)


class ValidateFingerprints(Section):
    """Largest share of missing rates of a run (over the stressors), and of a stressor (over the machines).

    A run or stressor with a larger share is left out; smaller gaps are left to the model.
    """

    missing: Share = 0.2


class FeaturizeFingerprints(Section):
    """Rates that are used: on one thread, on all threads of the machine, or both as separate columns."""

    threads: Literal["one", "all", "both"] = "both"


class Fingerprints(FamilySection):
    """The family ``fingerprints``: one section per stage."""

    family: ClassVar[str] = "fingerprints"
    ingest: Ingest = Ingest(path=Path("data/raw/fingerprints"))
    checks: ValidateFingerprints = ValidateFingerprints()
    featurize: FeaturizeFingerprints = FeaturizeFingerprints()
    profile: Profiling = Profiling()
    evaluate: Predicting = Predicting()
