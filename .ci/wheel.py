"""Build a wheel of perfjudge that has the champions and the files of new projects inside.

``uv run python .ci/wheel.py [DIRECTORY]`` writes it to a directory (default: dist) and prints its path. It is
built in a temporary clone with the tracked files as they are in the working tree.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from data.errors import InputError
from data.stage import exit_on_error
from data.tables.files import write_json
from serving.installation import PIPELINES, PROJECT_FILES
from serving.plugins import registered_names
from training.registry.champions import CHAMPION, DIGEST, PACKAGE, locate_model, version_of
from training.registry.stored import MODEL

ROOT = Path(__file__).resolve().parents[1]
#: Without this champion, judge and compare would not work.
NEEDED = "regression-comparison"
#: Maximum size of the files of a champion in bytes; larger ones are left out.
LIMIT = 8 << 20
#: Files of MLflow, which reading a model does not open.
UNUSED = shutil.ignore_patterns("MLmodel", "*.yaml", "requirements.txt", "registered_model_meta")


def tracked_files(*paths: str) -> list[str]:
    """Return the names of the tracked files at `paths` (default: all) that exist in the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *paths], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def copy_files(names: Iterable[str], target: Path) -> None:
    """Copy files of the checkout to the same places below `target`."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)


def add_champions(shipped: Path) -> None:
    """Copy the registry's champions of at most `LIMIT` bytes and an index of their tags to `shipped`.

    InputError without the champion `NEEDED`.
    """
    index = {}
    for name in registered_names():
        champion = version_of(name, CHAMPION)
        if champion is None:
            continue
        with locate_model(lambda: "", champion) as (directory, _):
            if sum(path.stat().st_size for path in directory.rglob("*")) <= LIMIT:
                shutil.copytree(directory, shipped / "models" / name, ignore=UNUSED)
                tags = {key: champion.tags.get(key, "") for key in ("model", "data_digest", "seed", DIGEST)}
                # skops stores the names of types as text
                stored = (directory / MODEL).read_bytes()
                package = "xgboost" if b"xgboost" in stored else "numpy"
                index[name] = tags | {"reason": "it came with perfjudge", PACKAGE: package}
    if NEEDED not in index:
        raise InputError(f"the registry has no small champion of {NEEDED}; make one with: uv run dvc repro")
    write_json(shipped / "champions.json", index)


def build_wheel(directory: Path) -> Path:
    """Build the wheel, and return its path in `directory`; CalledProcessError if git or uv fails."""
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as temporary:
        clone, built = Path(temporary) / "clone", Path(temporary) / "built"
        # with the history, from which the version is computed
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", ROOT, clone], check=True)
        copy_files(tracked_files(), clone)
        subprocess.run(["git", "-C", clone, "reset", "--quiet"], check=True)
        shipped = clone / "training" / "shipped"
        copy_files(tracked_files(*PROJECT_FILES, *PIPELINES), shipped / "project")
        add_champions(shipped)
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        )
        (shipped / "commit.txt").write_text(commit.stdout)
        subprocess.run(["uv", "build", "--quiet", "--wheel", "--out-dir", built, clone], check=True)
        (wheel,) = built.glob("*.whl")
        return Path(shutil.move(wheel, directory / wheel.name))


def main() -> None:
    """Build the wheel in the directory that the command line names, and print its path."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    sys.stdout.write(f"{build_wheel(directory)}\n")


if __name__ == "__main__":
    exit_on_error(main)
