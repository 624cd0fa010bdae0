"""The client: requests with retries, in batches, to a server that may still be starting."""

from __future__ import annotations

import gzip
import json
import logging
import os
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, Self, TypeVar, overload
from urllib.parse import urlsplit

import msgspec
import urllib3
from urllib3.exceptions import (
    HTTPError,
    NameResolutionError,
    ProtocolError,
    TimeoutError,  # noqa: A004 - of HTTP
)

from perfjudge_client import schemas

LOG = logging.getLogger("perfjudge_client")
Item = TypeVar("Item")
#: Environment variable with the default token.
TOKEN = "PERFJUDGE_TOKEN"  # noqa: S105 - the variable's name, not the token
#: Size in bytes above which bodies are sent compressed.
LARGE = 65_536
#: Maximum delay in seconds before another attempt, whatever the server demands.
MAX_DELAY = 60
#: Maximum number of items of a request to an endpoint without such a limit.
_MAX_ITEMS = 10_000
_VISIBLE = re.compile("[!-~]+")
_OK, _NOT_FOUND, _TOO_LARGE, _UNSUPPORTED = 200, 404, 413, 415
_BUSY = (429, 502, 503, 504)
#: Seconds between checks of a server that is starting.
_PAUSE = 0.2


class ClientError(Exception):
    """A request that failed; ``detail`` is one line.

    Raised itself for invalid addresses, values that JSON cannot hold, and answers that are not perfjudge's.
    """

    def __init__(self, detail: str, *facts: object) -> None:
        super().__init__(detail, *facts)
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


class UnreachableError(ClientError):
    """No answer: no connection, a timeout, or a server that was not ready in time; ``url`` is its address."""

    def __init__(self, detail: str, url: str) -> None:
        super().__init__(detail, url)
        self.url = url


class RefusedError(ClientError):
    """An error answer of the server.

    ``detail`` is the server's message: the file or place in the request, the field, its value and what was
    expected. ``status`` is the HTTP status, ``request_id`` the id in the server's log, None if unknown.
    """

    def __init__(self, detail: str, status: int, request_id: str | None = None) -> None:
        super().__init__(detail, status, request_id)
        self.status, self.request_id = status, request_id

    def __str__(self) -> str:
        request = f", request {self.request_id}" if self.request_id else ""
        return f"{self.detail} ({self.status}{request})"


