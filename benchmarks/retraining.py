"""How long ``dvc repro`` takes after 50 new labels, and which stages it runs again; it works on a copy."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.pipeline import timed_repro
from benchmarks.table import SEED, Table, load_note, require_program

#: Numbers of new labels, of wrong ones among them, and of all comparisons.
NEW, OTHERWISE = 50, 5
WHOLE = 982
LABELS = "data/raw/measured/labels.parquet"
#: Files of a checkout that neither code nor pipeline needs.
_LEFT = shutil.ignore_patterns(".venv", "*_cache", ".hypothesis", "__pycache__", ".bytecode", "mlruns", "tmp")


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
        first = timed_repro(root).seconds
        pd.concat([withheld, new], ignore_index=True).to_parquet(root / LABELS, index=False)
        seconds, _, stages = timed_repro(root)
        repeated = timed_repro(root).seconds
    ran = [name for name, *_ in stages]
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
