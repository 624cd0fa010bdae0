import os
import subprocess
import sys

import pytest

from data.stage import PINNED, X86_64_V3, pin_arithmetic, processor_flags
from tests import short_pipeline
from tests.imports import ROOT
from tests.system.matrices import inputs

#: How libraries compute on processors of other kinds.
PROCESSORS = {
    "as here": {},
    "without AVX": {
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    },
    "with AVX2": {
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "OPENBLAS_NUM_THREADS": "2",
    },
}
#: Logarithms, a product, eigenvectors, and the order of equal keys.
COMPUTED = """
from hashlib import sha256
import numpy as np
from scipy.linalg import eigh
x = np.random.default_rng(0).normal(size=(400, 200))
results = np.log1p(np.abs(x)), x @ x.T, eigh(x.T @ x)[1], np.argsort(np.round(x.ravel(), 1))
print(*(sha256(result.tobytes()).hexdigest() for result in results))
"""
PINS = "from data.stage import pin_arithmetic; pin_arithmetic()"

pytestmark = pytest.mark.skipif(
    not processor_flags() >= X86_64_V3, reason="this processor lacks instructions of x86-64-v3"
)


def environment(processor):
    """Return the variables of a process that computes as another processor does."""
    own = {name: value for name, value in os.environ.items() if name not in PINNED}
    return {**own, "PYTHONPATH": str(ROOT), **PROCESSORS[processor]}


def digests(processor, *statements):
    """Return the digest of each result of `COMPUTED` after other statements."""
    run = [sys.executable, "-W", "ignore", "-c", "\n".join([*statements, COMPUTED])]
    done = subprocess.run(run, env=environment(processor), capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_only_pinned_processes_compute_the_same_bits_on_every_processor():
    pinned = [digests(processor, PINS) for processor in PROCESSORS]
    assert pinned[0] == pinned[1] == pinned[2]
    # NumPy computes logarithms by the same loop with AVX2 and without it, and by another one with AVX-512
    newer, older = digests("with AVX2")[1:], digests("without AVX")[1:]
    assert all(ours != theirs for ours, theirs in zip(newer, older, strict=True))


def test_pinning_is_refused_after_numpy_was_imported():
    with pytest.raises(RuntimeError, match="NumPy was imported"):
        pin_arithmetic()


@pytest.mark.slow
def test_evaluation_depends_on_neither_processor_nor_number_of_processes(tmp_path):
    written = []
    for processor, jobs in (("as here", 2), ("without AVX", 1)):
        project = inputs.project(tmp_path / processor.replace(" ", "-"), jobs, cases=2)
        stages = {"matrices": ("data.ingest", "data.validate", "training.evaluate")}
        short_pipeline.run_stages(project, stages, environment=environment(processor))
        reports = project / "reports/matrices"
        files = [path for path in reports.rglob("*") if path.is_file() and path.name != "times.parquet"]
        written.append({str(path.relative_to(reports)): path.read_bytes() for path in files})
    assert {"metrics.json", "summary.json", "evaluated/oof.parquet"} < set(written[0])
    assert [name for name in written[0] if written[0][name] != written[1][name]] == []
