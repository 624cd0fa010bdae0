"""What a server tells those who judge in its shadow."""

from __future__ import annotations

import msgspec

#: The bytes that say how long a message is.
HEAD = 8


class AnsweredBody(msgspec.Struct, array_like=True):
    """A request that was answered: its door and body, the answer, and the version that gave it."""

    path: str
    media_type: str
    body: bytes
    content: bytes
    name: str
    version: str

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.body) + len(self.content)


class AnsweredMany(msgspec.Struct, array_like=True):
    """Requests that were answered, and how many more were not taken down, as there were too many."""

    asked: list[AnsweredBody]
    dropped: int = 0


def written(message: AnsweredMany) -> bytes:
    """Return a message as bytes, its length before it."""
    content = msgspec.msgpack.encode(message)
    return len(content).to_bytes(HEAD, "big") + content


def read(content: bytes) -> AnsweredMany:
    """Return the message that bytes hold, without its length."""
    return msgspec.msgpack.decode(content, type=AnsweredMany)
