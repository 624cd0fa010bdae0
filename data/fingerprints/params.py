"""The section ``fingerprints`` of params.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field

from data.params import Count, FamilySection, Ingest, Share
from data.tables.documents import Section

Entry = Literal["ensemble", "forest", "seed", "median"]


class TrustLimits(Section):
    """Limits that a profile must reach; otherwise the answer is "not enough diversity".

    ``min_top_rank_stability`` is the least share of the resamples with the same leading stressors, which must
    also be significant; ``min_r2`` (least) and ``max_median_error`` (largest median relative error) apply to
    predictions only.
    """

    min_machines: Count = 15
    min_cpus: Count = 5
    min_top_rank_stability: Share = 0.9
    min_r2: Annotated[float, Field(lt=1)] = 0.5
    max_median_error: Share = 0.25


class Profiling(Section):
    """Parameters of profiles and their comparison, for at most ``max_applications`` applications.

    Machines are resampled ``n_bootstrap`` times for intervals of ``confidence``; two profiles are compared by
    as many permutations, at ``significance``. ``tolerance`` (largest importance: 100) is the difference that
    the algorithm of the quiho paper calls similar; its method is fitted by ``boosting``, and its
    stability estimated with ``n_thesis_bootstrap``.
    """

    max_applications: Count = 120
    n_bootstrap: Count = 200
    confidence: Share = 0.9
    significance: Share = 0.025
    tolerance: Annotated[float, Field(gt=0)] = 10
    trust: TrustLimits = TrustLimits()
    boosting: Literal["gradient-boosting", "xgboost"] = "gradient-boosting"
    n_thesis_bootstrap: Annotated[int, Field(ge=2)] = 5


def _require_model(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    if not {*entries} - {"median"}:
        raise ValueError("expected at least one model; median is only a reference")
    return entries


class Predicting(Section):
    """Parameters of the evaluation on held-out CPU models: the relative error of a correct prediction."""

    tolerance: Share = 0.1
    entries: Annotated[tuple[Entry, ...], AfterValidator(_require_model)] = get_args(Entry)


class ValidateFingerprints(Section):
    """Largest share of missing rates of a run (over the stressors), and of a stressor (over the machines).

    A run or stressor with a larger share is left out; smaller gaps are left to the model.
    """

    max_missing_fraction: Share = 0.2


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
