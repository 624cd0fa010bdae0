"""How an impact settles, as a person or a program sees it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

from serving.corun.online.watch import Watching
from serving.corun.schemas import OnlineAnswer
from serving.corun.text import settling_text


def shown(watching: Watching, *, as_json: bool) -> OnlineAnswer:
    """Watch a task to its end; return the last answer.

    Each goes to standard output as a line of JSON if that is asked for, else to a line of the terminal that
    the next one replaces; nothing in a pipe.

    Raises
    ------
    InputError
        As of `Watching.answers`.
    """
    console = Console(stderr=True)
    last: OnlineAnswer | None = None
    with _line(console) as line:
        for last in watching.answers(lambda note: console.print(note, markup=False, soft_wrap=True)):
            if as_json:
                sys.stdout.write(f"{last.model_dump_json()}\n")
                sys.stdout.flush()
            elif line is not None:
                line.update(settling_text(last))
    assert last is not None
    return last


@contextmanager
def _line(console: Console) -> Iterator[Status | None]:
    """Give a line of the terminal, if there is one."""
    if not console.is_terminal:
        yield None
        return
    with console.status("watching") as line:
        yield line
