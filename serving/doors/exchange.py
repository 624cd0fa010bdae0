"""One request and its answer, as the log and the counters tell of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from uuid import uuid4

from serving.doors.bodies import Answered
from serving.models import ModelRef
from serving.pages.verdict_lines import ANSWERS
from serving.supply import Door

#: What stands for the paths that nobody answers at, however many somebody tries.
UNKNOWN = "unknown"
_KEY = "perfjudge.exchange"
#: What a client may call its request: nothing that would have to be escaped anywhere.
_HARMLESS = re.compile(rb"[A-Za-z0-9._:-]{1,100}")


@dataclass(slots=True)
class Exchange:
    """One request and its answer.

    Attributes
    ----------
    method : str
    request_id : str
        As the client calls it, or else a random one.
    has_body : bool
        Whether the request has a body.
    began, whole : float
        When it began, and when its body was there, in seconds of `perf_counter`.
    status : int
        0 until the answer begins.
    received, sent : int
        Bytes of the bodies.
    token : str or None
        The name of the token.
    door, answered, served, media_type, body
        Set by `note`.
    """

    method: str
    request_id: str
    has_body: bool
    began: float = field(default_factory=perf_counter)
    whole: float = 0.0
    status: int = 0
    received: int = 0
    sent: int = 0
    token: str | None = None
    door: Door | None = None
    answered: Answered | None = None
    served: Any = None
    media_type: str = ""
    body: bytes = b""

    @classmethod
    def of(cls, scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes]) -> Exchange:
        """Begin, and let `note` find it."""
        given = headers.get(b"x-request-id", b"")
        named = given.decode("ascii") if _HARMLESS.fullmatch(given) else uuid4().hex
        has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        begun = scope[_KEY] = cls(scope["method"], named, has_body)
        return begun

    @property
    def ref(self) -> ModelRef | None:
        """The model that answered."""
        return None if self.served is None else self.served.ref

    def verdicts(self) -> dict[str, int]:
        """Count the verdicts of the answer; those that it lacks are not there."""
        judged = None if self.answered is None else self.answered.judged
        counts = {} if judged is None else {answer: judged.count(answer) for answer in ANSWERS}
        return {answer: count for answer, count in counts.items() if count}


def note(
    scope: Mapping[str, Any], door: Door, asked: tuple[str, bytes], answered: Answered, served: Any
) -> None:
    """Tell which door answered which body with which model, and what; it is looked at after the answer."""
    exchange = scope.get(_KEY)
    if exchange is not None:
        exchange.door, exchange.answered, exchange.served = door, answered, served
        exchange.media_type, exchange.body = asked


def route_of(scope: Mapping[str, Any]) -> str:
    """Return the template of the path, never the path."""
    return getattr(scope.get("route"), "path", None) or UNKNOWN
