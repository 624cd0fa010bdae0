"""Answer all commands and requests of some groups in one process, and write the answers.

``python -m tests.system.golden.answering ROOT OUTPUT GROUP...``: ROOT is a directory in which
`tests.short_pipeline` ran. The command line app is called in this process: starting it takes seconds.
"""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import sys
import time
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from unittest import mock

from tests.system.golden.comparing import Renames
from tests.system.golden.normalise import Normaliser
from tests.system.golden.tables import described, files

CHECKOUT = Path(__file__).parents[3]
LISTED = Path(__file__).with_name("commands.txt")
RENAMES = Path(__file__).with_name("renames.yaml")
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


def answers(root, group, renames):
    """Return the answers of a group by entry."""
    normaliser = Normaliser({root: "<root>", CHECKOUT: "<checkout>", sys.prefix: "<venv>"}, _begun(root))
    if group == "help":
        return _help_tree(normaliser, renames)
    if group == "http":
        from tests.system.golden.requests import answered

        return answered(root, normaliser, renames)
    if group == "reports":
        return _reported(root, normaliser)
    return _commands(root, group, normaliser, renames)


def _reported(root, normaliser):
    """Return the contents of committed reports, and of those that the short pipeline wrote, by path."""
    found = {}
    for path in sorted((CHECKOUT / "reports").glob("*/*.json")):
        found[f"committed {path.relative_to(CHECKOUT)}"] = described(path, normaliser)
    for directory in sorted(path for path in (root / "reports").iterdir() if path.is_dir()):
        for name, content in files(directory, normaliser).items():
            if name != "times.parquet":
                found[f"reports/{directory.name}/{name}"] = content
    return found


def _begun(root):
    return datetime.fromtimestamp((root / "params.yaml").stat().st_mtime, UTC)


def _commands(root, group, normaliser, renames):
    scratch = root / "golden" / group
    shutil.rmtree(scratch, ignore_errors=True)
    out, kept = scratch / "out", scratch / "kept"
    kept.mkdir(parents=True)
    places = {"{out}": str(out), "{kept}": str(kept)}
    found = {}
    for line in commands()[group]:
        out.mkdir()
        exit_code, printed, said = run([_filled(one, places) for one in shlex.split(renames.text(line))])
        entry = {"exit": exit_code}
        if printed:
            entry["stdout"] = normaliser.answer(_unfilled(printed, places))
        if said:
            entry["stderr"] = normaliser.text(_unfilled(said, places))
        if written := files(out, normaliser):
            entry["files"] = written
        found[line] = entry
        shutil.rmtree(out)
    if written := files(kept, normaliser):
        found["files that are kept"] = written
    return found


def _filled(argument, places):
    for name, place in places.items():
        argument = argument.replace(name, place)
    return argument


def _unfilled(text, places):
    for name, place in places.items():
        text = text.replace(place, name)
    return text


@cache
def app():
    """Return the command line app, whose module may have another name than when answers were recorded."""
    return next(one for one in entry_points(group="console_scripts") if one.name == "perfjudge").load()


def run(given):
    """Run the command line app in this process; return exit code, standard output and standard error."""
    printed, said = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        mock.patch.object(sys, "argv", ["perfjudge", *given]),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(said),
    ):
        try:
            exit_code = app()() or 0
        except SystemExit as end:
            exit_code = end.code or 0
    return exit_code, *(stream.buffer.getvalue().decode("utf-8", "replace") for stream in (printed, said))


def _help_tree(normaliser, renames, path=()):
    _, printed, said = run([*path, "--help"])
    found = {" ".join(["perfjudge", *path]): normaliser.text(f"{printed}{said}")}
    listed = printed.partition("\nCommands:\n")[2].splitlines()
    for name in (match[1] for line in listed if (match := _ROW.match(line))):
        found |= _help_tree(normaliser, renames, (*path, name))
    return found


def main(root, output, groups):
    """Write a JSON file with the answers and the seconds of each group."""
    root, output = Path(root).resolve(), Path(output).resolve()
    os.chdir(root)
    renames = Renames.read(RENAMES)
    for group in groups:
        begun = time.process_time()
        found = answers(root, group, renames)
        content = {"seconds": time.process_time() - begun, "answers": found}
        (output / f"{group}.json").write_text(json.dumps(content, ensure_ascii=False))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
