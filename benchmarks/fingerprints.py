"""What benchmarks of fingerprints share: public data, pages, and how busy the machine was."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from benchmarks.table import Table, machine
from data.errors import InputError
from data.files import write_text
from data.fingerprints import ingest, validate
from data.params import Fingerprints
from features.fingerprints import FingerprintTable, featurize

SEED = 20261121
JOBS = 2


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
    section = Fingerprints(format=name, path=shared() / name)
    tables = ingest(section).tables
    return featurize(validate(tables, section).kept(tables), section.threads)


def present(*names: str) -> tuple[str, ...]:
    """Return those of the public data sets that are there; tell about the others on stderr."""
    there = tuple(name for name in names if (shared() / name).is_dir())
    for name in names:
        if name not in there:
            sys.stderr.write(f"skipped {name}: {shared() / name} is not there\n")
    if not there:
        raise InputError("no public data set is there", file=shared())
    return there


def busy(before: float) -> str:
    """Tell this machine, and how many processes wanted its cores before and after."""
    return f"{machine()}. Load of the machine (1 minute): {before:.1f} before, {load():.1f} after."


def load() -> float:
    """Return how many processes wanted a core in the last minute."""
    return os.getloadavg()[0]


def publish(name: str, tables: Iterable[Table]) -> None:
    """Print each table when it is there, and write all to one page, docs/results/`name`.md."""
    page = []
    for each in tables:
        each.show()
        page.append(each.markdown())
    write_text(Path("docs/results") / f"{name}.md", "\n".join(page))
