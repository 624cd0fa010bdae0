"""What requests and answers of several families have in common as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
)
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function

Better = Literal["lower", "higher"]
Name = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class OtherThan:
    """Marks text that is none of some names, which stand for something else where it is used."""

    names: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._required, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), "not": {"enum": sorted(self.names)}}

    def _required(self, name: str) -> str:
        if name in self.names:
            raise ValueError("is taken; expected another name")
        return name


def example(content: dict[str, Any]) -> ConfigDict:
    """Return the ``model_config`` of a type that OpenAPI shows an example of."""
    return ConfigDict(json_schema_extra={"examples": [content]})


class ModelAnswer(BaseModel):
    """Which model answers."""

    name: str
    version: str
    uri: str
    digest: str = Field(default="", description="SHA-256 of its files, as they were registered.")


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
    troubles: list[str] = Field(default=[], description="What else does not answer, and what that means.")


def finite(value: float | None) -> float | None:
    """Return the number, or None where there is none that JSON could hold."""
    return float(value) if value is not None and math.isfinite(value) else None
