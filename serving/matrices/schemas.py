"""JSON schemas of requests and answers about matrices, for files, HTTP and ``--json``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from data.matrices.limits import MOST_METRICS, RUN_FLAGS, RUN_TEXTS
from data.tables.documents import JsonSection
from serving.http.schemas import ModelAnswer, Name, ServedModel, example_config, finite_or_none
from serving.reports.verdict_lines import Answer, VerdictLine

#: Maximal numbers of pairs in a request and of runs in one side.
PAIRS, RUNS = 1_000, 1_000
Unit = Annotated[str, StringConstraints(max_length=40)]
#: Impossible values pass: the rules of validity make their run invalid.
Values = Annotated[list[float | None], Field(max_length=RUNS, fail_fast=True)]
_TAKEN = (*RUN_TEXTS, *RUN_FLAGS)


def _require_free(name: str) -> str:
    if name in _TAKEN:
        raise ValueError("is taken; expected another name")
    return name


Metric = Annotated[
    Name, AfterValidator(_require_free), Field(json_schema_extra={"not": {"enum": sorted(_TAKEN)}})
]
Run = Annotated[dict[Metric, float | None], Field(max_length=MOST_METRICS)]
Median = Annotated[float | None, AfterValidator(finite_or_none)]


_ONE_FORM: list[Any] = [
    {"required": [name], "properties": {name: {"type": kind}}}
    for name, kind in (("metrics", "object"), ("runs", "array"))
]


class Matrix(JsonSection):
    """The runs of one side, either in columns or in rows; metadata default to those of the pair."""

    model_config = ConfigDict(json_schema_extra={"oneOf": _ONE_FORM})

    workload: Name | None = Field(default=None, description="Default: the pair's.")
    group: Name | None = Field(default=None, description="Default: the pair's.")
    version: Name | None = Field(default=None, description="Default: the pair's.")
    machine: Name | None = Field(default=None, description="Default: the pair's.")
    metrics: dict[Metric, Values] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_METRICS,
        description="Values by raw metric, one per run; null: not measured.",
    )
    runs: list[Run] | None = Field(
        default=None, max_length=RUNS, description="Instead of columns, one object of raw metrics per run."
    )

    @model_validator(mode="after")
    def _require_one_form(self) -> Self:
        if (self.metrics is None) == (self.runs is None):
            raise ValueError("expected either metrics (columns) or runs (rows)")
        return self


class Pair(JsonSection):
    """A target matrix and its baseline; they may differ in one of workload, group, version and machine."""

    pair_id: Name
    workload: Name = Field(description="The test case.")
    group: Name = Field(description="The workload type; the fallback model judges unknown groups.")
    version: Name | None = None
    machine: Name | None = None
    baseline: Matrix
    target: Matrix


class MatricesRequest(JsonSection):
    """Pairs of matrices to be judged."""

    model_config = example_config("serving.matrices")

    pairs: list[Pair] = Field(min_length=1, max_length=PAIRS)
    units: dict[Name, Unit] = Field(
        default={},
        max_length=MOST_METRICS,
        description="Units of metrics; a metric in another unit than the model's counts as not measured.",
    )


class InvalidRunAnswer(BaseModel):
    """A run that was excluded from the judgement."""

    run_id: str
    side: Literal["baseline", "target"]
    by: Literal["rule", "tree"] = Field(description="A fixed rule, or the trained decision tree.")
    rule: str = Field(description="Short name of the rule; empty for the tree.")
    reason: str = Field(description="The violated condition, or the path through the tree.")


class DriverAnswer(BaseModel):
    """A raw metric that influenced the verdict."""

    metric: str
    unit: str = Field(description="Empty if unknown.")
    baseline: Median = Field(description="Median of the valid runs; null: not measured.")
    target: Median
    contribution: float = Field(
        description="Its part of the decrease of the log-odds of fail without the differences of all drivers."
    )


class MatrixVerdictAnswer(BaseModel):
    """The verdict on one pair."""

    pair_id: str
    workload: str
    group: str
    group_used: str = Field(
        description="The group whose model judged; fallback: the group has no model; all: no group has one; "
        "empty if invalid."
    )
    verdict: Answer
    probability: float | None = Field(description="Probability that the target is abnormal; null if invalid.")
    threshold: float | None = Field(description="Smallest probability with the verdict fail.")
    invalid_reason: Annotated[str | None, BeforeValidator(lambda reason: reason or None)] = Field(
        validation_alias=AliasChoices("reason", "invalid_reason")
    )
    baseline_runs: int = Field(description="Number of valid runs of the baseline.")
    target_runs: int = Field(description="Number of valid runs of the target.")
    invalid_runs: list[InvalidRunAnswer]
    attributions: list[DriverAnswer] = Field(description="Largest contribution first.")
    notes: list[str] = Field(description="Remarks on this verdict.")


class FalseAlarmsKept(BaseModel):
    """The guarantee on false alarms, for normal pairs of test cases outside the training data."""

    share: float = Field(description="Maximal share of false alarms.")
    confidence: float = Field(description="Confidence level of the guarantee.")
    kept: bool = Field(description="Whether the training data had enough test cases for the guarantee.")
    measured: float | None = Field(description="Mean share in a group bootstrap; null without one.")

    @property
    def guarantee_text(self) -> str:
        """The guarantee as text."""
        sure = f"at most {100 * self.share:g} % of normal pairs of other test cases fail"
        return f"{sure}, with {100 * self.confidence:g} % confidence" if self.kept else "nothing is promised"


class MatricesAnswer(BaseModel):
    """The verdicts, in the order of the pairs."""

    model_config = example_config("serving.matrices")

    model: ModelAnswer
    verdicts: list[MatrixVerdictAnswer]
    notes: list[str] = Field(description="Remarks on all pairs: missing, unknown or renamed metrics.")
    risk_guarantee: FalseAlarmsKept | None = Field(
        default=None, description="Guarantee on false alarms; null without one."
    )

    def count_verdicts(self, answer: Answer) -> int:
        """Return the number of pairs with this verdict."""
        return sum(pair.verdict == answer for pair in self.verdicts)

    def first_lines(self, max_lines: int) -> Iterator[VerdictLine]:
        """Yield the first `max_lines` verdicts as lines of a table."""
        for pair in self.verdicts[:max_lines]:
            reason = pair.invalid_reason or ", ".join(driver.metric for driver in pair.attributions[:3])
            yield VerdictLine(pair.verdict, pair.probability, pair.workload, pair.pair_id, reason)


class ServedMatrix(ServedModel):
    """A served model of matrices, described by its card."""

    groups: list[str] = Field(description="Groups of the training data.")
    own_models: list[str] = Field(description="Groups with a separate model; other groups use the fallback.")
    threshold: float = Field(description="Smallest probability with the verdict fail.")
    risk_guarantee: FalseAlarmsKept | None = Field(description="Guarantee on false alarms; null without one.")
