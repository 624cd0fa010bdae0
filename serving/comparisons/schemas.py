"""What requests and answers look like, for OpenAPI."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from serving.comparisons.promises import DecidedAnswer, PromiseAnswer
from serving.http.schemas import ModelAnswer, ServedModel


class ReasonAnswer(BaseModel):
    """How one feature moved the answer; positive = towards fail."""

    feature: str
    value: float | None = Field(description="In the feature's own units; null where it cannot be known.")
    contribution: float


class MoveAnswer(BaseModel):
    """What the median of one configuration did, without samples that were left out."""

    threads: int
    baseline_median: float
    target_median: float
    change: float = Field(description="As a share of the baseline's median; negative is worse.")


class LabelledAnswer(BaseModel):
    """A labelled comparison of the training data that is like the one that was judged."""

    comparison_id: str
    benchmark: str
    operation: str
    label: Literal["pass", "fail"]
    labelled_by: str = Field(description="Empty where it is not known.")
    labelled_at: str = Field(description="ISO 8601; empty where it is not known.")
    distance: float = Field(
        description="In standard deviations of features, weighted by the model's importance of them."
    )
    near: str = Field(description="In what the two are similar, and in what not.")


class UnlikeAnswer(BaseModel):
    """The feature in which a comparison is most unlike the training data."""

    feature: str
    value: float | None = Field(description="Null where it is missing, as it never was in training.")
    low: float = Field(description="98 of 100 training comparisons lie from here ...")
    high: float = Field(description="... to here.")
    words: str


class VerdictAnswer(BaseModel):
    """What is said of one comparison."""

    comparison_id: str
    benchmark: str
    operation: str
    verdict: Literal["pass", "fail", "unsure", "invalid"]
    probability: float | None = Field(description="Of a regression; null if the verdict is invalid.")
    threshold: float = Field(description="Fail from this probability on.")
    unsure_from: float = Field(
        description="Unsure from this probability to the threshold: let a person look."
    )
    reasons: list[ReasonAnswer]
    invalid_reason: str | None
    decided_by: Literal["model", "floor", "validity"]
    remarks: list[str] = Field(
        description="That no median got worse by at least the floor; which wild samples were left out;"
        " whether versions after the target are known for nothing, or wanted and not known."
    )
    moved: MoveAnswer | None = Field(
        description="The configuration that moved most towards worse; null if the verdict is invalid."
    )
    improved: MoveAnswer | None = Field(description="Another configuration that got better, the most.")
    words: list[str] = Field(
        description="What the verdict rests on, in sentences: the shift, the yardstick, what else speaks for "
        "it, and what against it; empty if the verdict is invalid."
    )
    examples: list[LabelledAnswer] = Field(
        description="The most similar labelled comparison of each label, that of the same verdict first."
    )
    flips_at: float | None = Field(
        description="The change of the median in `moved` from which on the verdict is the other one, as a "
        "share; negative is worse. Null if none flips it (from 100 % worse to 1 % better), or if it "
        "was not looked for."
    )
    flip: str = Field(description="The same in words; empty where it is null.")
    unlike: UnlikeAnswer | None = Field(
        description="A warning: the comparison is unlike those that the model was trained on."
    )


class JudgeModel(ModelAnswer):
    """Which model judges comparisons."""

    contribution_unit: Literal["log-odds", "probability"]
    floor: float | None = Field(
        default=None, description="The smallest change of a median that may fail, of the baseline's."
    )
    decided: DecidedAnswer


_EXAMPLE: JsonDict = {
    "model": {
        "name": "regression-comparison",
        "version": "3",
        "uri": "models:/regression-comparison/3",
        "digest": "9f2a6c31d5be08c4477e1a90b3f65d28e4c7719b02a8d6f35c1e84907bd2f6a3",
        "contribution_unit": "probability",
        "floor": 0.005,
        "decided": {
            "missed": 0.05,
            "false_alarms": None,
            "looks": None,
            "costs": None,
            "confidence": 0.9,
            "told": "at most 5 % of the regressions pass (90 % confidence)",
        },
    },
    "verdicts": [
        {
            "comparison_id": "bt_C_x-42",
            "benchmark": "NASParallel",
            "operation": "bt_C_x",
            "verdict": "fail",
            "probability": 0.93,
            "threshold": 0.41,
            "unsure_from": 0.18,
            "reasons": [{"feature": "medians_min", "value": -0.314, "contribution": 0.38}],
            "invalid_reason": None,
            "decided_by": "model",
            "remarks": [],
            "moved": {"threads": 8, "baseline_median": 14469.1, "target_median": 13071.6, "change": -0.0966},
            "improved": None,
            "words": [
                "median 9.7 % less throughput",
                "builds of this operation usually differ by 1.2 % (12 earlier builds)",
                "all 5 target samples are lower than all 5 baseline samples",
            ],
            "examples": [
                {
                    "comparison_id": "mg_C_x-40",
                    "benchmark": "NASParallel",
                    "operation": "mg_C_x",
                    "label": "fail",
                    "labelled_by": "anna",
                    "labelled_at": "2026-11-20T09:12:44+00:00",
                    "distance": 0.31,
                    "near": "similar shift 8.9 % worse (here 9.7 % worse), noise 0.9 % (here 1.1 %)",
                }
            ],
            "flips_at": -0.031,
            "flip": "would pass with at most 3.1 % less throughput",
            "unlike": None,
        }
    ],
    "notes": [],
}


class JudgeAnswer(BaseModel):
    """The verdicts, in the order of the comparisons."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    model: JudgeModel
    verdicts: list[VerdictAnswer]
    notes: list[str] = Field(description="What had to be assumed of the request.")


class ServedJudge(ServedModel):
    """A model of comparisons that answers, and what its card says."""

    contribution_unit: Literal["log-odds", "probability"]
    threshold: float
    unsure_from: float = Field(description="Unsure from this probability to the threshold.")
    floor: float = Field(description="The smallest change of a median that may fail, of the baseline's.")
    set: Literal["seed", "extended", "retrospective"] = Field(
        description="Which features it sees; only retrospective looks at versions after the target."
    )
    decided: DecidedAnswer
    promise: PromiseAnswer | None = Field(description="What can be asked of it; null for older models.")
