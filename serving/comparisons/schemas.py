"""What requests and answers look like, for OpenAPI."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from data.tables.given import Given
from serving.doors.schemas import Better, ModelAnswer, ServedModel


class FiveNumbers(Given):
    """A summary in place of samples."""

    min: float
    q1: float
    median: float
    q3: float
    max: float
    mean: float = Field(default_factory=float, description="May be left out, as may the next.")
    stdev: float = Field(default_factory=float)


Samples = list[float] | FiveNumbers


class Configuration(Given):
    """The samples of both sides at one number of threads."""

    threads: int = Field(ge=1)
    baseline: Samples
    target: Samples
    history: list[Samples] = Field(default=[], description="One list per earlier version, oldest first.")


class Comparison(Given):
    """One operation, measured before and after."""

    comparison_id: str
    benchmark: str = "unknown"
    operation: str
    machine: str = "unknown"
    unit: str = "unknown"
    better: Better = Field(description="Which values are better; it is never assumed.")
    configurations: list[Configuration]


class JudgeRequest(Given):
    """Comparisons to be judged."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "comparisons": [
                        {
                            "comparison_id": "bt_C_x-42",
                            "benchmark": "NASParallel",
                            "operation": "bt_C_x",
                            "machine": "m1",
                            "unit": "Mop/s",
                            "better": "higher",
                            "configurations": [
                                {
                                    "threads": 4,
                                    "baseline": [7406.4, 7409.2, 7456.5, 7479.3, 7507.0],
                                    "target": [6604.8, 6703.0, 6722.2, 6737.8, 6797.5],
                                },
                                {
                                    "threads": 8,
                                    "baseline": {
                                        "min": 14325.9,
                                        "q1": 14330.8,
                                        "median": 14469.1,
                                        "q3": 14517.2,
                                        "max": 14740.1,
                                    },
                                    "target": [12833.7, 13044.4, 13071.6, 13086.5, 13219.3],
                                },
                            ],
                        }
                    ]
                }
            ]
        }
    )

    comparisons: list[Comparison]


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


class VerdictAnswer(BaseModel):
    """What is said of one comparison."""

    comparison_id: str
    benchmark: str
    operation: str
    verdict: Literal["pass", "fail", "invalid"]
    probability: float | None = Field(description="Of a regression; null if the verdict is invalid.")
    threshold: float = Field(description="Fail from this probability on.")
    reasons: list[ReasonAnswer]
    invalid_reason: str | None
    decided_by: Literal["model", "floor", "validity"]
    remarks: list[str] = Field(
        description="That no median got worse by at least the floor; which wild samples were left out."
    )
    moved: MoveAnswer | None = Field(
        description="The configuration that moved most towards worse; null if the verdict is invalid."
    )
    improved: MoveAnswer | None = Field(description="Another configuration that got better, the most.")


class JudgeModel(ModelAnswer):
    """Which model judges comparisons."""

    contribution_unit: Literal["log-odds", "probability"]


class JudgeAnswer(BaseModel):
    """The verdicts, in the order of the comparisons."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": {
                        "name": "regression-comparison",
                        "version": "3",
                        "uri": "models:/regression-comparison/3",
                        "contribution_unit": "probability",
                    },
                    "verdicts": [
                        {
                            "comparison_id": "bt_C_x-42",
                            "benchmark": "NASParallel",
                            "operation": "bt_C_x",
                            "verdict": "fail",
                            "probability": 0.93,
                            "threshold": 0.41,
                            "reasons": [{"feature": "medians_min", "value": -0.314, "contribution": 0.38}],
                            "invalid_reason": None,
                            "decided_by": "model",
                            "remarks": [],
                            "moved": {
                                "threads": 8,
                                "baseline_median": 14469.1,
                                "target_median": 13071.6,
                                "change": -0.0966,
                            },
                            "improved": None,
                        }
                    ],
                    "notes": [],
                }
            ]
        }
    )

    model: JudgeModel
    verdicts: list[VerdictAnswer]
    notes: list[str] = Field(description="What had to be assumed of the request.")


class ServedJudge(ServedModel):
    """A model of comparisons that answers, and what its card says."""

    contribution_unit: Literal["log-odds", "probability"]
    threshold: float
    floor: float = Field(description="The smallest change of a median that may fail, of the baseline's.")


#: The XML of seed 000, figure 6.1.
XML_EXAMPLE = """<?xml version="1.0"?>
<comparison_results base_uuid="b" report_uuid="r" target_uuid="t">
  <comparison_result benchmark_name="NASParallel" operation_name="bt_C_x">
    <result median_diff="1" threads_no="4">
      <base_result first_q="7409.2" max="7507.0" mean="7451.7" median="7456.5" min="7406.4"
                   stdev="39.2" third_q="7479.3"/>
      <target_result first_q="7503.0" max="7597.5" mean="7513.1" median="7522.2" min="7404.8"
                     stdev="62.7" third_q="7537.8"/>
    </result>
  </comparison_result>
</comparison_results>
"""
