"""Benchmarks that run other programs say which of them are missing."""

import os
import subprocess
import sys

import pytest

from tests.imports import ROOT


@pytest.mark.parametrize(
    ("module", "program"),
    [("serving", "wrk"), ("kills", "git"), ("pipeline", "git"), ("retraining", "git")],
)
def test_a_benchmark_names_the_package_of_a_missing_program(tmp_path, module, program):
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}"],
        cwd=ROOT,
        env=os.environ
        | {"PATH": str(tmp_path), "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"not installed: {program}; on Debian: apt-get install {program}\n"
