"""The known name that somebody may have meant who wrote another one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

#: How alike two names must be, from 0 to 1, for one to be meant by the other.
ALIKE = 0.6


def nearest(name: str, known: Iterable[str], alike: float = ALIKE) -> str | None:
    """Return the name among `known` that is most like `name`, however its letters are cased; None if none is.

    Parameters
    ----------
    name : str
    known : iterable of str
    alike : float
        How alike they must be: twice the letters in common, over the letters of both.
    """
    spelt = {one.casefold(): one for one in known}
    found = get_close_matches(name.casefold(), spelt, 1, alike)
    return spelt[found[0]] if found else None


def unknown(name: str, known: Iterable[str]) -> str:
    """Say that `name` is none of `known`: with the one that was perhaps meant, else with all.

    Examples
    --------
    >>> unknown("histroy", ["threads", "history"])
    'is unknown; did you mean "history"?'
    >>> unknown("colour", ["threads", "history"])
    'is unknown; there are threads, history'
    """
    there = list(known)
    meant = nearest(name, there)
    return "is unknown; " + (f'did you mean "{meant}"?' if meant else f"there are {', '.join(there)}")
