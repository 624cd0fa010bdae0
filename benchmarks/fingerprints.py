"""The public data that benchmarks of fingerprints share."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from data.errors import InputError
from data.fingerprints.params import Fingerprints
from data.fingerprints.stages import ingest, validate
from data.params import Ingest
from features.fingerprints.matrix import FingerprintTable, featurize

JOBS = 2
SETS = ("quiho", "sparecores")
#: Which of them the caller wants.
WANTED = list(SETS)


def limit(names: Sequence[str]) -> None:
    """Use those of the public data sets only."""
    WANTED[:] = names


def shared() -> Path:
    """Return the directory of the public data sets."""
    return Path(os.environ.get("PERFJUDGE_SHARED", "../shared/data"))


@cache
def table(name: str) -> FingerprintTable:
    """Read a public data set as the pipeline does, with the defaults of params.yaml.

    Parameters
    ----------
    name : {"quiho", "sparecores"}

    Raises
    ------
    InputError
        If the set is not there.
    """
    section = Fingerprints(ingest=Ingest(format=name, path=shared() / name))
    tables = ingest(section).tables
    return featurize(validate(tables, section).kept(tables), section.featurize.threads)


def present(*names: str) -> tuple[str, ...]:
    """Return those of the public data sets that are there; tell about the others on stderr."""
    wanted = [name for name in names if name in WANTED]
    there = tuple(name for name in wanted if (shared() / name).is_dir())
    for name in wanted:
        if name not in there:
            sys.stderr.write(f"skipped {name}: {shared() / name} is not there\n")
    if not there:
        raise InputError(f"needs {' or '.join(names)}", file=shared())
    return there
