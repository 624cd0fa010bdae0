"""JSON schemas of profiles, for files, standard output and HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from data.fingerprints.tables import LARGEST, SMALLEST, direction_of_metric
from data.tables.documents import AS_WHOLE, JsonSection
from serving.http.schemas import Better, Name, Positive, example_config, finite_or_none


def _split_list(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Known = Annotated[float | None, AfterValidator(finite_or_none)]
Listed = Annotated[list[str], BeforeValidator(_split_list)]
#: A rate or a performance; limited so that products are finite.
Measure = Annotated[float, Field(ge=SMALLEST, le=LARGEST)]
Cores = Annotated[int, Field(ge=1, le=1_000_000), AS_WHOLE]
#: Maximal number of runs of a fingerprint, or measurements of an application, on one machine.
RUNS = 100


class Machine(JsonSection):
    """The fingerprint of one machine."""

    machine: Name
    cpu: Name | None = Field(
        default=None,
        description="The CPU model; machines of a model are held out together. Default: a separate model.",
    )
    cores: Cores | None = None
    stress_ng: Name | None = Field(default=None, description="Version of stress-ng.")
    rates: dict[Name, Measure | Annotated[list[Measure | None], Field(max_length=RUNS)] | None] = Field(
        description="Bogo operations per second by stressor: one rate, or one per repetition; null: not run. "
        "A name that ends in @all ran on all threads, any other on one.",
        min_length=1,
    )


class Application(JsonSection):
    """The performance of one application."""

    name: Name
    metric: Name = "seconds"
    better: Better = Field(
        default_factory=lambda fields: direction_of_metric(fields.get("metric", "")) or "lower",
        description="Whether lower or higher values are better. Default: higher for rates, otherwise lower, "
        "with a warning unless the metric is a time.",
    )
    values: dict[Name, Measure | Annotated[list[Measure], Field(min_length=1, max_length=RUNS)]] = Field(
        description="Values by machine: one, or one per repetition. Machines without values are predicted.",
        min_length=1,
    )


class IrupRequest(JsonSection):
    """Fingerprints, and the performance of one application on some of their machines."""

    model_config = example_config("serving.fingerprints")

    machines: list[Machine] = Field(
        min_length=1, max_length=10_000, description="Of machines with the same name, the first counts."
    )
    application: Application


class TrustAnswer(BaseModel):
    """The reliability of the ranking and of predictions."""

    verdict: Literal["trusted", "not enough diversity"] = Field(description="Verdict on the ranking.")
    reasons: list[str] = Field(
        description="Why the ranking cannot be trusted, and which machines would help; empty if trusted."
    )
    leaders: list[str] = Field(
        description="The most important stressors, in any order; empty if not trusted."
    )
    top_rank_stability: Known = Field(
        description="Share of resamples with these leaders, or without leaders with this first stressor."
    )
    by: Literal["importance", "correlation"] | None = Field(
        description="Measure of the ranking: shared importance, or correlation with the performance."
    )
    chance: Known = Field(
        description="p-value of the largest correlation of a stressor with the performance."
    )
    unpredicted: list[str] = Field(
        description="Why predictions on other CPU models cannot be trusted; empty if trusted."
    )
    machines: int = Field(description="Number of training machines.")
    cpus: int = Field(description="Number of their CPU models.")
    r2: Known = Field(description="R² of the logarithm, with whole CPU models held out; null if unknown.")
    median_error: Known = Field(description="Median relative error of the same predictions.")
    stability: Known = Field(description="Mean overlap (Jaccard) of the top five between resamples.")


class Ranked(BaseModel):
    """An importance (the largest is 100) with its interval over resamples."""

    importance: float
    low: Known
    high: Known
    permutation: Known = Field(
        description="Growth of the error on held-out CPU models when shuffled (the largest is 100)."
    )


class FeatureAnswer(Ranked):
    """One stressor."""

    stressor: str
    score: Known = Field(description="Positive if a higher rate goes with a faster application.")
    cluster: int = Field(description="Importance is divided among the correlated stressors of a cluster.")
    categories: Listed = Field(description="Categories of the quiho paper, table 1.")


class ClusterAnswer(Ranked):
    """Correlated stressors."""

    cluster: int
    stressors: Listed


class CategoryAnswer(Ranked):
    """One category of the quiho paper, table 1."""

    category: str


class PredictionAnswer(BaseModel):
    """The application's performance on a machine that was only fingerprinted."""

    machine: str
    value: float
    low: float
    high: float
    confidence: float
    reasons: list[str] = Field(description="Why the prediction cannot be trusted; may be empty.")


class ProfileAnswer(BaseModel):
    """An inferred resource utilisation profile."""

    application: str
    metric: str
    better: Better
    trust: TrustAnswer
    features: list[FeatureAnswer] = Field(description="Most important first; no ranking if not trusted.")
    clusters: list[ClusterAnswer]
    categories: list[CategoryAnswer]
    predictions: list[PredictionAnswer]
    warnings: list[str] = Field(description="Excluded data, and remarks on the fingerprints.")


class Measurements(BaseModel):
    """The training data: a row per machine, in the order of ``machines``."""

    columns: list[Name] = Field(min_length=1)
    machines: list[Name] = Field(min_length=1)
    cpus: list[Name]
    rates: list[list[Positive | None]]
    values: list[Positive]


class ProfileFile(ProfileAnswer):
    """A profile of ``irup profile --json``, with its training data for ``irup diff``."""

    measured: Measurements
