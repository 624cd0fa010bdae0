"""The errors that a person gets to read: bad input, and a model that cannot be used."""

from __future__ import annotations

from pathlib import Path

from data.plain_text import one_line


class InputError(Exception):
    """Input that cannot be used, told in one line.

    Parameters
    ----------
    problem : str
        What is wrong and what was expected, naming field and value, for example
        ``threads_no="four" is not a whole number``.
    file : path or str, optional
        The file that holds it.
    line : int, optional
        The line in that file, counted from one.
    place : str, optional
        The element, row or key, for example ``operation "bt_C_x"``.

    Examples
    --------
    >>> str(InputError('threads_no="four" is not a whole number',
    ...                file="a.xml", line=41, place='operation "bt_C_x"'))
    'a.xml:41 operation "bt_C_x": threads_no="four" is not a whole number'
    """

    def __init__(
        self,
        problem: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        place: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = file
        self.line = line
        self.place = place
        super().__init__(self._line())

    def _line(self) -> str:
        spot = "" if self.file is None else str(self.file)
        if self.line is not None:
            spot += f":{self.line}"
        where = " ".join(part for part in (spot, self.place) if part)
        text = f"{where}: {self.problem}" if where else self.problem
        return one_line(text)

    def within(self, file: Path | str) -> InputError:
        """Return the same error told of `file`, where it names none."""
        if self.file is not None:
            return self
        return type(self)(self.problem, file=file, line=self.line, place=self.place)


class ModelError(ValueError):
    """A model whose answer is no finite number: the model is at fault, whatever the input."""


class MalformedError(InputError):
    """Input that breaks the syntax of its own format: no XML, no JSON, empty, binary."""


class RepeatedError(InputError):
    """Input that stands a second time, where every time may be right and nobody can tell which is meant."""
