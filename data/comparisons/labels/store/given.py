"""Labels as people give them, and as the store keeps them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Literal, Self

from data.errors import InputError

#: When what bears no time was said.
LONG_AGO = datetime.fromtimestamp(0, UTC)
Status = Literal["pass", "fail", "cannot_tell"]


class AwayError(InputError):
    """The store cannot be reached now; what was to be added may be sent again with the same key."""


class NewerError(AwayError):
    """A newer perfjudge has written the store."""


class KeyTakenError(InputError):
    """A key under which another label is kept."""


class TooManyError(InputError):
    """More labels of one person than may come in a while."""


@dataclass(frozen=True)
class GivenLabel:
    """What a person says of a comparison.

    Attributes
    ----------
    comparison_id : str
    status : {"pass", "fail", "cannot_tell"} or None
        None withdraws what the person said before.
    labelled_by : str
    key : str
        Chosen by who sends it: a label that comes again with the same key is the same label.
    saw_verdict : bool or None
        Whether the person knew the model's verdict; None: nobody knows.
    model : str
        Whose verdict that was; empty if none.
    labelled_at : datetime or None
        When, of labels that were given elsewhere; None: when they are kept.
    """

    comparison_id: str
    status: Status | None
    labelled_by: str
    key: str
    saw_verdict: bool | None = None
    model: str = ""
    labelled_at: datetime | None = None

    @property
    def content(self) -> tuple[object, ...]:
        """What is said of what, by whom and when."""
        return self.comparison_id, self.status, self.labelled_by, self.labelled_at

    def at(self, now: datetime) -> Self:
        """Return the label with its time."""
        return replace(self, labelled_at=self.labelled_at or now)


@dataclass(frozen=True)
class KeptLabel:
    """A label in the store; attributes as of `GivenLabel`.

    Attributes
    ----------
    number : int
        Ascends in the order in which labels came.
    labelled_at : datetime
        In UTC.
    """

    number: int
    comparison_id: str
    status: Status | None
    labelled_by: str
    key: str
    saw_verdict: bool | None
    model: str
    labelled_at: datetime

    @property
    def age(self) -> tuple[datetime, int]:
        """What sorts labels, the oldest first."""
        return self.labelled_at, self.number

    def says(self, given: GivenLabel) -> bool:
        """Whether it is this label; which model's verdict was shown may have changed meanwhile."""
        told = (one.name for one in fields(given) if one.name not in {"labelled_at", "model"})
        same = all(getattr(self, name) == getattr(given, name) for name in told)
        return same and given.labelled_at in {None, self.labelled_at}


@dataclass(frozen=True)
class Added:
    """A label that is kept.

    Attributes
    ----------
    label : KeptLabel
    history : list of KeptLabel
        All labels of its comparison, the oldest first.
    fresh : bool
        Whether it came for the first time.
    """

    label: KeptLabel
    history: list[KeptLabel]
    fresh: bool
