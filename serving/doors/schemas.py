"""What requests and answers of several families have in common as JSON."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Better = Literal["lower", "higher"]
Name = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def example(content: dict[str, Any]) -> ConfigDict:
    """Return the ``model_config`` of a type that OpenAPI shows an example of."""
    return ConfigDict(json_schema_extra={"examples": [content]})


class ModelAnswer(BaseModel):
    """Which model answers."""

    name: str
    version: str
    uri: str


class ServedModel(ModelAnswer):
    """A model that answers, and what its card says."""

    estimator: str
    features: list[str]
    data_digest: str
    serves: str = Field(description="The name under which such models are registered.")
    since: datetime = Field(description="When it began to answer.")
    trouble: str | None = Field(
        description="Why the version that its alias names does not answer, or the registry does not."
    )


class Health(BaseModel):
    """The process runs."""

    status: Literal["ok"]


class ModelHealth(BaseModel):
    """Which version answers, and why not the one that its alias names."""

    serves: str
    version: str | None
    trouble: str | None


class Readiness(BaseModel):
    """Requests are answered; degraded: not all of them by the versions that they should be."""

    status: Literal["ok", "degraded"]
    models: list[ModelHealth]


def finite(value: float | None) -> float | None:
    """Return the number, or None where there is none that JSON could hold."""
    return float(value) if value is not None and math.isfinite(value) else None
