import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: A stage of its own with a process beside it, which imports what the first one did not.
STAGE = """
import subprocess, sys
from data.stage import keep_bytecode
keep_bytecode()
import colorsys
subprocess.run([sys.executable, "-c", "import sndhdr"], check=True)
"""


def kept(directory, **environment):
    """Return the modules whose bytecode a stage leaves in `directory`."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    run = [sys.executable, "-W", "ignore", "-c", STAGE]
    subprocess.run(run, cwd=directory, env={**plain, "PYTHONPATH": str(ROOT), **environment}, check=True)
    return {path.name.split(".")[0] for path in (directory / ".bytecode").rglob("*.pyc")}


def test_stages_store_bytecode_in_a_folder_if_disabled(tmp_path):
    assert {"colorsys", "sndhdr"} <= kept(tmp_path, PYTHONDONTWRITEBYTECODE="1")


@pytest.mark.parametrize("unset", [{}, {"PYTHONDONTWRITEBYTECODE": ""}])
def test_otherwise_stages_leave_bytecode_beside_its_source(tmp_path, unset):
    assert kept(tmp_path, **unset) == set()
