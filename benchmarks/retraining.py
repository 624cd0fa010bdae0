"""How long ``dvc repro`` takes after 50 new labels, and which stages it runs again; it works on a copy."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.table import SEED, Table, load_note, repro_command, require_program, time_call

#: Numbers of new labels, of wrong ones among them, and of all comparisons.
NEW, OTHERWISE = 50, 5
WHOLE = 982
LABELS = "data/raw/measured/labels.parquet"
#: Files of a checkout that neither code nor pipeline needs.
_LEFT = shutil.ignore_patterns(".venv", "*_cache", ".hypothesis", "__pycache__", ".bytecode", "mlruns", "tmp")
_RUN = re.compile(r"^Running stage '([^']+)'", re.MULTILINE)


def timed_repro(root: Path) -> tuple[float, Sequence[str]]:
    """Run ``dvc repro`` in `root`; return the seconds and the stages that ran."""
    command, environment = repro_command()
    options = {"cwd": root, "env": environment, "capture_output": True, "text": True}
    seconds, done = time_call(lambda: subprocess.run(command, check=True, **options))
    return seconds, _RUN.findall(done.stdout)


def main() -> None:
    require_program("git")
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "project"
        shutil.copytree(Path.cwd(), root, symlinks=True, ignore=_LEFT)
        # a new repository, as .git of a worktree names the repository that it belongs to
        (root / ".git").unlink() if (root / ".git").is_file() else shutil.rmtree(root / ".git")
        subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
        labels = pd.read_parquet(root / LABELS)
        new = labels.sample(NEW, random_state=SEED)
        withheld = labels.drop(new.index)
        # a person's labels, some of them wrong
        status = np.where((np.arange(NEW) < OTHERWISE) ^ (new["status"] == "fail"), "fail", "pass")
        new = new.assign(status=status, labelled_by="bert", annotator="bert")
        withheld.to_parquet(root / LABELS, index=False)
        first, _ = timed_repro(root)
        pd.concat([withheld, new], ignore_index=True).to_parquet(root / LABELS, index=False)
        seconds, ran = timed_repro(root)
        repeated, _ = timed_repro(root)
    families = sorted({name.partition("@")[2] for name in ran} - {""})
    rows = [
        ("dvc repro after 50 new labels, seconds", f"{seconds:.1f}", "under 45"),
        ("families that are trained anew", ", ".join(families), "comparisons"),
        ("stages that run", ", ".join(ran), ""),
        ("dvc repro before they came, seconds", f"{first:.1f}", ""),
        ("dvc repro once more, seconds", f"{repeated:.1f}", ""),
    ]
    notes = [
        load_note(),
        f"The shipped measurement ({WHOLE} comparisons) with {WHOLE - NEW} labels, then with the rest.",
        f"Of these {NEW}, {OTHERWISE} say the opposite of the truth. Drawn with the seed {SEED}.",
    ]
    Table("New labels", dict.fromkeys(("what", "figure", "wanted"), ""), rows, notes).publish("retraining")


if __name__ == "__main__":
    main()
