"""Answer all commands and requests of some groups in one process, and write the answers.

``python -m tests.system.golden.answering ROOT GROUP...``: ROOT is a directory in which `tests.short_pipeline`
ran. The answers are then in its ``golden/answers.json``.
"""

import json
import os
import re
import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.commands import perfjudge
from tests.imports import ROOT
from tests.system.golden.comparing import Renames
from tests.system.golden.normalise import Normaliser
from tests.system.golden.tables import described, files

LISTED = Path(__file__).with_name("commands.txt")
_ROW = re.compile(r"  ([\w-]+)(?:  |$)")


def commands():
    """Return the commands of ``commands.txt`` by group."""
    groups = {}
    for line in LISTED.read_text().splitlines():
        if line.startswith("["):
            group = groups.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            group.append(line)
    return groups


def all_groups():
    """Return the names of all groups."""
    return ("help", *commands(), "http", "reports")


def answers(root, group):
    """Return the answers of a group by entry."""
    begun = datetime.fromtimestamp((root / "params.yaml").stat().st_mtime, UTC)
    normaliser = Normaliser({root: "<root>", ROOT: "<checkout>", sys.prefix: "<venv>"}, begun)
    if group == "help":
        return _help_tree(normaliser)
    if group == "http":
        from tests.system.golden.requests import answered

        return answered(root, normaliser)
    return _reported(root, normaliser) if group == "reports" else _commands(root, group, normaliser)


def _reported(root, normaliser):
    """Return the contents of committed reports, and of those that the short pipeline wrote, by path."""
    found = {}
    for path in sorted((ROOT / "reports").glob("*/*.json")):
        found[f"committed {path.relative_to(ROOT)}"] = described(path, normaliser)
    for directory in sorted(path for path in (root / "reports").iterdir() if path.is_dir()):
        for name, content in files(directory, normaliser).items():
            if name != "times.parquet":
                found[f"reports/{directory.name}/{name}"] = content
    return found


def _commands(root, group, normaliser):
    scratch, renames = root / "golden" / group, Renames.read()
    shutil.rmtree(scratch, ignore_errors=True)
    out, kept = scratch / "out", scratch / "kept"
    kept.mkdir(parents=True)

    def unfilled(text):
        return text.replace(str(out), "{out}").replace(str(kept), "{kept}")

    found = {}
    for line in commands()[group]:
        out.mkdir()
        words = shlex.split(renames.text(line))
        done = perfjudge(*(word.replace("{out}", str(out)).replace("{kept}", str(kept)) for word in words))
        entry = found[line] = {"exit": done.returncode}
        if done.stdout:
            entry["stdout"] = normaliser.answer(unfilled(done.stdout))
        if done.stderr:
            entry["stderr"] = normaliser.text(unfilled(done.stderr))
        if written := files(out, normaliser):
            entry["files"] = written
        shutil.rmtree(out)
    if written := files(kept, normaliser):
        found["files that are kept"] = written
    return found


def _help_tree(normaliser, path=()):
    done = perfjudge(*path, "--help")
    found = {" ".join(["perfjudge", *path]): normaliser.text(f"{done.stdout}{done.stderr}")}
    listed = done.stdout.partition("\nCommands:\n")[2].splitlines()
    for name in (match[1] for line in listed if (match := _ROW.match(line))):
        found |= _help_tree(normaliser, (*path, name))
    return found


if __name__ == "__main__":
    root = Path(sys.argv[1]).resolve()
    os.chdir(root)
    content = {group: answers(root, group) for group in sys.argv[2:]}
    (root / "golden").mkdir(exist_ok=True)
    (root / "golden/answers.json").write_text(json.dumps(content, ensure_ascii=False))
