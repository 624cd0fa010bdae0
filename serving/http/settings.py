"""Settings of a server, and how its workers receive them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from secrets import token_hex
from typing import Any, Self

from serving.http.request_context import Form, Level

#: Environment variable with the settings as JSON.
_VARIABLE = "PERFJUDGE_SERVE"


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server."""

    #: The families' options of ``perfjudge serve``: models, their parameters and further ones.
    options: Mapping[str, Any] = field(default_factory=dict)
    shared: str | None = None  # directory that the workers of one server share; None with one worker
    watch: float = 2.0  # seconds between two checks of the registry's aliases
    tokens: str | None = None  # path of the token file; None: requests need no token
    timeout: float = 60.0  # seconds for the answer once the body is complete
    body_timeout: float = 30.0  # seconds for the body
    #: log_level, log_format: see `serving.http.request_context.configure_logging`.
    log_level: Level | None = None
    log_format: Form | None = None
    hosts: Sequence[str] | None = None  # accepted ``Host`` values besides names of this machine; None: any
    secret: str = field(default_factory=token_hex, repr=False)  # key of CSRF tokens without a token file
    shadow: str | None = None  # directory of answered requests for challengers; None: shadow mode is off

    @property
    def environment_variables(self) -> dict[str, str]:
        """The environment variable that passes these settings to another process."""
        return {_VARIABLE: json.dumps(asdict(self))}

    def export_to_environment(self) -> None:
        """Pass these settings to processes that are started later, in the environment."""
        os.environ.update(self.environment_variables)
        if self.shared is not None:
            # prometheus_client reads it when a worker imports it
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = self.shared

    @classmethod
    def from_environment(cls) -> Self:
        """Return the settings that the parent process passed in the environment, unchecked, else defaults."""
        return cls(**json.loads(os.environ.get(_VARIABLE, "{}")))
