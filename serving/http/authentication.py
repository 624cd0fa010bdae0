"""Authentication by tokens, and protection against requests forged by pages of other sites."""

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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn
from urllib.parse import urlsplit

from data.errors import InputError
from data.tables.files import naming_unreadable
from serving.http.schemas import RefusedError

LOG = logging.getLogger("perfjudge")
#: Prefix of tokens, by which secret scanners recognise them.
PREFIX = "pj_"
#: Scopes of tokens: to request verdicts, or to label.
SCOPES = ("read", "label")
#: Seconds between readings of the token file.
EVERY = 0.5
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Token:
    """One line of the token file: name, scopes and SHA-256 digest, never the token itself."""

    name: str
    scopes: frozenset[str]
    digest: bytes = field(repr=False)


def read_tokens(path: Path) -> list[Token]:
    """Return the tokens of a token file, in the order of its lines; blank lines and comments are ignored.

    InputError if the file is missing, invalid or without tokens, or users other than its owner may write it.
    """
    tokens = _read_token_file(path)
    if not tokens:
        raise InputError("holds no token; expected lines NAME SCOPES SHA256", file=path)
    return tokens


def _read_token_file(path: Path) -> list[Token]:
    with naming_unreadable(path):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise InputError("is not a regular file", file=path)
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise InputError("others than its owner may write it; expected chmod go-w", file=path)
        lines = path.read_text("utf-8", "replace").splitlines()
    tokens: dict[str, Token] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            token = _parse_token(line.split())
        except ValueError as exc:
            raise InputError(str(exc), file=path, line=number) from exc
        if tokens.setdefault(token.name, token) is not token:
            raise InputError(f'"{token.name}" occurs twice', file=path, line=number)
    return [*tokens.values()]


def add_token(path: Path, name: str, scopes: str) -> str:
    """Create a random token, append its digest to a token file, and return the token, which is not stored.

    A missing file is created, for its owner only. `name` is that of the token's holder; `scopes` are
    separated by commas, such as ``read,label``, and not checked here. InputError if the name is taken or
    malformed, or the file is invalid or cannot be read or written.
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"name={name!r}: expected up to 64 letters, digits and . _ @ -")
    if path.exists() and any(token.name == name for token in _read_token_file(path)):
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
    that state is logged once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tokens: list[Token] = []
        self._problem: str | None = None
        self._reload()

    def find_token(self, presented: bytes) -> Token | None:
        """Return the `Token` that matches `presented`, None if none does; comparing takes constant time."""
        if monotonic() - self._read_at > EVERY:
            self._reload()
        digest = sha256(presented).digest()
        matches = [token for token in self._tokens if hmac.compare_digest(token.digest, digest)]
        return matches[0] if matches else None

    def _reload(self) -> None:
        # time and size of the file do not show a second change within one tick of the clock
        self._read_at = monotonic()
        try:
            self._tokens, problem = read_tokens(self._path), None
        except InputError as exc:
            self._tokens, problem = [], str(exc)
        if problem is None and self._problem is not None:
            LOG.warning("%s: the tokens can be read again; they give access", self._path)
        elif problem != self._problem:
            LOG.error("%s; nobody has access until this is mended", problem)
        self._problem = problem


def _parse_token(parts: list[str]) -> Token:
    if len(parts) != 3:  # noqa: PLR2004 - as the message says
        raise ValueError(f"has {len(parts)} words; expected NAME SCOPES SHA256")
    name, scopes, digest = parts
    if not _NAME.fullmatch(name):
        raise ValueError("NAME: expected up to 64 letters, digits and . _ @ -")
    if not set(scopes.split(",")) <= {*SCOPES}:
        raise ValueError(f"SCOPES: expected {', '.join(SCOPES)} or {','.join(SCOPES)}")
    if not _DIGEST.fullmatch(digest.lower()):
        raise ValueError("SHA256: expected 64 digits from 0 to f, not the token itself")
    return Token(name, frozenset(scopes.split(",")), bytes.fromhex(digest))


#: Paths for process supervisors, which need no token.
OPEN = frozenset({"/healthz", "/readyz"})
#: Methods for which browsers resend stored basic authentication.
_BROWSED = frozenset({"GET", "HEAD", "PUT"})
#: Methods that change nothing: verdicts are requested by POST, with media types that no other site can make a
#: browser send. All other methods need the scope ``label``.
_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS", "POST"})
#: The key of a request's token in its ASGI scope.
HOLDER = "perfjudge.holder"
_REALM = 'realm="perfjudge"'


def resolve_address(host: str, port: int, tokens: str | None) -> tuple[socket.AddressFamily, Any]:
    """Return the address family of `host`, and its first address with `port`.

    InputError if the host cannot be resolved, or if the address is not loopback and the path `tokens` of the
    token file is None.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as exc:
        reason = getattr(exc, "strerror", None) or "no such host"
        raise InputError(f"cannot listen ({reason})", place=f"{host}:{port}") from exc
    if tokens is None and not ip_address(address[0]).is_loopback:
        problem = (
            "other machines reach this address: expected --tokens FILE; "
            '"perfjudge token NAME --tokens FILE" makes a token and the file'
        )
        raise InputError(problem, place=f"{host}:{port}")
    return family, address


