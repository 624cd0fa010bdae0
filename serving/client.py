"""The Python client of a server: ``from serving.client import Judge``."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import (
    HTTPError,
    NameResolutionError,
    ProtocolError,
    TimeoutError,  # noqa: A004 - of HTTP
)

from serving.plugins import MEBIBYTE

if TYPE_CHECKING:
    from pydantic import BaseModel

    from data.comparisons.request import Comparison
    from serving.comparisons.schemas import VerdictAnswer
    from serving.corun.schemas import CorunQuestion, FirstSeconds, OnlineAnswer, SoloRun, StaticPrediction
    from serving.fingerprints.schemas import Application, Machine, ProfileAnswer
    from serving.http.schemas import ModelAnswer
    from serving.matrices.schemas import MatrixVerdictAnswer, Pair

LOG = logging.getLogger("perfjudge")
Item = TypeVar("Item")
Response = TypeVar("Response", bound="BaseModel")
#: Environment variable with the default token.
TOKEN = "PERFJUDGE_TOKEN"  # noqa: S105 - the variable's name, not the token
#: Size in bytes above which bodies are sent compressed.
LARGE = 65_536
#: Maximum delay in seconds before another attempt, whatever the server demands.
PATIENCE = 60
_TOO_LARGE, _UNSUPPORTED = 413, 415
_BUSY = (429, 502, 503, 504)
#: Seconds between checks of a server that is starting.
_PAUSE = 0.2


class JudgeError(Exception):
    """A request that failed.

    ``detail`` is one line; ``status`` is the HTTP status, None if no answer came or the request could not be
    sent; ``request_id`` is the id in the server's log, if the server sent one.
    """

    def __init__(self, detail: str, status: int | None = None, request_id: str | None = None) -> None:
        super().__init__(detail, status, request_id)
        self.detail, self.status, self.request_id = detail, status, request_id

    def __str__(self) -> str:
        facts = [str(self.status)] if self.status else []
        facts += [f"request {self.request_id}"] if self.request_id else []
        return f"{self.detail} ({', '.join(facts)})" if facts else self.detail


@dataclass(frozen=True)
class Answers(Sequence[Item]):
    """Answers in the order of the items, from any number of requests.

    ``models`` are those that answered, several if the server changed its model in between; ``notes`` are the
    server's assumptions, one line each.
    """

    items: tuple[Item, ...]
    models: tuple[ModelAnswer, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        return self.items[place]


@dataclass(frozen=True)
class BatchedRequest(Generic[Response, Item]):
    """A request about many items, which may be split into several requests.

    ``key`` is the JSON key of the items, ``other_keys`` are the other keys of each request. ``answers`` takes
    a response and returns the answers in the order of the items. One request has at most ``max_items`` items
    and about ``limit`` bytes.
    """

    path: str
    key: str
    answer: type[Response]
    answers: Callable[[Response], Sequence[Item]]
    max_items: int
    limit: int
    other_keys: Mapping[str, Any] = field(default_factory=dict)

    def split_requests(self, parts: Sequence[bytes]) -> Iterator[tuple[int, Sequence[bytes]]]:
        """Split serialized items by number and size; yield each request's first index and items."""
        start = size = 0
        for place, part in enumerate(parts):
            if place > start and (place - start == self.max_items or size + len(part) > self.limit):
                yield start, parts[start:place]
                start, size = place, 0
            size += len(part) + 1
        if start < len(parts):
            yield start, parts[start:]

    def request_body(self, parts: Sequence[bytes]) -> bytes:
        """Return the JSON body of a request with the serialized items `parts`."""
        others = b"".join(
            b"," + _to_json(name) + b":" + _to_json(value) for name, value in self.other_keys.items()
        )
        return b"{" + _to_json(self.key) + b":[" + b",".join(parts) + b"]" + others + b"}"


