"""Record the golden answers anew: ``python -m tests.system.golden --record [--only PATTERN]``."""

import argparse
import fnmatch
import sys
import tempfile
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
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        root = Path(given.project or scratch)
        if not (root / "whole").exists():
            root.mkdir(parents=True, exist_ok=True)
            short_pipeline.run_all(root)
            (root / "whole").touch()
        short_pipeline.copy_code(root)
        found = session.answered(root, fnmatch.filter(all_groups(), given.only))
    differ = 0
    for group, answers in found.items():
        old = session.recorded(group)
        for name in {**old, **answers}:
            before, after = old.get(name), answers.get(name)
            if not equal(before, after):
                differ += 1
                kind = "words" if values(before) == values(after) else "VALUES"
                shown = "" if given.record else f"\n{difference(name, before, after)}"
                sys.stdout.write(f"{group}: {name}: {kind}{shown}\n")
        if given.record:
            session.record(group, answers)
    return int(differ > 0 and not given.record)


if __name__ == "__main__":
    sys.exit(main())