def require_token(tokens: Tokens | None, method: str, path: str, authorization: bytes) -> Token | None:
    """Return the token of a request; None if the server has no `tokens`, or `path` needs none.

    `authorization` is a bearer token, or for GET, HEAD and PUT also basic authentication with the token as
    password. RefusedError with 401 without a valid token, with 403 if its scopes do not include ``read``
    (GET, HEAD, OPTIONS, POST) or ``label`` (others).
    """
    if tokens is None or path in OPEN:
        return None
    browsed = method in _BROWSED
    presented = _presented_token(authorization, basic=browsed)
    token = None if presented is None else tokens.find_token(presented)
    if token is None:
        problem, challenge = "this needs a token: Authorization: Bearer TOKEN", f"Bearer {_REALM}"
        if presented is not None:
            problem, challenge = "the token is not known", f'{challenge}, error="invalid_token"'
        elif authorization:
            also = ", or Basic with the token as password" if browsed else ""
            problem = f"{method} does not take this Authorization; expected Bearer TOKEN{also}"
        if method in {"GET", "HEAD"}:
            # browsers then prompt for a name and a password, the token; Chromium uses only the first scheme
            challenge = f'Basic {_REALM}, charset="UTF-8", {challenge}'
        raise RefusedError(HTTPStatus.UNAUTHORIZED, problem, {"www-authenticate": challenge})
    scope = "read" if method in _HARMLESS else "label"
    if scope not in token.scopes:
        headers = {"www-authenticate": f'Bearer {_REALM}, error="insufficient_scope", scope="{scope}"'}
        raise RefusedError(HTTPStatus.FORBIDDEN, f'this needs a token with the scope "{scope}"', headers)
    return token


def _presented_token(authorization: bytes, *, basic: bool) -> bytes | None:
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic" and basic:
        with suppress(binascii.Error):
            return b64decode(value.strip(), validate=True).partition(b":")[2]
    return None


def request_token(scope: Mapping[str, Any]) -> Token | None:
    """Return the token that authenticated the request of an ASGI scope; None if the request needed none."""
    return scope.get(HOLDER)


#: The header in which our pages send back the value of `Csrf.token`.
HEADER = "x-csrf-token"
_PURPOSE = b"perfjudge labels"


class Csrf:
    """Protection against cross-site request forgery.

    A state-changing request needs the header `HEADER` if a browser may have sent it for another site: it uses
    HTTP basic authentication, has an ``Origin``, or has no token on a server without tokens and comes from a
    page. Requests with a bearer token need no header.
    """

    def __init__(self, secret: str, hosts: Sequence[str] | None = None) -> None:
        self._secret, self._hosts = secret, hosts

    def page_token(self, scope: Mapping[str, Any]) -> str:
        """Return the CSRF token that a page rendered for this request has to send back."""
        return self._token_for(request_token(scope))

    def check_request(self, method: str, headers: Mapping[bytes, bytes], token: Token | None) -> None:
        """Raise a RefusedError with 403 for a request that a browser may have sent for another site.

        `headers` have lower-case names; `token` is the request's token, if any. Also refused is a ``Host``
        that is neither one of `hosts` nor a name of this machine (with `hosts` None: accepted).
        """
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._hosts is not None and not self._is_ours(host):
            _refuse_forged(f"Host {host[:100]!r} is not what this server is called; --tokens allows any")
        if method in _HARMLESS or headers.get(b"authorization", b"")[:7].lower() == b"bearer ":
            return
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if origin is not None and urlsplit(origin.decode("latin-1").lower()).netloc != host:
            _refuse_forged(f"Origin {origin.decode('latin-1')[:100]!r} is not this server")
        if site not in {None, b"same-origin"}:
            _refuse_forged("a page of another site may not do this")
        if token is None and origin is None and site is None:
            # a program, not a browser
            return
        if not hmac.compare_digest(headers.get(HEADER.encode(), b""), self._token_for(token).encode()):
            _refuse_forged(f"{HEADER} is missing or old: load the page again")

    def _token_for(self, token: Token | None) -> str:
        key = self._secret.encode() if token is None else token.digest
        return hmac.new(key, _PURPOSE, "sha256").hexdigest()

    def _is_ours(self, host: str) -> bool:
        with suppress(ValueError):
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
            is_named = name in {"localhost", *(self._hosts or ())} or name.endswith(".localhost")
            return is_named or ip_address(name).is_loopback
        return False


def _refuse_forged(problem: str) -> NoReturn:
    raise RefusedError(HTTPStatus.FORBIDDEN, problem)
