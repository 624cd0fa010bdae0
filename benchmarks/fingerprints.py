"""The public data that benchmarks of fingerprints share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from data.errors import InputError
from data.fingerprints.params import Fingerprints
from data.fingerprints.validity import ingest, validate
from data.params import Ingest
from features.fingerprints.matrix import FingerprintTable, featurize

JOBS = 2
SETS = ("quiho", "sparecores")
#: Where they lie.
SHARED = Path(os.environ.get("PERFJUDGE_SHARED", "../shared/data"))


#: Applications of sparecores, and median errors of a plain forest in the README of the public data.
REFERENCE = {
    "passmark:CPU_SORTING": 0.056,
    "gb:Single-Core_Clang": 0.050,
    "comp:zstd_7_t1_": 0.103,
    "comp:brotli_4_t1_": 0.136,
    "redis:SET_p16": 0.088,
    "llm:SmolLM-135M.Q4_K_M.gguf_0_128": 0.241,
}


@cache
def table(name: str, shared: Path = SHARED) -> FingerprintTable:
    """Read a public data set as the pipeline does, with the defaults of params.yaml.

    Parameters
    ----------
    name : {"quiho", "sparecores"}
    shared : Path
        The folder of public data.

    Raises
    ------
    InputError
        If the set is not there.
    """
    section = Fingerprints(ingest=Ingest(format=name, path=shared / name))
    tables = ingest(section).tables
    return featurize(validate(tables, section).kept(tables), section.featurize.threads)


def present(asked: Sequence[str], *names: str) -> Iterator[str]:
    """Yield those of the public data sets that are asked for and there; tell about the others on stderr."""
    wanted = [name for name in names if name in asked]
    if not any((SHARED / name).is_dir() for name in wanted):
        raise InputError(f"needs {' or '.join(names)}", file=SHARED)
    for name in wanted:
        if (SHARED / name).is_dir():
            yield name
        else:
            sys.stderr.write(f"skipped {name}: {SHARED / name} is not there\n")
