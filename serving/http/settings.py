"""What a server was told at its start, as its workers get to know it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from secrets import token_hex
from typing import Any, Self

from serving.http.request_context import Form, Level

#: In which ``perfjudge serve`` tells its workers, as JSON.
_VARIABLE = "PERFJUDGE_SERVE"


@dataclass(frozen=True)
class ServerSettings:
    """What a server was told at its start.

    Attributes
    ----------
    options : mapping
        Which models answer, their knobs, and what families were told besides, by the options of ``perfjudge
        serve``.
    shared : str or None
        A directory that the workers of one server have in common; None where there is one worker.
    watch : float
        The seconds between two looks at where the registry's aliases point.
    tokens : str or None
        A file of tokens; None: nobody needs any.
    timeout, reading : float
        Seconds in which a request is answered, once its body has come, for which it has others.
    log_level, log_format : str or None
        As of `serving.http.request_context.begin`.
    hosts : sequence of str or None
        What requests may call the server, beside names of this machine's own address; None: anything.
    secret : str
        What tokens against forged requests are made with where nobody needs any other.
    shadow : str or None
        The directory of answered requests that challengers judge; None: none do.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    shared: str | None = None
    watch: float = 2.0
    tokens: str | None = None
    timeout: float = 60.0
    reading: float = 30.0
    log_level: Level | None = None
    log_format: Form | None = None
    hosts: Sequence[str] | None = None
    secret: str = field(default_factory=token_hex, repr=False)
    shadow: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variable that tells all of this to another process."""
        return {_VARIABLE: json.dumps(asdict(self))}

    def hand_on(self) -> None:
        """Tell processes that are started from now on."""
        os.environ.update(self.environment)
        if self.shared is not None:
            # prometheus_client looks for it when it is imported, which a worker does on its own
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = self.shared

    @classmethod
    def handed_on(cls) -> Self:
        """Return what the process was told."""
        return cls(**json.loads(os.environ.get(_VARIABLE, "{}")))
