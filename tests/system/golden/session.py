"""Recorded answers on disk, and the process that answers anew."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

from tests import short_pipeline

ANSWERS = Path(__file__).with_name("answers")
#: Variables of the caller that would change answers.
_UNSET = ("PERFJUDGE_", "GITHUB_", "MLFLOW_", "GIT_", "CI")


def recorded(group):
    """Return the recorded answers of a group."""
    path = ANSWERS / f"{group}.json.gz"
    return json.loads(gzip.decompress(path.read_bytes())) if path.exists() else {}


def record(group, answers):
    """Write the answers of a group, without the time in the compressed file."""
    text = json.dumps(answers, indent=0, ensure_ascii=False, separators=(",", ":"))
    (ANSWERS / f"{group}.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def answered(root, groups):
    """Return the answers of groups, which one process gives."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_UNSET)}
    environment |= {
        "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC", "LC_ALL": "C.UTF-8",
        "PYTHONWARNINGS": "ignore", "PYTHONPATH": os.pathsep.join([str(root), str(short_pipeline.CHECKOUT)]),
        "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "USER": "somebody", "LOGNAME": "somebody",
        "MLFLOW_TRACKING_URI": short_pipeline.registry(root), "GIT_CEILING_DIRECTORIES": str(root.parent),
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.system.golden.answering", str(root), *groups]
    done = subprocess.run(command, check=False, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads((root / "golden/answers.json").read_text())
