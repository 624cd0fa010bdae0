"""What requests and answers of several families have in common as JSON."""

from __future__ import annotations

import math
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


class Health(BaseModel):
    """The process runs, or is ready."""

    status: Literal["ok"]


def finite(value: float | None) -> float | None:
    """Return the number, or None where there is none that JSON could hold."""
    return float(value) if value is not None and math.isfinite(value) else None
