"""JSON schemas of matrix requests and answers, for files, HTTP and ``--json``."""

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
from data.tables.documents import Given
from serving.http.schemas import ModelAnswer, Name, OtherThan, ServedModel, finite
from serving.reports.verdict_lines import Answer, VerdictLine

#: Most pairs of a request, and runs of one side.
PAIRS, RUNS = 1_000, 1_000
Unit = Annotated[str, StringConstraints(max_length=40)]
#: What a run can have is for the rules of validity to say: an impossible number makes one run invalid.
Values = Annotated[list[float | None], Field(max_length=RUNS, fail_fast=True)]
Metric = Annotated[Name, OtherThan((*RUN_TEXTS, *RUN_FLAGS))]
Run = Annotated[dict[Metric, float | None], Field(max_length=MOST_METRICS)]
Median = Annotated[float | None, AfterValidator(finite)]


class Matrix(Given):
    """The runs of one side, either in columns or in rows; what it has other than the pair says so."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": [name], "properties": {name: {"type": kind}}}
                for name, kind in (("metrics", "object"), ("runs", "array"))
            ]
        }
    )

    workload: Name | None = Field(default=None, description="Default: the pair's.")
    group: Name | None = Field(default=None, description="Default: the pair's.")
    version: Name | None = Field(default=None, description="Default: the pair's.")
    machine: Name | None = Field(default=None, description="Default: the pair's.")
    metrics: dict[Metric, Values] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_METRICS,
        description="By raw metric, one value per run; null where it was not measured.",
    )
    runs: list[Run] | None = Field(
        default=None,
        max_length=RUNS,
        description="Instead of columns, one object per run: its raw metrics.",
    )

    @model_validator(mode="after")
    def _either(self) -> Self:
        if (self.metrics is None) == (self.runs is None):
            raise ValueError("expected either metrics (columns) or runs (rows)")
        return self


class Pair(Given):
    """A target matrix and its baseline; they differ in one of workload, group, version and machine."""

    pair_id: Name
    workload: Name = Field(description="The test case.")
    group: Name = Field(
        description="The workload type; for one that the model does not know, the fallback answers."
    )
    version: Name | None = None
    machine: Name | None = None
    baseline: Matrix
    target: Matrix


def _example() -> dict[str, Any]:
    columns = {"process.user": [9.91, 9.87, 9.94], "process.wait": [0.41, 0.39, 0.44]}
    rows = [
        {"process.user": 9.90, "process.wait": 2.10},
        {"process.user": 9.96, "process.wait": 2.31},
        {"process.user": 9.93, "process.wait": None},
    ]
    pair = {
        "pair_id": "accounts 3.0.1",
        "workload": "accounts",
        "group": "oltp",
        "machine": "m1",
        "baseline": {"version": "3.0.0", "metrics": columns},
        "target": {"version": "3.0.1", "runs": rows},
    }
    return {"pairs": [pair], "units": {"process.user": "ms/txn", "process.wait": "ms/txn"}}


class MatricesRequest(Given):
    """Pairs of matrices to be judged."""

    model_config = ConfigDict(json_schema_extra={"examples": [_example()]})

    pairs: list[Pair] = Field(min_length=1, max_length=PAIRS)
    units: dict[Name, Unit] = Field(
        default={},
        max_length=MOST_METRICS,
        description="Units of metrics; one that the model knows in another unit counts as not measured.",
    )


class InvalidRunAnswer(BaseModel):
    """A run that was left out."""

    run_id: str
    side: Literal["baseline", "target"]
    by: Literal["rule", "tree"] = Field(description="A fixed rule, or the learned decision tree.")
    rule: str = Field(description="The short name of the rule; empty for the tree.")
    reason: str = Field(description="What broke the rule, or the path through the tree.")


class DriverAnswer(BaseModel):
    """A raw metric that drove the verdict."""

    metric: str
    unit: str = Field(description="Empty where nobody told it.")
    baseline: Median = Field(description="The median of the valid runs; null where it was not measured.")
    target: Median
    contribution: float = Field(
        description="Its share of what the log-odds of fail fall without all of them."
    )


class MatrixVerdictAnswer(BaseModel):
    """What is said of one pair."""

    pair_id: str
    workload: str
    group: str
    group_used: str = Field(
        description="The group whose model answered; fallback where it has none of its own, all where no "
        "group has; empty where invalid."
    )
    verdict: Answer
    probability: float | None = Field(description="Of an abnormal target; null where invalid.")
    threshold: float | None = Field(description="Fail from this probability on.")
    invalid_reason: Annotated[str | None, BeforeValidator(lambda told: told or None)] = Field(
        validation_alias=AliasChoices("reason", "invalid_reason")
    )
    baseline_runs: int = Field(description="Valid ones, on which the verdict rests.")
    target_runs: int
    invalid_runs: list[InvalidRunAnswer]
    drivers: list[DriverAnswer] = Field(description="The strongest first.")
    notes: list[str] = Field(description="What to know about this verdict.")


def _answer_example() -> dict[str, Any]:
    driver = {"metric": "process.wait", "unit": "ms/txn", "baseline": 0.41, "target": 2.21}
    verdict = {
        "pair_id": "accounts 3.0.1",
        "workload": "accounts",
        "group": "oltp",
        "group_used": "oltp",
        "verdict": "fail",
        "probability": 0.93,
        "threshold": 0.41,
        "invalid_reason": None,
        "baseline_runs": 3,
        "target_runs": 3,
        "invalid_runs": [],
        "drivers": [driver | {"contribution": 0.62}],
        "notes": [],
    }
    model = {"name": "regression-matrix", "version": "1", "uri": "models:/regression-matrix/1"}
    return {"model": model, "verdicts": [verdict], "notes": []}


class FalseAlarmsKept(BaseModel):
    """What is promised of false alarms, on normal pairs of test cases that training has not seen."""

    share: float = Field(description="At most this share of them raises an alarm.")
    confidence: float = Field(description="With which that holds.")
    kept: bool = Field(description="Whether training had test cases enough to promise it.")
    measured: float | None = Field(description="The mean share in rehearsals; null where there were none.")

    @property
    def told(self) -> str:
        """The promise in words."""
        sure = f"at most {100 * self.share:g} % of normal pairs of other test cases fail"
        return f"{sure}, with {100 * self.confidence:g} % confidence" if self.kept else "nothing is promised"


class MatricesAnswer(BaseModel):
    """The verdicts, in the order of the pairs."""

    model_config = ConfigDict(json_schema_extra={"examples": [_answer_example()]})

    model: ModelAnswer
    verdicts: list[MatrixVerdictAnswer]
    notes: list[str] = Field(description="What to know about all: missing, unknown or renamed metrics.")
    promise: FalseAlarmsKept | None = Field(
        default=None, description="Of false alarms; null where nothing is promised."
    )

    def count(self, answer: Answer) -> int:
        """Return how many pairs got this verdict."""
        return sum(one.verdict == answer for one in self.verdicts)

    def first(self, most: int) -> Iterator[VerdictLine]:
        """Yield the first verdicts, `most` at most, as lines of a table."""
        for one in self.verdicts[:most]:
            why = one.invalid_reason or ", ".join(driver.metric for driver in one.drivers[:3])
            yield VerdictLine(one.verdict, one.probability, one.workload, one.pair_id, why)


class ServedMatrix(ServedModel):
    """A model of matrices that answers, and what its card says."""

    groups: list[str] = Field(description="That it was trained on.")
    own_models: list[str] = Field(description="Groups with a model of their own; others get the fallback.")
    threshold: float = Field(description="Fail from this probability on.")
    promise: FalseAlarmsKept | None = Field(description="Of false alarms; null where nothing is promised.")
