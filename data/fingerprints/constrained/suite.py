"""What to measure under constraints: the typed form of that part of a SUITE.yaml."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from data.tables.given import Section

Positive = Annotated[float, Field(gt=0)]


class Constraint(Section):
    """What is taken away from this machine to make another of it, which bears ``name`` and is of ``kind``.

    ``processors`` is a quota of processor time; ``neighbour`` a stressor that runs on the processor beside;
    ``huge_pages`` what the kernel does about them; ``writes`` MB/s to the disk; ``traced`` how many times
    each system call is traced.
    """

    name: str
    kind: str
    processors: Positive | None = None
    neighbour: str | None = None
    huge_pages: Literal["always", "never"] | None = None
    writes: Positive | None = None
    traced: Annotated[int, Field(ge=0, le=16)] = 0


class TimedProgram(Section):
    """An application: a command that prints the seconds its work took as the first word of its last line.

    In the ``command``, ``{run}`` runs a program of ``data/suites/programs``, ``{site}`` does so with
    libraries, and ``{scratch}`` is a directory on the disk.
    """

    name: str
    command: str
