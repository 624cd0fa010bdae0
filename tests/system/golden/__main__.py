"""Record the golden answers anew: ``python -m tests.system.golden --record [--only PATTERN]``."""

import argparse
import fnmatch
import sys
import tempfile
import time
from pathlib import Path

from tests import short_pipeline
from tests.system.golden import session
from tests.system.golden.answering import all_groups
from tests.system.golden.comparing import difference, equal, values


def main():
    """Record the answers of some groups, and print which changed in words and which in values."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.golden", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the answers; else only compare them")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="groups of such names (%(default)s)")
    parser.add_argument("--project", metavar="DIR", help="where the short pipeline ran, or is to run")
    parser.add_argument("--list", action="store_true", help="list the groups")
    given = parser.parse_args()
    groups = [group for group in all_groups() if fnmatch.fnmatch(group, given.only)]
    if given.list or not groups:
        _print("\n".join(all_groups()))
        return 0 if given.list else 2
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        root = Path(given.project or scratch)
        begun = time.monotonic()
        if not (root / "whole").exists():
            root.mkdir(parents=True, exist_ok=True)
            _print("training:", _seconds(short_pipeline.run_all(root)))
            (root / "whole").touch()
        short_pipeline.copy_code(root)
        found, seconds = session.answered(root, groups)
        _print("answering:", _seconds(seconds), f"({time.monotonic() - begun:.0f} s in all)")
        return _shown(found, given.record)


def _shown(found, record):
    differ = 0
    for group, answers in found.items():
        old = session.recorded(group) if session.path(group).exists() else {}
        names = [name for name in {**old, **answers} if not equal(old.get(name), answers.get(name))]
        for name in names:
            kind = "words" if values(old.get(name)) == values(answers.get(name)) else "VALUES"
            _print(f"{group}: {name}: {kind}")
            if not record:
                _print(difference(name, old.get(name), answers.get(name)))
        differ += len(names)
        if record:
            session.record(group, answers)
    return 0 if record else min(differ, 1)


def _print(*words):
    sys.stdout.write(f"{' '.join(words)}\n")
    sys.stdout.flush()


def _seconds(seconds):
    return ", ".join(f"{name} {spent:.1f} s" for name, spent in seconds.items())


if __name__ == "__main__":
    sys.exit(main())
