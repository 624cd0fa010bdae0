"""Requests that a page of another site makes a browser send: they change nothing here, and learn nothing."""

from __future__ import annotations

import binascii
import hmac
import logging
import os
import re
import secrets
import socket
import stat
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlsplit

from data.errors import InputError
from serving.http.schemas import RefusedError

LOG = logging.getLogger("perfjudge")
#: How programs that look for lost secrets recognise one.
PREFIX = "pj_"
#: Scopes of tokens: to request verdicts, or to label.
SCOPES = ("read", "label")
#: Seconds after which the file is read again: a change counts within a second.
EVERY = 0.5
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Token:
    """One line of the token file: name, scopes and SHA-256 digest, never the token itself."""

    name: str
    scopes: frozenset[str]
    digest: bytes = field(repr=False)


def read(path: Path) -> list[Token]:
    """Read a file of tokens."""
    tokens = _read(path)
    if not tokens:
        raise InputError("holds no token; expected lines NAME SCOPES SHA256", file=path)
    return tokens


def _read(path: Path) -> list[Token]:
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise InputError("is no regular file", file=path)
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise InputError("others than its owner may write it; expected chmod go-w", file=path)
        return list(_tokens(path.read_text("utf-8", "replace"), path))
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be read", file=path) from exc


def add(path: Path, name: str, scopes: str) -> str:
    """Create a random token and append its digest to a token file, which is created if missing.

    Parameters
    ----------
    name : str
        Name of the token's holder.
    scopes : str
        Scopes of the token, separated by commas.

    Returns
    -------
    str
        The token; only its digest is stored.

    Raises
    ------
    InputError
        If the name is taken or malformed, or the file cannot be read or written.
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"name={name!r}: expected up to 64 letters, digits and . _ @ -")
    if path.exists() and any(token.name == name for token in _read(path)):
        raise InputError(f'has a token named "{name}"; delete its line, or choose another name', file=path)
    token = PREFIX + secrets.token_urlsafe(32)
    line = f"{name} {scopes} {sha256(token.encode()).hexdigest()}\n"
    try:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+") as file:
            file.write(line if file.read()[-1:] in {"", "\n"} else f"\n{line}")
    except OSError as exc:
        raise InputError(exc.strerror or "cannot be written", file=path) from exc
    return token


class Tokens:
    """The tokens of a file, which is re-read while the server runs.

    While `read` refuses the file (also because it is missing or empty), no token is accepted. Each change of
    that
    state is logged once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tokens: list[Token] = []
        self._problem: str | None = None
        self._look()

    def known(self, presented: bytes) -> Token | None:
        """Return the `Token` that matches `presented`, or None; the comparison takes constant time."""
        if monotonic() - self._looked > EVERY:
            self._look()
        digest = sha256(presented).digest()
        found = [token for token in self._tokens if hmac.compare_digest(token.digest, digest)]
        return found[0] if found else None

    def _look(self) -> None:
        # always the content: a second change within one tick of the clock leaves time and size as they were
        self._looked = monotonic()
        problem = None
        try:
            self._tokens = read(self._path)
        except InputError as exc:
            self._tokens, problem = [], str(exc)
        if problem != self._problem:
            if problem is None:
                LOG.warning("%s: the tokens can be read again; they give access", self._path)
            else:
                LOG.error("%s; nobody has access until this is mended", problem)
        self._problem = problem


def _tokens(text: str, path: Path) -> Iterator[Token]:
    names: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            token = _token(line.split(), path, number)
            if token.name in names:
                raise InputError(f'"{token.name}" stands twice', file=path, line=number)
            names.add(token.name)
            yield token


def _token(parts: list[str], path: Path, number: int) -> Token:
    if len(parts) != 3:  # noqa: PLR2004 - as the message says
        told = f"has {len(parts)} words; expected NAME SCOPES SHA256"
        raise InputError(told, file=path, line=number)
    name, scopes, digest = parts
    wrong = None
    if not _NAME.fullmatch(name):
        wrong = "NAME: expected up to 64 letters, digits and . _ @ -"
    elif not set(scopes.split(",")) <= {*SCOPES}:
        wrong = f"SCOPES: expected {', '.join(SCOPES)} or {','.join(SCOPES)}"
    elif not _DIGEST.fullmatch(digest.lower()):
        wrong = "SHA256: expected 64 digits from 0 to f, not the token itself"
    if wrong:
        raise InputError(wrong, file=path, line=number)
    return Token(name, frozenset(scopes.split(",")), bytes.fromhex(digest))


