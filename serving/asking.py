"""HTTP client: connection pool, retries, batches and error messages."""

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

if TYPE_CHECKING:
    from pydantic import BaseModel

    from serving.http.schemas import ModelAnswer

LOG = logging.getLogger("perfjudge")
T = TypeVar("T")
Read = TypeVar("Read", bound="BaseModel")
#: The variable that holds a token where none is given.
TOKEN = "PERFJUDGE_TOKEN"  # noqa: S105 - the variable's name, not the token
#: Bodies of more bytes than this are sent compressed.
LARGE = 65_536
#: Maximal delay before another attempt in seconds, whatever the server demands.
PATIENCE = 60
_TOO_LARGE, _UNSUPPORTED = 413, 415
_BUSY = (429, 502, 503, 504)
#: Seconds between two looks at a server that starts.
_PAUSE = 0.2


class JudgeError(Exception):
    """A request that failed.

    Attributes
    ----------
    status : int or None
        The HTTP status; None if no answer came or the request could not be sent.
    detail : str
        One line.
    request_id : str or None
        The request id in the server's log, if the server sent one.
    """

    def __init__(self, detail: str, status: int | None = None, request_id: str | None = None) -> None:
        super().__init__(detail, status, request_id)
        self.detail, self.status, self.request_id = detail, status, request_id

    def further(self, key: str, start: int) -> JudgeError:
        """Return a copy whose index after `key` is increased by `start`, the items sent before."""
        place = re.compile(rf"\b({key}[\[.])(\d+)")
        told = place.sub(lambda found: f"{found[1]}{int(found[2]) + start}", self.detail, count=1)
        return JudgeError(told, self.status, self.request_id)

    def __str__(self) -> str:
        known = [str(self.status)] if self.status else []
        known += [f"request {self.request_id}"] if self.request_id else []
        return f"{self.detail} ({', '.join(known)})" if known else self.detail


@dataclass(frozen=True)
class Answers(Sequence[T]):
    """Answers in the order of the items, from any number of requests.

    Attributes
    ----------
    models : tuple of ModelAnswer
        The models that answered: several if the server changed its model in between.
    notes : tuple of str
        The server's assumptions, one line each.
    """

    each: tuple[T, ...]
    models: tuple[ModelAnswer, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, each: Iterable[T], model: ModelAnswer, notes: Iterable[str] = ()) -> Self:
        """Return the answers of one request."""
        return cls(tuple(each), (model,), tuple(notes))

    @classmethod
    def joined(cls, parts: Sequence[Answers[T]]) -> Self:
        """Return the answers of several requests as one."""
        models = [model for one in parts for model in one.models]
        different = tuple(model for place, model in enumerate(models) if model not in models[:place])
        notes = dict.fromkeys(note for one in parts for note in one.notes)
        return cls(tuple(thing for one in parts for thing in one.each), different, tuple(notes))

    def __len__(self) -> int:
        return len(self.each)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...
    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        return self.each[place]


@dataclass(frozen=True)
class Batched(Generic[Read, T]):
    """A request about many items, which may be split into several requests.

    Attributes
    ----------
    path, key : str
        The endpoint, and the JSON key of the items.
    answer : type
        The type of the response.
    told : callable
        Takes the response; returns the answers in the order of the items.
    most, limit : int
        Maximal number of items, and of bytes (about), in one request.
    further : mapping
        Other keys of each request.
    """

    path: str
    key: str
    answer: type[Read]
    told: Callable[[Read], Answers[T]]
    most: int
    limit: int
    further: Mapping[str, Any] = field(default_factory=dict)

    def requests(self, parts: Sequence[bytes]) -> Iterator[tuple[int, Sequence[bytes]]]:
        """Divide things that are written as JSON by their number and size; say where each request begins."""
        start = size = 0
        for place, part in enumerate(parts):
            if place > start and (place - start == self.most or size + len(part) > self.limit):
                yield start, parts[start:place]
                start, size = place, 0
            size += len(part) + 1
        if start < len(parts):
            yield start, parts[start:]

    def body(self, parts: Sequence[bytes]) -> bytes:
        """Return the JSON body of a request with the serialized items `parts`."""
        further = b"".join(b"," + written(name) + b":" + written(one) for name, one in self.further.items())
        return b"{" + written(self.key) + b":[" + b",".join(parts) + b"]" + further + b"}"


