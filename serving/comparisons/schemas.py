"""Schemas of answers about comparisons, for OpenAPI and the client."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from data.comparisons.pair import Side
from data.comparisons.params import FeatureSet
from serving.comparisons.compare.weighing import Outcome
from serving.comparisons.guarantees import DecidedAnswer, GuaranteeAnswer
from serving.comparisons.judge import DecidedBy
from serving.http.schemas import ModelAnswer, ServedModel, example_config
from serving.reports.verdict_lines import Answer
from training.comparisons.base_rate import BaseRate
from training.estimators.answering import Unit


class ReasonAnswer(BaseModel):
    """Contribution of one feature to the probability; positive = towards fail."""

    feature: str
    value: float | None = Field(description="In the units of the feature; null where it is unknown.")
    contribution: float


class MoveAnswer(BaseModel):
    """Change of the median of one configuration, without excluded samples."""

    threads: int
    baseline_median: float
    target_median: float
    change: float = Field(description="Share of the baseline's median; negative is worse.")


class LabelledAnswer(BaseModel):
    """A labelled comparison of the training data that is similar to the judged one."""

    comparison_id: str
    benchmark: str
    operation: str
    label: Literal["pass", "fail"]
    labelled_by: str = Field(description="Annotators; empty if unknown.")
    labelled_at: str = Field(description="ISO 8601; empty if unknown.")
    distance: float = Field(description="Standard deviations of the features, weighted by their importance.")
    near: str = Field(description="Features with similar values, and features with different ones.")


class OutOfDistributionAnswer(BaseModel):
    """The feature whose value differs most from the training data."""

    feature: str
    value: float | None = Field(description="Null if it is missing here but never in the training data.")
    low: float = Field(description="Lower end of the range of 98 of 100 training comparisons.")
    high: float = Field(description="Upper end of the range.")
    words: str


class VerdictAnswer(BaseModel):
    """The verdict on one comparison."""

    comparison_id: str
    benchmark: str
    operation: str
    verdict: Answer
    probability: float | None = Field(
        description="Probability of a regression; null if the model cannot judge the comparison."
    )
    threshold: float = Field(description="Smallest probability with the verdict fail.")
    unsure_from: float = Field(description="Smallest probability with the verdict unsure or fail.")
    reason: str = Field(description="Why, in one sentence of at most 15 words.")
    invalid_reason: str | None
    decided_by: DecidedBy
    remarks: list[str] = Field(
        description="Remarks: excluded outliers; versions after the target that the model ignores or misses."
    )
    moved: MoveAnswer | None = Field(
        description="The configuration with the worst change; null if there is no relative change."
    )
    improved: MoveAnswer | None = Field(
        description="The configuration with the largest improvement, if it is another one."
    )
    out_of_distribution: OutOfDistributionAnswer | None = Field(
        description="A warning: the comparison is out of the distribution of the training data."
    )
    reasons: list[ReasonAnswer] = Field(
        default=[], description="Strongest contributions of features. This and the next four: with `explain`."
    )
    words: list[str] = Field(
        default=[],
        description="Evidence in sentences: the change, the usual variation, other facts for the verdict and "
        "against it; empty if the verdict is invalid.",
    )
    examples: list[LabelledAnswer] = Field(
        default=[],
        description="The most similar comparison of each label, that with the verdict's label first.",
    )
    counterfactual_change: float | None = Field(
        default=None,
        description="Counterfactual: the smallest change of the median in `moved` that flips the verdict, as "
        "a share; negative is worse. Null if no change from 100 % worse to 1 % better does, or if it was "
        "not computed.",
    )
    counterfactual: str = Field(
        default="", description="`counterfactual_change` in words; empty if it is null."
    )


class JudgeModel(ModelAnswer):
    """The model that gave the verdicts."""

    contribution_unit: Unit
    min_effect_size: float | None = Field(
        default=None, description="Smallest change of a median that may fail, as a share of the baseline's."
    )
    decided: DecidedAnswer


class JudgeAnswer(BaseModel):
    """The verdicts, in the order of the comparisons."""

    model_config = example_config("serving.comparisons")

    model: JudgeModel
    verdicts: list[VerdictAnswer]
    notes: list[str] = Field(description="Assumptions about the request.")
    base_rate: BaseRate | None = Field(
        default=None, description="With `base_rate` in the request: the share of regressions."
    )


class ExcuseAnswer(BaseModel):
    """Why a verdict does not fail a build, from the file of reviewed exceptions."""

    kind: Literal["acknowledged", "unstable", "accepted"]
    by: str
    reason: str
    until: str = Field(description="A day, version or commit; empty if unlimited, like `since`.")
    since: str


class ComparedVerdict(VerdictAnswer):
    """The verdict on one operation of two sides."""

    outcome: Outcome
    model_verdict: str = Field(description="The verdict before between-run variation was considered.")
    machine: str
    unit: str = Field(description="Empty if unknown.")
    versions: str = Field(description="Such as `v1 -> v2`.")
    target_operation: str = Field(description="Name of the operation in the target.")
    interval: list[float] | None = Field(
        description="95 % interval of the change, as a share; negative is worse. Null if unknown."
    )
    detectable_change: float | None = Field(
        description="The smallest slow-down found with a probability of 80 %, as a share; null if unknown."
    )
    faster: MoveAnswer | None = Field(description="The largest improvement, if the outcome is improvement.")
    acknowledged: ExcuseAnswer | None


class MissingAnswer(BaseModel):
    """A machine, an operation or a configuration that only one side has."""

    kind: Literal["machine", "operation", "configuration"]
    only_in: Side
    machine: str
    benchmark: str | None
    operation: str | None
    threads: int | None


class CompareAnswer(BaseModel):
    """The answer of ``perfjudge compare --json``, and the requested forms."""

    model: JudgeModel
    verdicts: list[ComparedVerdict]
    notes: list[str]
    missing: list[MissingAnswer]
    counts: dict[str, int] = Field(description="Number of operations by outcome.")
    whole_run: dict[str, float] = Field(
        description="Median change of all operations by machine, as a share; negative is worse."
    )
    markdown: str | None = Field(default=None, description="A comment for a pull request.")
    html: str | None = Field(
        default=None, description="Table, box plots and Markdown as a part of a page, without scripts."
    )


class ServedJudge(ServedModel):
    """A served model of comparisons, with the metadata of its card."""

    contribution_unit: Unit
    threshold: float
    unsure_from: float = Field(description="Smallest probability with the verdict unsure or fail.")
    min_effect_size: float = Field(
        description="Smallest change of a median that may fail, as a share of the baseline's."
    )
    set: FeatureSet = Field(description="Feature set; only retrospective uses versions after the target.")
    decided: DecidedAnswer
    risk_guarantee: GuaranteeAnswer | None = Field(description="Risk guarantees; null if the model has none.")