#: Paths for process supervisors, which need no token.
OPEN = frozenset({"/healthz", "/readyz"})
#: Methods for which browsers resend stored basic authentication.
_BROWSED = frozenset({"GET", "HEAD", "PUT"})
#: Methods that change nothing: verdicts are requested by POST, with media types that no other site can make a
#: browser send. All other methods need the scope ``label``.
_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS", "POST"})
#: The key of a request's scope that holds its token.
HOLDER = "perfjudge.holder"
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
    """Resolve host and port; InputError if that fails, or if it is not loopback and `tokens` is None."""
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
    """Which token a request needs: one with the scope ``label`` where it changes something."""

    tokens: Tokens | None

    @classmethod
    def of(cls, tokens: str | None) -> Access:
        """Return the access rules of a token file; without a file (None), requests need no token."""
        return cls(None if tokens is None else Tokens(Path(tokens)))

    def allowed(self, method: str, path: str, authorization: bytes) -> Token | None:
        """Return the token of a request, if any is needed."""
        if self.tokens is None or path in OPEN:
            return None
        presented = _presented(authorization, basic=method in _BROWSED)
        token = None if presented is None else self.tokens.known(presented)
        if token is None:
            raise _unknown(given=bool(authorization), browses=method in {"GET", "HEAD"})
        scope = "read" if method in _HARMLESS else "label"
        if scope not in token.scopes:
            headers = {"www-authenticate": f'Bearer {_REALM}, error="insufficient_scope", scope="{scope}"'}
            told = f'this needs a token with the scope "{scope}"'
            raise RefusedError(HTTPStatus.FORBIDDEN, told, headers)
        return token


def holder(scope: Mapping[str, Any]) -> Token | None:
    """Return the token that authenticated a request; None where the server needs no tokens."""
    token: Token | None = scope.get(HOLDER)
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


#: The header in which our pages send back the value of `Csrf.token`.
HEADER = "x-csrf-token"
_PURPOSE = b"perfjudge labels"


class Csrf:
    """Protection against cross-site request forgery.

    A state-changing request needs the header `HEADER` if a browser may have sent it for another site: it uses
    HTTP
    basic authentication, has an ``Origin``, or has no token on a server without tokens and comes from a page.
    Requests
    with a bearer token need no header.
    """

    def __init__(self, secret: str, hosts: Sequence[str] | None = None) -> None:
        self._secret, self._hosts = secret, hosts

    def token(self, scope: Mapping[str, Any]) -> str:
        """Return the CSRF token that a page rendered for this request has to send back."""
        return self._of(holder(scope))

    def check(self, method: str, headers: Mapping[bytes, bytes], token: Token | None) -> None:
        """Refuse a request that another site may have made a browser send."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._hosts is not None and not self._is_ours(host):
            _refuse(f"Host {host[:100]!r} is not what this server is called; --tokens allows any")
        if method in _HARMLESS or headers.get(b"authorization", b"")[:7].lower() == b"bearer ":
            return
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if origin is not None and urlsplit(origin.decode("latin-1").lower()).netloc != host:
            _refuse(f"Origin {origin.decode('latin-1')[:100]!r} is not this server")
        if site not in {None, b"same-origin"}:
            _refuse("a page of another site may not do this")
        if token is None and origin is None and site is None:
            # without a token, a program
            return
        given = headers.get(HEADER.encode(), b"")
        if not hmac.compare_digest(given, self._of(token).encode()):
            _refuse(f"{HEADER} is missing or old: load the page again")

    def _of(self, token: Token | None) -> str:
        """Return the CSRF token: an HMAC keyed with the token's digest, or with the server's secret."""
        key = self._secret.encode() if token is None else token.digest
        return hmac.new(key, _PURPOSE, "sha256").hexdigest()

    def _is_ours(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        if name == "localhost" or name.endswith(".localhost") or name in (self._hosts or ()):
            return True
        try:
            return ip_address(name).is_loopback
        except ValueError:
            return False


def _refuse(told: str) -> NoReturn:
    raise RefusedError(HTTPStatus.FORBIDDEN, told)