class Asking:
    """A client of one HTTP server; it may be shared between threads.

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
        after
        0.4, 0.8, 1.6 seconds and so on, or as its ``Retry-After`` demands.
    connections : int
        Number of connections kept open.
    startup_timeout : float
        Seconds that the first request waits for a server that does not listen yet, or whose ``/readyz``
        answers 429,
        502, 503 or 504; 0: do not wait. A name that cannot be resolved, and a server that does not speak
        HTTP, are
        errors at once.

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
            raise JudgeError(f"{url!r} is no address; expected http://HOST:PORT")
        self.url = url.rstrip("/")
        token = token or os.environ.get(TOKEN)
        self._pool = urllib3.PoolManager(
            maxsize=connections,
            headers={"accept": "application/json", "user-agent": "perfjudge"}
            | ({"authorization": f"Bearer {token}"} if token else {}),
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
        self._packed = True
        self._startup_timeout, self._started = startup_timeout, startup_timeout <= 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def close(self) -> None:
        """Close the connections; the next question opens new ones."""
        self._pool.clear()

    def ask(self, path: str, content: Mapping[str, Any], answer: type[Read]) -> Read:
        """Ask one question; JudgeError if it is not answered."""
        return self._post(path, written(content, path), answer)

    def ask_each(self, question: Batched[Read, T], things: Iterable[Any]) -> Answers[T]:
        """Ask about each thing, in as few requests as the server takes; JudgeError if one is not answered."""
        parts = [written(one, f"{question.key}[{place}]") for place, one in enumerate(things)]
        requests = question.requests(parts)
        return Answers.joined(
            [one for start, some in requests for one in self._divided(question, start, some)]
        )

    def _divided(self, question: Batched[Read, T], start: int, parts: Sequence[bytes]) -> list[Answers[T]]:
        """Ask about `parts`, in halves where the server says that they are too much at once."""
        try:
            answers = question.told(self._post(question.path, question.body(parts), question.answer))
        except JudgeError as exc:
            half = len(parts) // 2
            if exc.status != _TOO_LARGE or not half:
                raise exc.further(question.key, start) from None
            first = self._divided(question, start, parts[:half])
            return first + self._divided(question, start + half, parts[half:])
        if len(answers) != len(parts):
            raise JudgeError(f"the server gave {len(answers)} answers to {len(parts)} {question.key}", 200)
        return [answers]

    def _post(self, path: str, body: bytes, answer: type[Read]) -> Read:
        response = self._sent(path, body)
        if response.status == _UNSUPPORTED and self._packed and len(body) > LARGE:
            # a server or proxy that refuses compressed bodies does so once
            self._packed = False
            response = self._sent(path, body)
        if response.status != 200:  # noqa: PLR2004
            raise refusal(response)
        return read(response, answer)

    def _sent(self, path: str, body: bytes) -> urllib3.BaseHTTPResponse:
        if not self._started:
            self._wait_until_ready()
            self._started = True
        headers = {**self._pool.headers, "content-type": "application/json"}
        if self._packed and len(body) > LARGE:
            import zstandard

            body, headers["content-encoding"] = zstandard.compress(body), "zstd"
        try:
            return self._pool.request("POST", self.url + path, body=body, headers=headers)
        except HTTPError as exc:
            raise JudgeError(f"{self.url} does not answer ({reason(exc)})") from exc

    def _wait_until_ready(self) -> None:
        """Wait for a server that starts; JudgeError if it takes too long, or another program answers."""
        end, waits = time.monotonic() + self._startup_timeout, False
        while (trouble := self._trouble(max(end - time.monotonic(), 1.0))) is not None:
            if time.monotonic() > end:
                raise JudgeError(f"{self.url} is not ready after {self._startup_timeout:g} s ({trouble})")
            if not waits:
                LOG.warning("%s is not ready (%s); waiting for it", self.url, trouble)
            waits = True
            time.sleep(_PAUSE)

    def _trouble(self, seconds: float) -> str | None:
        """Return why the server does not answer yet, None if it does; JudgeError if it never will."""
        address = f"{self.url}/readyz"
        try:
            response = self._pool.request("GET", address, retries=False, timeout=min(seconds, 10.0))
        except HTTPError as exc:
            if not _may_pass(exc):
                raise JudgeError(f"{self.url} does not answer ({reason(exc)})") from exc
            return reason(exc)
        # other statuses may come from a proxy, and need not apply to the request
        return f"{response.status} {refusal(response).detail}" if response.status in _BUSY else None


def _may_pass(exc: HTTPError) -> bool:
    """Return whether an attempt failed because the server does not listen yet, or no longer."""
    if isinstance(exc, ProtocolError):
        return isinstance(exc.args[-1], OSError)
    return isinstance(exc, TimeoutError) and not isinstance(exc, NameResolutionError)


def written(thing: Any, place: str = "") -> bytes:
    """Return a JSON value or a request model as JSON bytes; JudgeError names `place` if that fails."""
    try:
        return json.dumps(thing, default=_content, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as exc:
        raise JudgeError(f"{place} cannot be written as JSON: {exc}") from exc


def _content(thing: Any) -> Any:
    """Convert a pydantic model or a NumPy value for `json.dumps`."""
    for convert in ("model_dump", "tolist"):
        if hasattr(thing, convert):
            given = {"exclude_unset": True} if convert == "model_dump" else {}
            return getattr(thing, convert)(**given)
    raise TypeError(f"a {type(thing).__name__} is neither of JSON nor of a request")


def read(response: urllib3.BaseHTTPResponse, answer: type[Read]) -> Read:
    """Return the answer that a response holds; JudgeError if it holds anything else."""
    from pydantic import ValidationError

    try:
        return answer.model_validate_json(response.data)
    except ValidationError as exc:
        told = f"what answers is not perfjudge, or another version of it: {exc.error_count()} faults"
        raise JudgeError(told, response.status, _request_id(response, {})) from exc


def refusal(response: urllib3.BaseHTTPResponse) -> JudgeError:
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
    found = response.headers.get("x-request-id") or problem.get("request_id") or problem.get("instance")
    return None if found is None else str(found)


def reason(exc: BaseException) -> str:
    """Return the innermost cause of a failed attempt, in one line."""
    last = getattr(exc, "reason", None)
    return reason(last) if isinstance(last, BaseException) else str(exc).rpartition(": ")[2]
