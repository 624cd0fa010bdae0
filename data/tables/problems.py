"""What is wrong with input: raised at once, or kept and told at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from data.errors import InputError

#: How alike two names must be, from 0 to 1, for one to be meant by the other.
ALIKE = 0.6


def nearest(name: str, known: Iterable[str], alike: float = ALIKE) -> str | None:
    """Return the name among `known` that is most like `name`, regardless of case; None if none is.

    `alike` is the least similarity: twice the letters in common, over the letters of both.
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


#: What was skipped or left out that is told one by one.
SHOWN = 5


@dataclass
class Problems:
    """Bad input met while reading: raised at once, or kept in ``skipped`` when ``keep_going``.

    ``notes`` are assumptions of a reader, one line each, which are shown beside the answer.
    """

    keep_going: bool = False
    skipped: list[InputError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, error: InputError) -> None:
        """Raise `error`, or keep it."""
        if not self.keep_going:
            raise error
        self.skipped.append(error)

    def note(self, text: str) -> None:
        """Keep a line that the answer has to say, once."""
        if text not in self.notes:
            self.notes.append(text)

    def assume_higher(self, file: object, otherwise: str = "--better says otherwise") -> str:
        """Note, once per file, that nothing says which values are better, and return what is assumed."""
        self.note(f"{file} does not say which values are better; higher is assumed ({otherwise})")
        return "higher"


def told(skipped: tuple[InputError, ...]) -> str:
    """Say in a few lines how many were skipped, and why the first ones were."""
    if not skipped:
        return ""
    lines = [f"{len(skipped)} skipped", *(f"  {error}" for error in skipped[:SHOWN])]
    if len(skipped) > SHOWN:
        lines.append(f"  ... and {len(skipped) - SHOWN} more")
    return "\n".join(lines) + "\n"
