"""Bearer tokens: a file has a line for each, with who has it, what it allows, and its SHA-256."""

from __future__ import annotations

import hmac
import logging
import os
import re
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import get_args

from data.errors import InputError
from serving.supply import Scope

LOG = logging.getLogger("perfjudge")
#: How programs that look for lost secrets recognise one.
PREFIX = "pj_"
SCOPES: tuple[Scope, ...] = get_args(Scope)
#: Seconds after which the file is read again: a change counts within a second.
EVERY = 0.5
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Token:
    """What is known of a token, which is not the token itself.

    Attributes
    ----------
    name : str
        Who has it.
    scopes : frozenset of str
    digest : bytes
        SHA-256.
    """

    name: str
    scopes: frozenset[str]
    digest: bytes = field(repr=False)


def read(path: Path) -> list[Token]:
    """Read a file of tokens.

    Raises
    ------
    InputError
        If it is missing or no regular file, if others than its owner may write it, if it holds no token, or
        if a line is not ``NAME SCOPES SHA256``. No error quotes what could be a token.
    """
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
    path : Path
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
    for told, right in (
        ("NAME: expected up to 64 letters, digits and . _ @ -", _NAME.fullmatch(name)),
        (f"SCOPES: expected {', '.join(SCOPES)} or {','.join(SCOPES)}", set(scopes.split(",")) <= {*SCOPES}),
        ("SHA256: expected 64 digits from 0 to f, not the token itself", _DIGEST.fullmatch(digest.lower())),
    ):
        if not right:
            raise InputError(told, file=path, line=number)
    return Token(name, frozenset(scopes.split(",")), bytes.fromhex(digest))
