"""The pages of docs/results: subject, command and requirements of each."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

import yaml

from data.families import FAMILIES

RESULTS = Path("docs/results")
#: Paths that a page's figures depend on; reports, documents and tests do not count.
LAYERS = ("data", "features", "training", "serving")
CODE = (*LAYERS, "benchmarks", "dvc.yaml", "params.yaml", "uv.lock")
_FOOTER = re.compile(r"^Written on (\d{4}-\d\d-\d\d) from commit `(\w+)`( with changes)?\.", re.MULTILINE)
#: Number of commits assumed for a page whose commit is unknown.
MANY = 10_000
#: Requirements of commands, and how to meet them.
NEEDS = {
    "data": "the public data sets in ../shared/data",
    "models": "the trained models and reports that uv run dvc repro leaves",
    "wrk": "wrk, a load generator: apt-get install wrk",
    "peers": "the packages pgmpy and pyagrum: uv sync --group benchmarks",
    "idle": "an idle machine: other programs keep its processors busy, and --busy ignores that",
}


@dataclass(frozen=True, kw_only=True)
class ResultPage:
    """One page of docs/results; `benchmarks.pages.documents` describes `figure_source`.

    A command that begins with ``dvc exp run`` runs in a clone: models and reports of this checkout stay.
    """

    section: str  # of the index
    name: str  # of the file, without ``.md``
    about: str
    data: str
    held_out: str  # part of the data
    figure: str  # shown by the index
    figure_source: str  # its place in the page: ``KEY / KEY / COLUMN``
    command: str  # writes the page, and is printed in it
    minutes: float  # that the command takes on two idle processors
    seed: str = "20261121"
    family: str = ""  # whose code is measured; empty: several
    needs: Sequence[str] = ()  # keys of `NEEDS`
    why_long: str = ""  # why the command does not fit in the budget of one run

    def path(self, root: Path = Path()) -> Path:
        """Return the page's file below `root`."""
        return root / RESULTS / f"{self.name}.md"

    def origin(self, root: Path = Path()) -> Origin | None:
        """Return the date and the commit in the page's footer, or None without a page or footer."""
        path = self.path(root)
        named = _FOOTER.search(path.read_text(encoding="utf-8")) if path.is_file() else None
        return Origin(date.fromisoformat(named[1]), named[2], bool(named[3])) if named else None

    def commits_since(self, root: Path = Path()) -> int:
        """Return how many commits have changed the family's code since the page's commit; `MANY` if unknown.

        For a page about several families, the total is divided by their number.
        """
        origin = self.origin(root)
        since = f"{origin.commit}..HEAD" if origin else "unknown..HEAD"
        families = [self.family] if self.family else FAMILIES
        code = [f"{layer}/{family}" for layer in LAYERS for family in families]
        count = _git(root, "rev-list", "--count", since, "--", *code).stdout.strip()
        return int(count) // len(families) if count else MANY


class Origin(NamedTuple):
    """The day when a page was written, the commit, and whether its code had uncommitted changes."""

    day: date
    commit: str
    changed: bool

    def is_current(self, root: Path = Path()) -> bool:
        """Return whether the code below `root` equals that of the commit."""
        return not self.changed and _git(root, "diff", "--quiet", self.commit, "--", *CODE).returncode == 0


def footer(name: str, root: Path = Path()) -> str:
    """Return the paragraph that ends a page: day, commit, data set, held-out part and seed."""
    commit = _git(root, "rev-parse", "--short", "HEAD").stdout.strip() or "unknown"
    changed = " with changes" if _git(root, "status", "--porcelain", "--", *CODE).stdout else ""
    written = f"Written on {datetime.now(UTC):%Y-%m-%d} from commit `{commit}`{changed}."
    for page in PAGES:
        if page.name == name:
            written += f" Data: {page.data}. Held out: {page.held_out}. Seed: {page.seed}."
    return f"\n{written}\n"


def markdown_table(headings: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    cells = [[*headings], *rows]
    cells.insert(1, ["---"] * len(cells[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)


_SECTIONS = yaml.safe_load(Path(__file__).with_name("pages.yaml").read_text(encoding="utf-8"))
PAGES = tuple(
    ResultPage(section=section, name=name, **fields)
    for section, pages in _SECTIONS.items()
    for name, fields in pages.items()
)