class Judge:
    """A client of a perfjudge server; it may be shared between threads.

    Every request raises a JudgeError if the server refuses it or does not answer. docs/http.md describes the
    mappings that may replace the request types.

    Parameters
    ----------
    url : str
        Address of the server.
    token : str, optional
        Default: the variable PERFJUDGE_TOKEN, if set.
    timeout : float
        Seconds that one attempt may wait for its answer.
    retries : int
        Number of further attempts if the server cannot be reached or is busy (429, 502, 503, 504): at once,
        after 0.4, 0.8, 1.6 seconds and so on, or as its ``Retry-After`` demands.
    connections : int
        Number of connections kept open.
    startup_timeout : float
        Seconds that the first request waits for a server that does not listen yet, or whose ``/readyz``
        answers 429, 502, 503 or 504; 0: do not wait. A name that cannot be resolved, and a server that does
        not speak HTTP, are errors at once.

    Raises
    ------
    JudgeError
        If `url` is not an HTTP address.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 4,
        connections: int = 4,
        startup_timeout: float = 60.0,
    ) -> None:
        address = urlsplit(url)
        if address.scheme not in {"http", "https"} or not address.hostname:
            raise JudgeError(f"{url!r} is not an address; expected http://HOST:PORT")
        self.url = url.rstrip("/")
        token = token or os.environ.get(TOKEN)
        headers = {"accept": "application/json", "user-agent": "perfjudge"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        self._pool = urllib3.PoolManager(
            maxsize=connections,
            headers=headers,
            timeout=urllib3.Timeout(connect=min(timeout, 10.0), read=timeout),
            retries=urllib3.Retry(
                retries,
                redirect=False,
                # judging changes nothing, so that a request may be repeated
                allowed_methods=None,
                status_forcelist=_BUSY,
                backoff_factor=0.2,
                backoff_max=PATIENCE,
                backoff_jitter=0.1,
                raise_on_status=False,
                retry_after_max=PATIENCE,
            ),
        )
        self._compress = True
        self._startup_timeout, self._started = startup_timeout, startup_timeout <= 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        self._pool.clear()

    def comparisons(self, comparisons: Iterable[Comparison | Mapping[str, Any]]) -> Answers[VerdictAnswer]:
        """Return the verdicts on comparisons, in their order; JudgeError if a request fails."""
        from serving.comparisons.schemas import JudgeAnswer

        path, limit = "/v1/comparisons/judge", 32 * MEBIBYTE
        batched = BatchedRequest(
            path, "comparisons", JudgeAnswer, lambda answer: answer.verdicts, 10_000, limit
        )
        return self._request_batched(batched, comparisons)

    def matrices(
        self, pairs: Iterable[Pair | Mapping[str, Any]], units: Mapping[str, str] | None = None
    ) -> Answers[MatrixVerdictAnswer]:
        """Return the verdicts on any number of pairs of matrices, in their order.

        `units` are unit names by metric; the model ignores metrics in other units than its training data.
        Mappings have the JSON keys of a pair. JudgeError if one of the requests fails.
        """
        from serving.matrices.schemas import PAIRS, MatricesAnswer

        other_keys, path, limit = {"units": units} if units else {}, "/v1/matrices/judge", 16 * MEBIBYTE
        batched = BatchedRequest(
            path, "pairs", MatricesAnswer, lambda answer: answer.verdicts, PAIRS, limit, other_keys
        )
        return self._request_batched(batched, pairs)

    def corun_static(
        self,
        coruns: Iterable[CorunQuestion | Mapping[str, Any]],
        tasks: Sequence[SoloRun | Mapping[str, Any]] = (),
    ) -> Answers[StaticPrediction]:
        """Return predicted impacts of any number of co-runs before they run, in their order.

        `tasks` are at most 200 solo runs of tasks that the model does not know. The impact (co-run time /
        solo time) is None for unknown tasks and machines. JudgeError if one of the requests fails.
        """
        from serving.corun.schemas import CORUNS, StaticAnswer

        other_keys, path, limit = {"tasks": tasks} if tasks else {}, "/v1/corun/static", 8 * MEBIBYTE
        batched = BatchedRequest(
            path, "coruns", StaticAnswer, lambda answer: answer.predictions, CORUNS, limit, other_keys
        )
        return self._request_batched(batched, coruns)

    def corun_online(
        self,
        solo: FirstSeconds | Mapping[str, Any],
        corun: FirstSeconds | Mapping[str, Any],
        machine: str | None = None,
        *,
        whole: bool | None = None,
    ) -> OnlineAnswer:
        """Return the impact predicted from the first seconds of a task alone and with its co-runners.

        `machine` is by default one that the model was trained on. `whole` is whether `solo` is a complete run
        (default: whether it is longer than `corun`). The impact (co-run time / solo time) is None if the
        samples are unusable. JudgeError if the request fails.
        """
        from serving.corun.schemas import OnlineAnswer

        content: dict[str, Any] = {"solo": solo, "corun": corun}
        content |= {} if machine is None else {"machine": machine}
        content |= {} if whole is None else {"solo_is_whole": whole}
        return self._request_answer("/v1/corun/online", content, OnlineAnswer)

    def irup(
        self, machines: Sequence[Machine | Mapping[str, Any]], application: Application | Mapping[str, Any]
    ) -> ProfileAnswer:
        """Return the profile of an application, and predictions for the machines without a value of it.

        `machines` are fingerprints, `application` is its performance on some of these machines. With too few
        machines the profile is empty and has the reason. JudgeError if the request fails.
        """
        from serving.fingerprints.schemas import ProfileAnswer

        return self._request_answer(
            "/v1/irup", {"machines": machines, "application": application}, ProfileAnswer
        )

    def _request_answer(self, path: str, content: Mapping[str, Any], answer: type[Response]) -> Response:
        return self._post_for_answer(path, _to_json(content, path), answer)

    def _request_batched(
        self, batched: BatchedRequest[Response, Item], items: Iterable[Any]
    ) -> Answers[Item]:
        """Send as few requests as the server accepts; JudgeError if one of them fails."""
        parts = [_to_json(item, f"{batched.key}[{place}]") for place, item in enumerate(items)]
        responses = [
            response
            for start, some in batched.split_requests(parts)
            for response in self._post_split(batched, start, some)
        ]
        models = [response.model for response in responses]  # type: ignore[attr-defined] # every such answer names it
        different = tuple(model for place, model in enumerate(models) if model not in models[:place])
        notes = dict.fromkeys(note for response in responses for note in getattr(response, "notes", ()))
        answers = [answer for response in responses for answer in batched.answers(response)]
        return Answers(tuple(answers), different, tuple(notes))

    def _post_split(
        self, batched: BatchedRequest[Response, Item], start: int, parts: Sequence[bytes]
    ) -> list[Response]:
        """Post `parts`, in halves if the server refuses the size; `start` is the index of the first item."""
        try:
            response = self._post_for_answer(batched.path, batched.request_body(parts), batched.answer)
        except JudgeError as exc:
            half = len(parts) // 2
            if exc.status == _TOO_LARGE and half:
                first = self._post_split(batched, start, parts[:half])
                return first + self._post_split(batched, start + half, parts[half:])
            # indices in the message count from the first item of this request
            place = re.compile(rf"\b({batched.key}[\[.])(\d+)")
            detail = place.sub(lambda match: f"{match[1]}{int(match[2]) + start}", exc.detail, count=1)
            raise JudgeError(detail, exc.status, exc.request_id) from None
        count = len(batched.answers(response))
        if count != len(parts):
            raise JudgeError(f"the server gave {count} answers to {len(parts)} {batched.key}", 200)
        return [response]

    def _post_for_answer(self, path: str, body: bytes, answer: type[Response]) -> Response:
        from pydantic import ValidationError

        response = self._send_request(path, body)
        if response.status == _UNSUPPORTED and self._compress and len(body) > LARGE:
            # a server or proxy that refuses compressed bodies does so once
            self._compress = False
            response = self._send_request(path, body)
        if response.status != 200:  # noqa: PLR2004
            raise _refusal_error(response)
        try:
            return answer.model_validate_json(response.data)
        except ValidationError as exc:
            problem = f"the server is not perfjudge, or another version of it: {exc.error_count()} faults"
            raise JudgeError(problem, response.status, _request_id(response, {})) from exc

    def _send_request(self, path: str, body: bytes) -> urllib3.BaseHTTPResponse:
        if not self._started:
            self._wait_until_ready()
            self._started = True
        headers = {**self._pool.headers, "content-type": "application/json"}
        if self._compress and len(body) > LARGE:
            import zstandard

            body, headers["content-encoding"] = zstandard.compress(body), "zstd"
        try:
            return self._pool.request("POST", self.url + path, body=body, headers=headers)
        except HTTPError as exc:
            raise JudgeError(f"{self.url} does not answer ({_innermost_cause(exc)})") from exc

    def _wait_until_ready(self) -> None:
        """Wait for a server that starts; JudgeError if it takes too long, or another program answers."""
        end, warned = time.monotonic() + self._startup_timeout, False
        while (obstacle := self._readiness_problem(max(end - time.monotonic(), 1.0))) is not None:
            if time.monotonic() > end:
                raise JudgeError(f"{self.url} is not ready after {self._startup_timeout:g} s ({obstacle})")
            if not warned:
                LOG.warning("%s is not ready (%s); waiting for it", self.url, obstacle)
            warned = True
            time.sleep(_PAUSE)

    def _readiness_problem(self, seconds: float) -> str | None:
        """Return why the server does not answer yet, None if it does; JudgeError if it never will."""
        address = f"{self.url}/readyz"
        try:
            response = self._pool.request("GET", address, retries=False, timeout=min(seconds, 10.0))
        except HTTPError as exc:
            if not _is_temporary(exc):
                raise JudgeError(f"{self.url} does not answer ({_innermost_cause(exc)})") from exc
            return _innermost_cause(exc)
        # other statuses may come from a proxy, and need not apply to the request
        return f"{response.status} {_refusal_error(response).detail}" if response.status in _BUSY else None


def _is_temporary(exc: HTTPError) -> bool:
    """Return whether an attempt failed because the server does not listen yet, or no longer."""
    if isinstance(exc, ProtocolError):
        return isinstance(exc.args[-1], OSError)
    return isinstance(exc, TimeoutError) and not isinstance(exc, NameResolutionError)


def _to_json(value: Any, place: str = "") -> bytes:
    """Return a JSON value or a request model as JSON bytes; JudgeError names `place` if that fails."""
    try:
        return json.dumps(value, default=_plain_value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as exc:
        raise JudgeError(f"{place} cannot be written as JSON: {exc}") from exc


def _plain_value(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(exclude_unset=True)
    # NumPy
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is neither of JSON nor of a request")


def _refusal_error(response: urllib3.BaseHTTPResponse) -> JudgeError:
    """Return the error of an HTTP response, from its problem details or else its reason phrase."""
    try:
        problem = dict(json.loads(response.data))
    except (TypeError, ValueError):
        problem = {}
    detail = problem.get("detail") or response.reason or "no reason given"
    if not problem and response.status == 404:  # noqa: PLR2004
        detail = f"{detail}: what answers at this address is not perfjudge"
    return JudgeError(str(detail), response.status, _request_id(response, problem))


def _request_id(response: urllib3.BaseHTTPResponse, problem: Mapping[str, Any]) -> str | None:
    request_id = response.headers.get("x-request-id") or problem.get("request_id") or problem.get("instance")
    return None if request_id is None else str(request_id)


def _innermost_cause(exc: BaseException) -> str:
    cause = getattr(exc, "reason", None)
    return _innermost_cause(cause) if isinstance(cause, BaseException) else str(exc).rpartition(": ")[2]
