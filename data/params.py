"""The parameters in params.yaml that all families share, and base classes of the families' sections.

The section of a family is in ``data/<family>/params.py``.
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
from data.tables.documents import Section, validation_message
from data.tables.files import yaml_content

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
#: Environment variables that override ``compute.scheduler`` and ``compute.storage``.
SCHEDULER, STORAGE = "PERFJUDGE_SCHEDULER", "PERFJUDGE_OPTUNA"
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Ingest(Section):
    """The source of measurements; with ``keep_going``, invalid parts are skipped and reported."""

    format: str = "tables"
    path: Path
    keep_going: bool = False


class Promote(Section):
    """The registered name of a model, and the test that a challenger must pass to become ``champion``."""

    name: str
    n_bootstrap: Count = 2000
    confidence: Share = 0.95


class ComputeConfig(Section):
    """Services on other machines. Results do not depend on them, so no stage lists them as a dependency."""

    scheduler: str | None = None
    storage: str | None = None


class FamilySection(Section):
    """The section of a family, with a subsection per stage."""

    # every pydantic model has a method called validate
    model_config = ConfigDict(alias_generator=lambda name: "validate" if name == "checks" else name)
    family: ClassVar[str]


FamilyType = TypeVar("FamilyType", bound=FamilySection)


@dataclass(frozen=True)
class Params(Generic[FamilyType]):
    """The random seed and the compute resources that all families share, and the section of one family."""

    seed: int
    compute: Compute
    section: FamilyType


def load(section: type[FamilyType], path: Path = Path("params.yaml")) -> Params[FamilyType]:
    """Return the parameters in params.yaml as `validate_params` does; InputError, too, if it is not YAML."""
    return validate_params(section, yaml_content(path), path)


def validate_params(section: type[FamilyType], content: Any, path: Path) -> Params[FamilyType]:
    """Return the random ``seed``, ``compute`` and a family's ``section`` from a parsed params.yaml.

    `section` is the class of the family's section; without that section in `content`, the defaults of the
    class apply. Sections of other families are not validated. The environment variables PERFJUDGE_SCHEDULER
    and PERFJUDGE_OPTUNA override ``scheduler`` and ``storage`` of ``compute``. InputError, which names the
    file `path`, for an unknown key, an invalid value, or a missing key without a default.
    """
    # other families' stages read their sections
    families: dict[str, Any] = dict.fromkeys(FAMILIES, (Any, None))
    families[section.family] = section, Field(default_factory=dict, validate_default=True)
    shared: dict[str, Any] = {"seed": (Seed, ...), "n_jobs": (Count, 2)}
    shared["compute"] = ComputeConfig, ComputeConfig()
    model = create_model("Parameters", __base__=Section, **shared, **families)
    try:
        params: Any = model.model_validate(content)
    except ValidationError as exc:
        raise InputError(validation_message(exc), file=path) from exc
    scheduler, storage = (os.environ.get(name) for name in (SCHEDULER, STORAGE))
    compute = Compute(params.n_jobs, scheduler or params.compute.scheduler, storage or params.compute.storage)
    return Params(params.seed, compute, getattr(params, section.family))
