"""Requests that a page of another site makes a browser send: they change nothing here, and learn nothing."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, NoReturn
from urllib.parse import urlsplit

from serving.doors.access import holder
from serving.doors.problems import RefusedError
from serving.doors.tokens import Token

#: The header in which our pages send what `Csrf.token` gave them.
HEADER = "x-csrf-token"
#: What changes nothing; questions are posted, and only with what no other site can make a browser send.
_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS", "POST"})
_PURPOSE = b"perfjudge labels"


class Csrf:
    """Tells requests of our own pages from those that other sites make a browser send.

    What changes something needs the header `HEADER` if a browser may have sent it unasked: it bears name and
    password, an origin, or no token where none is needed and says that it comes from a page. Programs with a
    bearer token need none.

    Parameters
    ----------
    secret : str
        What the header is made with where nobody needs a token; processes of one server share it.
    hosts : sequence of str or None
        What requests may call the server, beside names of this machine's own address; None: anything. Another
        site whose name has come to stand for this address is refused by it.
    """

    def __init__(self, secret: str, hosts: Sequence[str] | None = None) -> None:
        self._secret, self._hosts = secret, hosts

    def token(self, scope: Mapping[str, Any]) -> str:
        """Return what a page that this request asks for has to send, to whoever asks for it."""
        return self._of(holder(scope))

    def check(self, method: str, headers: Mapping[bytes, bytes], token: Token | None) -> None:
        """Refuse a request that another site may have made a browser send.

        Raises
        ------
        RefusedError
            403.
        """
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