@dataclass(frozen=True)
class Answers(Sequence[Item]):
    """Answers in the order of the items, from any number of requests.

    ``models`` are those that answered, several if the server changed its model in between; ``notes`` are the
    server's assumptions, one line each.
    """

    items: tuple[Item, ...]
    models: tuple[schemas.ModelAnswer | schemas.JudgeModel, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        return self.items[place]


class _BatchAnswer(Protocol):
    @property
    def model(self) -> schemas.ModelAnswer | schemas.JudgeModel: ...
    @property
    def notes(self) -> list[str]: ...


Response = TypeVar("Response")
BatchResponse = TypeVar("BatchResponse", bound=_BatchAnswer)


@dataclass(frozen=True)
class _Batch(Generic[BatchResponse, Item]):
    """A request about many items, which may be split into several requests.

    ``key`` is the JSON key of the items, ``other_keys`` are the other keys of each request. ``answers`` takes
    a response and returns the answers in the order of the items. With ``is_whole``, the answer to an item
    depends on the others, so that the items have to be in one request.
    """

    path: str
    key: str
    answer: type[BatchResponse]
    answers: Callable[[BatchResponse], Sequence[Item]]
    other_keys: Mapping[str, Any] = field(default_factory=dict)
    is_whole: bool = False

    def split_items(self, parts: Sequence[bytes]) -> Iterator[tuple[int, Sequence[bytes]]]:
        """Split serialized items by number and size; yield each request's first index and items.

        A request has at most half the bytes that the server accepts, as it reads large bodies slowly.
        """
        max_bytes = schemas.MAX_BYTES[self.path] // 2
        max_items = schemas.MAX_ITEMS.get((self.path, self.key), _MAX_ITEMS)
        start = size = 0
        for place, part in enumerate(parts):
            if place > start and (place - start == max_items or size + len(part) > max_bytes):
                yield start, parts[start:place]
                start, size = place, 0
            size += len(part) + 1
        if start < len(parts):
            yield start, parts[start:]

    def too_large(self, number: int, at_most: int) -> ClientError:
        """Return the error that items that have to be in one request do not fit into it."""
        problem = f"{number} {self.key} do not fit into one request; expected at most about {at_most}"
        return ClientError(f'{problem}, as base_rate="estimate" needs all of them')

    def body(self, parts: Sequence[bytes]) -> bytes:
        """Return the JSON body of a request with the serialized items `parts`."""
        others = b"".join(
            b"," + _to_json(name, name) + b":" + _to_json(value, name)
            for name, value in self.other_keys.items()
        )
        return b"{" + _to_json(self.key, self.key) + b":[" + b",".join(parts) + b"]" + others + b"}"


class Client:
    """A client of a perfjudge server; it may be shared between threads.

    Items of requests are objects of `perfjudge_client.schemas`, or mappings with the same keys; numbers may
    be NumPy's. Every request raises a ClientError if it fails.

    Parameters
    ----------
    url : str
        Address of the server.
    token : str, optional
        Default: the variable PERFJUDGE_TOKEN, if set. White space at both ends is ignored.
    timeout : float
        Seconds that one attempt may wait for its answer.
    retries : int
        Number of further attempts if the server cannot be reached or is busy (429, 502, 503, 504): at once,
        after 0.4, 0.8, 1.6 seconds and so on, or as its ``Retry-After`` demands, at most 60 seconds.
    connections : int
        Number of connections kept open.
    startup_timeout : float
        Seconds that the first request waits for a server that does not listen yet, or whose ``/readyz``
        answers 429, 502, 503 or 504; 0: do not wait. A name that cannot be resolved, and a server that does
        not speak HTTP, are errors at once.

    Raises
    ------
    ClientError
        If `url` is not an HTTP address, or a header cannot contain the token.
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
            raise ClientError(f"{url!r} is not an address; expected http://HOST:PORT")
        self.url = url.rstrip("/")
        token = (token or "").strip() or os.environ.get(TOKEN, "").strip()
        headers = {"accept": "application/json", "user-agent": "perfjudge-client"}
        if token:
            if not _VISIBLE.fullmatch(token):
                raise ClientError("the token is invalid; expected visible ASCII characters without spaces")
            headers["authorization"] = f"Bearer {token}"
        self._pool = urllib3.PoolManager(
            maxsize=connections,
            headers=headers,
            timeout=urllib3.Timeout(connect=min(timeout, 10.0), read=timeout),
            retries=urllib3.Retry(
                retries,
                redirect=False,
                # requests change nothing, so that they may be repeated
                allowed_methods=None,
                status_forcelist=_BUSY,
                backoff_factor=0.2,
                backoff_max=MAX_DELAY,
                backoff_jitter=0.1,
                raise_on_status=False,
                retry_after_max=MAX_DELAY,
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

    def judge_comparisons(
        self,
        comparisons: Iterable[schemas.Comparison | Mapping[str, Any]],
        *,
        explain: bool = False,
        max_false_negative_rate: float | None = None,
        max_false_positive_rate: float | None = None,
        costs: schemas.RequestCosts | Mapping[str, float] | None = None,
        base_rate: float | Literal["estimate"] | None = None,
    ) -> Answers[schemas.VerdictAnswer]:
        """Return the verdicts on any number of comparisons, in their order.

        `explain` also requests attributions, evidence, nearest labelled comparisons and counterfactuals. The
        other options replace the decision of the model: the maximum share of regressions that pass, the
        maximum share of other comparisons that fail, or the costs of errors. RefusedError with status 409 if
        the model cannot guarantee them. `base_rate` is the share of regressions that probabilities and
        thresholds are corrected for; "estimate": the share among `comparisons`, which then have to fit into
        one request, at most 10,000; else a ClientError is raised before anything is sent.
        """
        other_keys = {
            "explain": explain or None,
            "max_false_negative_rate": max_false_negative_rate,
            "max_false_positive_rate": max_false_positive_rate,
            "costs": costs,
            "base_rate": base_rate,
        }
        return self._request_batches(
            _Batch(
                "/v1/comparisons/judge",
                "comparisons",
                schemas.JudgeAnswer,
                lambda answer: answer.verdicts,
                _without_none(other_keys),
                is_whole=base_rate == "estimate",
            ),
            comparisons,
        )

    def compare_results(
        self,
        baseline: str | PathLike[str] | Sequence[str | PathLike[str]],
        target: str | PathLike[str] | Sequence[str | PathLike[str]],
        history: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    ) -> schemas.CompareAnswer:
        """Return the answer of ``perfjudge compare`` to files of results, with its Markdown.

        Each argument is a path or several. Several files of `baseline` or `target` are several runs;
        `history` are earlier runs, oldest first. OSError if a file cannot be read.
        """
        sides = {"baseline": _paths(baseline), "target": _paths(target), "history": _paths(history)}
        content: dict[str, Any] = {
            side: [{"name": path.name, "content": b64encode(path.read_bytes()).decode()} for path in paths]
            for side, paths in sides.items()
        }
        content["forms"] = ["markdown"]
        return self._request_answer("/v1/comparisons/compare", content, schemas.CompareAnswer)

    def judge_matrices(
        self, pairs: Iterable[schemas.Pair | Mapping[str, Any]], units: Mapping[str, str] | None = None
    ) -> Answers[schemas.MatrixVerdictAnswer]:
        """Return the verdicts on any number of pairs of matrices, in their order.

        `units` are unit names by metric; the model ignores metrics in other units than its training data.
        """
        return self._request_batches(
            _Batch(
                "/v1/matrices/judge",
                "pairs",
                schemas.MatricesAnswer,
                lambda answer: answer.verdicts,
                _without_none({"units": units}),
            ),
            pairs,
        )

    def predict_coruns(
        self,
        coruns: Iterable[schemas.CorunQuestion | Mapping[str, Any]],
        tasks: Sequence[schemas.SoloRun | Mapping[str, Any]] = (),
    ) -> Answers[schemas.StaticPrediction]:
        """Return predicted impacts of any number of co-runs before they run, in their order.

        `tasks` are at most 200 solo runs of tasks that the model does not know. The impact (co-run time /
        solo time) is None for unknown tasks and machines.
        """
        return self._request_batches(
            _Batch(
                "/v1/corun/static",
                "coruns",
                schemas.StaticAnswer,
                lambda answer: answer.predictions,
                _without_none({"tasks": tasks or None}),
            ),
            coruns,
        )

    def predict_corun_online(
        self,
        solo: schemas.FirstSeconds | Mapping[str, Any],
        corun: schemas.FirstSeconds | Mapping[str, Any],
        machine: str | None = None,
        *,
        solo_is_whole: bool | None = None,
    ) -> schemas.OnlineAnswer:
        """Return the impact predicted from the first seconds of a task alone and with its co-runners.

        `machine` is by default one that the model was trained on. `solo_is_whole` is whether `solo` is a
        complete run (default: whether it is over 10 % longer than `corun`, or both seem complete, with
        equal work in different times). The impact (co-run time / solo time) is None if the samples are
        unusable.
        """
        content = {"solo": solo, "corun": corun, "machine": machine, "solo_is_whole": solo_is_whole}
        return self._request_answer("/v1/corun/online", _without_none(content), schemas.OnlineAnswer)

    def profile_application(
        self,
        machines: Sequence[schemas.Machine | Mapping[str, Any]],
        application: schemas.Application | Mapping[str, Any],
    ) -> schemas.ProfileAnswer:
        """Return the profile of an application, and predictions for the machines without a value of it.

        `machines` are fingerprints, `application` is its performance on some of these machines. With too few
        machines the profile is empty and has the reason.
        """
        content = {"machines": machines, "application": application}
        return self._request_answer("/v1/irup", content, schemas.ProfileAnswer)

    def _request_answer(self, path: str, content: Mapping[str, Any], answer: type[Response]) -> Response:
        return self._post_for_answer(path, _to_json(content, path), answer)

    def _request_batches(self, batch: _Batch[BatchResponse, Item], items: Iterable[Any]) -> Answers[Item]:
        """Send as few requests as the server accepts; ClientError if one of them fails."""
        parts = [_to_json(item, f"{batch.key}[{place}]") for place, item in enumerate(items)]
        batches = [*batch.split_items(parts)]
        if batch.is_whole and len(batches) > 1:
            raise batch.too_large(len(parts), len(batches[0][1]))
        responses = [
            response for start, some in batches for response in self._post_in_halves(batch, start, some)
        ]
        models = [response.model for response in responses]
        different = tuple(model for place, model in enumerate(models) if model not in models[:place])
        notes = dict.fromkeys(note for response in responses for note in response.notes)
        answers = tuple(answer for response in responses for answer in batch.answers(response))
        return Answers(answers, different, tuple(notes))

    def _post_in_halves(
        self, batch: _Batch[BatchResponse, Item], start: int, parts: Sequence[bytes]
    ) -> list[BatchResponse]:
        """Post `parts`, in halves if the server refuses the size; `start` is the index of the first item."""
        try:
            response = self._post_for_answer(batch.path, batch.body(parts), batch.answer)
        except RefusedError as exc:
            half = len(parts) // 2
            if exc.status == _TOO_LARGE and half and batch.is_whole:
                raise batch.too_large(len(parts), half) from exc
            if exc.status == _TOO_LARGE and half:
                first = self._post_in_halves(batch, start, parts[:half])
                return first + self._post_in_halves(batch, start + half, parts[half:])
            # indices in the message count from the first item of this request
            place = re.compile(rf"\b({batch.key}[\[.])(\d+)")
            detail = place.sub(lambda match: f"{match[1]}{int(match[2]) + start}", exc.detail, count=1)
            raise RefusedError(detail, exc.status, exc.request_id) from None
        count = len(batch.answers(response))
        if count != len(parts):
            raise ClientError(f"{self.url} gave {count} answers to {len(parts)} {batch.key}")
        return [response]

    def _post_for_answer(self, path: str, body: bytes, answer: type[Response]) -> Response:
        response = self._send_request(path, body)
        if response.status == _UNSUPPORTED and self._compress and len(body) > LARGE:
            # a server or proxy that refuses compressed bodies does so once
            self._compress = False
            response = self._send_request(path, body)
        if response.status != _OK:
            raise _refusal(response)
        try:
            return msgspec.json.decode(response.data, type=answer)
        except msgspec.DecodeError as exc:
            raise ClientError(f"{self.url} is not perfjudge, or another version of it: {exc}") from exc

    def _send_request(self, path: str, body: bytes) -> urllib3.BaseHTTPResponse:
        if not self._started:
            self._wait_until_ready()
            self._started = True
        headers = {**self._pool.headers, "content-type": "application/json"}
        if self._compress and len(body) > LARGE:
            body, headers["content-encoding"] = gzip.compress(body, 1, mtime=0), "gzip"
        try:
            return self._pool.request("POST", self.url + path, body=body, headers=headers)
        except HTTPError as exc:
            raise self._unreachable(exc) from exc

    def _wait_until_ready(self) -> None:
        """Wait for a server that starts; UnreachableError if it takes too long or does not speak HTTP."""
        end, warned = time.monotonic() + self._startup_timeout, False
        while (obstacle := self._readiness_problem(max(end - time.monotonic(), 1.0))) is not None:
            if time.monotonic() > end:
                problem = f"{self.url} is not ready after {self._startup_timeout:g} s ({obstacle})"
                raise UnreachableError(problem, self.url)
            if not warned:
                LOG.warning("%s is not ready (%s); waiting for it", self.url, obstacle)
            warned = True
            time.sleep(_PAUSE)

    def _readiness_problem(self, seconds: float) -> str | None:
        """Return why the server does not answer yet, None if it does; UnreachableError if it never will."""
        address = f"{self.url}/readyz"
        try:
            response = self._pool.request("GET", address, retries=False, timeout=min(seconds, 10.0))
        except HTTPError as exc:
            if not _is_temporary(exc):
                raise self._unreachable(exc) from exc
            return _innermost_cause(exc)
        # other statuses may come from a proxy, and need not apply to the request
        return f"{response.status} {_refusal(response).detail}" if response.status in _BUSY else None

    def _unreachable(self, exc: HTTPError) -> UnreachableError:
        return UnreachableError(f"{self.url} does not answer ({_innermost_cause(exc)})", self.url)


def _paths(given: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[Path]:
    return [Path(path) for path in ([given] if isinstance(given, str | PathLike) else given)]


def _without_none(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if value is not None}


def _is_temporary(exc: HTTPError) -> bool:
    """Return whether an attempt failed because the server does not listen yet, or no longer."""
    if isinstance(exc, ProtocolError):
        return isinstance(exc.args[-1], OSError)
    return isinstance(exc, TimeoutError) and not isinstance(exc, NameResolutionError)


def _to_json(value: Any, place: str) -> bytes:
    """Return a JSON value or a request object as JSON bytes; ClientError names `place` if that fails."""
    try:
        # msgspec would write NaN as null
        return json.dumps(value, default=_plain_value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as exc:
        wrong = next(_infinite_numbers(value, place), "")
        problem = f"{wrong} is not finite" if wrong else f"{place} cannot be written as JSON: {exc}"
        raise ClientError(problem) from exc


def _infinite_numbers(value: Any, place: str) -> Iterator[str]:
    """Yield the place and the value of each number that JSON does not have."""
    if not isinstance(value, str | bytes | int | float | Mapping | Sequence | None):
        try:
            value = _plain_value(value)
        except TypeError:
            return
    if isinstance(value, float) and not isfinite(value):
        yield f"{place}={value}"
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _infinite_numbers(part, f"{place}.{key}")
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for number, part in enumerate(value):
            yield from _infinite_numbers(part, f"{place}[{number}]")


def _plain_value(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value, enc_hook=_plain_value)
    # NumPy
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is neither of JSON nor of a request")


def _refusal(response: urllib3.BaseHTTPResponse) -> RefusedError:
    """Return the error of an HTTP response, from its problem details or else its reason phrase."""
    try:
        problem = dict(json.loads(response.data))
    except (TypeError, ValueError):
        problem = {}
    detail = problem.get("detail") or response.reason or "no reason given"
    if not problem and response.status == _NOT_FOUND:
        detail = f"{detail}: the server at this address is not perfjudge"
    request_id = response.headers.get("x-request-id") or problem.get("request_id") or problem.get("instance")
    return RefusedError(str(detail), response.status, None if request_id is None else str(request_id))


def _innermost_cause(exc: BaseException) -> str:
    cause = getattr(exc, "reason", None)
    return _innermost_cause(cause) if isinstance(cause, BaseException) else str(exc).rpartition(": ")[2]
