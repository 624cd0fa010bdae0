"""What a server was told at its start, as its workers get to know it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

#: In which ``perfjudge serve`` tells its workers, as JSON.
_VARIABLE = "PERFJUDGE_SERVE"


@dataclass(frozen=True)
class Settings:
    """What a server was told at its start.

    Attributes
    ----------
    models : mapping
        Which models answer, and their knobs, by the options of ``perfjudge serve``.
    shared : str or None
        A directory that the workers of one server have in common; None where there is one worker.
    watch : float
        The seconds between two looks at where the registry's aliases point.
    """

    models: Mapping[str, Any] = field(default_factory=dict)
    shared: str | None = None
    watch: float = 2.0

    def hand_on(self) -> None:
        """Tell processes that are started from now on."""
        os.environ[_VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def handed_on(cls) -> Self:
        """Return what the process was told."""
        return cls(**json.loads(os.environ.get(_VARIABLE, "{}")))
