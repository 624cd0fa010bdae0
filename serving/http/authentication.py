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
#: What a token may be allowed: to ask, or to label.
SCOPES = ("read", "label")
#: Seconds after which the file is read again: a change counts within a second.
EVERY = 0.5
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Token:
    """What is known of a token, which is not the token itself."""

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
    """Make a token, and add its line to a file, which is made if it is not there.

    Parameters
    ----------
    name : str
        Who gets it.
    scopes : str
        What it allows, with commas between.

    Returns
    -------
    str
        The token, which is written nowhere.

    Raises
    ------
    InputError
        If the name is taken or impossible, or the file cannot be read or written.
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
    """The tokens of a file, which is read again while a server answers.

    A file that `read` refuses, also because it is missing or empty, gives nobody access until it is mended.
    The log says so once per change.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tokens: list[Token] = []
        self._problem: str | None = None
        self._look()

    def known(self, presented: bytes) -> Token | None:
        """Return the token that somebody presents; it takes the same time whether and where it stands."""
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


#: What those may ask who watch over processes.
OPEN = frozenset({"/healthz", "/readyz"})
#: What a browser does with name and password that a person has once given it.
_BROWSED = frozenset({"GET", "HEAD", "PUT"})
#: What changes nothing: questions are posted, and only with what no other site can make a browser send. All
#: else needs the scope ``label``.
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
    """Return the address that a name stands for."""
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
        """Read the file of tokens, if there is one; a bad one gives nobody access."""
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
    """Return the token of a request; None where nobody needs one."""
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


#: The header in which our pages send what `Csrf.token` gave them.
HEADER = "x-csrf-token"
_PURPOSE = b"perfjudge labels"


class Csrf:
    """Tells requests of our own pages from those that other sites make a browser send.

    What changes something needs the header `HEADER` if a browser may have sent it unasked: it bears name and
    password, an origin, or no token where none is needed and says that it comes from a page. Programs with a
    bearer token need none.
    """

    def __init__(self, secret: str, hosts: Sequence[str] | None = None) -> None:
        self._secret, self._hosts = secret, hosts

    def token(self, scope: Mapping[str, Any]) -> str:
        """Return what a page that this request asks for has to send, to whoever asks for it."""
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
        """Return the header of a person: nobody who has not got the page can tell it."""
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
