"""What requests and answers look like, for OpenAPI."""

from __future__ import annotations

import json
from importlib.resources import files
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


def _exemplified(schema: JsonDict) -> None:
    example = (files("serving.comparisons") / "answer.json").read_text(encoding="utf-8")
    schema["examples"] = [json.loads(example)]


class JudgeAnswer(BaseModel):
    """The verdicts, in the order of the comparisons."""

    model_config = ConfigDict(json_schema_extra=_exemplified)

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
