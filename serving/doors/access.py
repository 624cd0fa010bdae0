"""Who may ask: on this machine's own address anybody, elsewhere and with a file of tokens who has one."""

from __future__ import annotations

import binascii
import re
import socket
from base64 import b64decode
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from starlette.routing import compile_path

from data.errors import InputError
from serving.doors.problems import RefusedError
from serving.doors.tokens import Token, Tokens
from serving.supply import Door, Scope

#: What those may ask who watch over processes.
OPEN = frozenset({"/healthz", "/readyz"})
#: What a browser does with name and password that a person has once given it.
_BROWSED = frozenset({"GET", "HEAD", "PUT"})
#: Who only asks; whatever else is done needs the scope ``label``.
_ASKING = frozenset({"GET", "HEAD", "OPTIONS", "POST"})
_HOLDER = "perfjudge.holder"
_REALM = 'realm="perfjudge"'


class Address(NamedTuple):
    """Where a server is to listen."""

    family: socket.AddressFamily
    place: tuple[Any, ...]

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ip_address(self.place[0]).is_loopback


def address(host: str, port: int, tokens: str | None) -> Address:
    """Return the address that a name stands for.

    Raises
    ------
    InputError
        If there is none, or if other machines reach it and no file of tokens is given.
    """
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as exc:
        told = getattr(exc, "strerror", None) or "no such host"
        raise InputError(f"cannot listen ({told})", place=f"{host}:{port}") from exc
    found = Address(family, place)
    if tokens is None and not found.loopback:
        told = (
            "other machines reach this address: expected --tokens FILE; "
            '"perfjudge token NAME --tokens FILE" makes a token and the file'
        )
        raise InputError(told, place=f"{host}:{port}")
    return found


@dataclass(frozen=True)
class Access:
    """Which token a request needs: one with the scope ``label`` where it changes something.

    Attributes
    ----------
    tokens : Tokens or None
        None: nobody needs any.
    needed : mapping of str to Scope
        By path; any other needs ``read``.
    patterns : sequence of (re.Pattern, Scope)
        The same of paths with parameters.
    """

    tokens: Tokens | None
    needed: dict[str, Scope] = field(default_factory=dict)
    patterns: tuple[tuple[re.Pattern[str], Scope], ...] = ()

    @classmethod
    def of(cls, doors: Iterable[Door], tokens: str | None) -> Access:
        """Read the scopes of doors, and the file of tokens if there is one; a bad one gives nobody access."""
        needed = {door.path: door.scope for door in doors}
        patterns = tuple((compile_path(path)[0], scope) for path, scope in needed.items() if "{" in path)
        return cls(None if tokens is None else Tokens(Path(tokens)), needed, patterns)

    def allowed(self, method: str, path: str, authorization: bytes) -> Token | None:
        """Return the token of a request, if any is needed.

        Raises
        ------
        RefusedError
            401 without a token that is known, 403 if it does not allow this.
        """
        if self.tokens is None or path in OPEN:
            return None
        presented = _presented(authorization, basic=method in _BROWSED)
        token = None if presented is None else self.tokens.known(presented)
        if token is None:
            raise _unknown(given=bool(authorization), browses=method in {"GET", "HEAD"})
        scope = self._scope(method, path)
        if scope not in token.scopes:
            headers = {"www-authenticate": f'Bearer {_REALM}, error="insufficient_scope", scope="{scope}"'}
            told = f'this needs a token with the scope "{scope}"'
            raise RefusedError(HTTPStatus.FORBIDDEN, told, headers)
        return token

    def _scope(self, method: str, path: str) -> Scope:
        if method not in _ASKING:
            return "label"
        found = self.needed.get(path)
        if found is None and self.patterns:
            found = next((scope for pattern, scope in self.patterns if pattern.match(path)), None)
        return found or "read"


def keep(scope: MutableMapping[str, Any], token: Token | None) -> None:
    """Let `holder` find the token of a request."""
    scope[_HOLDER] = token


def holder(scope: Mapping[str, Any]) -> Token | None:
    """Return the token of a request; None where nobody needs one."""
    token: Token | None = scope.get(_HOLDER)
    return token


def _unknown(*, given: bool, browses: bool) -> RefusedError:
    told = "the token is not known" if given else "this needs a token: Authorization: Bearer TOKEN"
    challenge = f'Bearer {_REALM}, error="invalid_token"' if given else f"Bearer {_REALM}"
    if browses:
        # so that a browser asks for name and password, of which the password is the token; Chromium looks at
        # the first way only
        challenge = f'Basic {_REALM}, charset="UTF-8", {challenge}'
    return RefusedError(HTTPStatus.UNAUTHORIZED, told, {"www-authenticate": challenge})


def _presented(authorization: bytes, *, basic: bool) -> bytes | None:
    """Return the token of the header; of name and password, which browsers send unasked, the password."""
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic" and basic:
        try:
            return b64decode(value.strip(), validate=True).partition(b":")[2]
        except binascii.Error:
            return None
    return None


def describe(document: dict[str, Any]) -> None:
    """Say in an OpenAPI document which addresses need a token."""
    schemes = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "A line of the file of tokens."},
        "basic": {"type": "http", "scheme": "basic", "description": "Any name, the token as password."},
    }
    document["components"]["securitySchemes"] = schemes
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if path not in OPEN:
                ways = ("bearer", "basic") if method in {"get", "put"} else ("bearer",)
                operation["security"] = [{way: []} for way in ways]
