"""Search spaces as data: what a parameter may be, asked in the order of the mapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna import Trial


@dataclass(frozen=True)
class Where:
    """A parameter that is asked only where an earlier one has one of these values."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Real:
    """A number from `low` to `high`; on a logarithmic scale if `log`."""

    low: float
    high: float
    log: bool = False
    where: Where | None = None

    def suggest(self, trial: Trial, name: str) -> Any:
        """Let `trial` choose."""
        return trial.suggest_float(name, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Whole:
    """A whole number from `low` to `high`; on a logarithmic scale if `log`."""

    low: int
    high: int
    log: bool = False
    where: Where | None = None

    def suggest(self, trial: Trial, name: str) -> Any:
        """Let `trial` choose."""
        return trial.suggest_int(name, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class OneOf:
    """One of these values."""

    values: tuple[Any, ...]
    where: Where | None = None

    def suggest(self, trial: Trial, name: str) -> Any:
        """Let `trial` choose."""
        return trial.suggest_categorical(name, list(self.values))


#: What each parameter may be; what is none of the three stands for itself.
Space = Mapping[str, Real | Whole | OneOf | Any]


def suggested(space: Space, trial: Trial) -> dict[str, Any]:
    """Return the parameters of `space` that `trial` is to try."""
    params: dict[str, Any] = {}
    for name, one in space.items():
        if not isinstance(one, Real | Whole | OneOf):
            params[name] = one
        elif one.where is None or params[one.where.name] in one.where.values:
            params[name] = one.suggest(trial, name)
    return params
