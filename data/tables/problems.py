"""Errors in input: raised at once, or collected and reported at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from data.errors import InputError

#: Minimum similarity, from 0 to 1, of a name and the suggested one.
ALIKE = 0.6


def nearest_name(name: str, known_names: Iterable[str], alike: float = ALIKE) -> str | None:
    """Return the most similar of `known_names`, ignoring case; None if difflib's ratio is below `alike`."""
    by_lower_case = {candidate.casefold(): candidate for candidate in known_names}
    matches = get_close_matches(name.casefold(), by_lower_case, 1, alike)
    return by_lower_case[matches[0]] if matches else None


def unknown_message(name: str, known_names: Iterable[str]) -> str:
    """Return the message that a name is unknown, with the most similar known name or else all of them.

    Examples
    --------
    >>> unknown_message("histroy", ["threads", "history"])
    'is unknown; did you mean "history"?'
    >>> unknown_message("colour", ["threads", "history"])
    'is unknown; there are threads, history'
    """
    names = list(known_names)
    similar = nearest_name(name, names)
    return "is unknown; " + (f'did you mean "{similar}"?' if similar else f"there are {', '.join(names)}")


def shorten_names(names: Sequence[str], max_names: int = 4) -> str:
    """Return the first `max_names` names, joined by commas, and the number of others: ``a, b and 3 more``."""
    more = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return f"{', '.join(names[:max_names])}{more}"


#: Maximum number of skipped parts that are listed one by one.
SHOWN = 5


@dataclass
class Problems:
    """Errors in input: raised at once, or collected in ``skipped`` with ``keep_going``.

    ``notes`` are assumptions of a reader, one line each, which are shown with the answer.
    """

    keep_going: bool = False
    skipped: list[InputError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, error: InputError) -> None:
        """Raise `error`, or collect it if ``keep_going``."""
        if not self.keep_going:
            raise error
        self.skipped.append(error)

    @contextmanager
    def collecting(self, file: Path | None = None) -> Iterator[None]:
        """Add an InputError of the block, which ends there; `file` is named if the error names none."""
        try:
            yield
        except InputError as error:
            self.add(error if file is None else error.with_file(file))

    def add_note(self, text: str) -> None:
        """Add a note unless it was added before."""
        if text not in self.notes:
            self.notes.append(text)

    def assume_higher(self, file: object, otherwise: str = "--better says otherwise") -> str:
        """Return "higher", and note once per file that higher values are assumed to be better."""
        self.add_note(f"{file} does not say which values are better; higher is assumed ({otherwise})")
        return "higher"


def skipped_summary(skipped: tuple[InputError, ...]) -> str:
    """Return lines with the number of skipped parts and the first five errors; empty without errors."""
    if not skipped:
        return ""
    lines = [f"{len(skipped)} skipped", *(f"  {error}" for error in skipped[:SHOWN])]
    if len(skipped) > SHOWN:
        lines.append(f"  ... and {len(skipped) - SHOWN} more")
    return "\n".join(lines) + "\n"
