"""The knobs of params.yaml, validated once at the edge: what holds for all families, and the sections' types.

A family's own section stands in ``data/<family>/params.py``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import ConfigDict, Field, ValidationError, create_model

from data.errors import InputError
from data.families import FAMILIES
from data.parallel import Compute
from data.tables.documents import Section, said
from data.tables.files import yaml_content

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
#: Variables of the environment that go before ``compute.scheduler`` and ``compute.storage``.
SCHEDULER, STORAGE = "PERFJUDGE_SCHEDULER", "PERFJUDGE_OPTUNA"
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Ingest(Section):
    """Where a family's measurements come from."""

    format: str = "tables"
    path: Path
    keep_going: bool = False


class Promote(Section):
    """Under which name a model is registered, and when it takes the alias ``champion``."""

    name: str
    resamples: Count = 2000
    confidence: Share = 0.95


class ComputeConfig(Section):
    """What may be on other machines. Results don't depend on it, so no stage does."""

    scheduler: str | None = None
    storage: str | None = None

    def computing(self, jobs: int) -> Compute:
        """Return where tasks are computed; the environment has the last word."""
        scheduler, storage = (os.environ.get(name) for name in (SCHEDULER, STORAGE))
        return Compute(jobs, scheduler or self.scheduler, storage or self.storage)


class FamilySection(Section):
    """The section of a family, with one of its own per verb."""

    # every model of pydantic's has a method called validate
    model_config = ConfigDict(alias_generator=lambda name: "validate" if name == "checks" else name)
    family: ClassVar[str]


FamilyType = TypeVar("FamilyType", bound=FamilySection)


@dataclass(frozen=True)
class Params(Generic[FamilyType]):
    """The shared random seed, where tasks are computed, and the section of one family."""

    seed: int
    compute: Compute
    section: FamilyType


def load(section: type[FamilyType], path: Path = Path("params.yaml")) -> Params[FamilyType]:
    """Read params.yaml: the shared part, and the section of one family, of type `section`.

    InputError names the key, the value and what was expected.
    """
    return of_content(section, yaml_content(path), path)


def of_content(section: type[FamilyType], content: Any, path: Path) -> Params[FamilyType]:
    """Validate what params.yaml says; see `load`."""
    # the sections of other families are read by their own stages
    families: dict[str, Any] = dict.fromkeys(FAMILIES, (Any, None))
    families[section.family] = section, Field(default_factory=dict, validate_default=True)
    shared: dict[str, Any] = {
        "seed": (Seed, ...),
        "jobs": (Count, 2),
        "compute": (ComputeConfig, ComputeConfig()),
    }
    kind = create_model("Knobs", __base__=Section, **shared, **families)
    try:
        knobs: Any = kind.model_validate(content)
    except ValidationError as exc:
        raise InputError(said(exc), file=path) from exc
    return Params(knobs.seed, knobs.compute.computing(knobs.jobs), getattr(knobs, section.family))
