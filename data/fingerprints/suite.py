"""What to measure: the typed form of a SUITE.yaml for the fingerprint of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from data.errors import InputError
from data.fingerprints.tables import ALL_THREADS
from data.measure.suite import Count, Suite, typed, unique
from data.tables.documents import Section
from data.tables.files import yaml_content

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


#: How ``threads`` of a suite stands in the tables.
THREADS = {"one": 1, "all": ALL_THREADS}


class FingerprintSuite(Suite):
    """A measurement of a fingerprint.

    Each of the ``stressors`` runs for ``seconds``, on ``threads`` ("one", "all"), ``repetitions`` times. The
    ``seed`` makes the order, another one in each repetition.

    With ``constraints``, each of them makes another machine of this one, on whose ``processor`` the stressors
    run on one thread, and beside them the ``programs``.
    """

    SAME: ClassVar[Mapping[str, str]] = {"stress-ng": "stress-ng"}

    kind: Literal["fingerprint"]
    seconds: Annotated[int, Field(ge=1)]
    repetitions: Count
    threads: Annotated[tuple[Literal["one", "all"], ...], Field(min_length=1)]
    stressors: Annotated[tuple[str, ...], Field(min_length=1)]
    processor: Annotated[int, Field(ge=0)] | None = None
    constraints: tuple[Constraint, ...] = ()
    programs: tuple[TimedProgram, ...] = ()


def load(path: Path) -> FingerprintSuite:
    """Read and validate a suite; InputError naming file, key and value."""
    suite = typed(FingerprintSuite, yaml_content(path), path)
    unique(suite.stressors, "stressor", path)
    unique(suite.threads, "threads", path)
    unique([one.name for one in suite.constraints], "constraint", path)
    unique([one.name for one in suite.programs], "program", path)
    if suite.programs and not suite.constraints:
        raise InputError("programs need constraints to run under", file=path)
    if suite.constraints and suite.threads != ("one",):
        raise InputError(f"threads={list(suite.threads)}: expected [one] under constraints", file=path)
    return suite
