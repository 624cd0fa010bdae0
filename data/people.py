"""Names of people, such as annotators and those who promote models."""

from __future__ import annotations

import re

from data.errors import InputError, shorten

#: Characters that are invisible or change how others are shown: controls, directional marks, odd spaces.
_INVISIBLE = (
    r"\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    r"\ue000-\uf8ff\ufe00-\ufe0f\ufeff\ufff0-\uffff"
)
#: Regular expression of a person's name.
PERSON = rf"^[^ {_INVISIBLE}]([^{_INVISIBLE}]{{0,62}}[^ {_INVISIBLE}])?$"
_QUOTED = 70


def require_person(name: str, field: str, place: str | None = None) -> None:
    """Raise an InputError, with `field` and `place`, unless `name` has 1 to 64 visible characters."""
    if not re.fullmatch(PERSON, name):
        problem = f"{field}={shorten(name, _QUOTED)!r} is not a name of 1 to 64 visible characters"
        raise InputError(problem, place=place)
