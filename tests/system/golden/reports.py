"""Figures and pages: those that are committed, and those that the short pipeline wrote."""

from tests.system.golden.commands import CHECKOUT
from tests.system.golden.tables import described, files

#: Files of durations.
_TIMES = ("times.parquet",)


def reported(root, normaliser):
    """Return the contents of reports by path."""
    found = {}
    for path in sorted((CHECKOUT / "reports").glob("*/*.json")):
        found[f"committed {path.relative_to(CHECKOUT)}"] = described(path, normaliser)
    for directory in sorted(path for path in (root / "reports").iterdir() if path.is_dir()):
        for name, content in files(directory, normaliser).items():
            if name in _TIMES:
                continue
            found[f"reports/{directory.name}/{name}"] = content
    return found
