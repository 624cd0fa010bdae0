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

from benchmarks.pages.measured import ROOT, Code, measured_code

RESULTS = Path("docs/results")
_FOOTER = re.compile(
    r"^Written on (\d{4}-\d\d-\d\d) from commit `(\w+)`(?: with changes)?\.(?: Code digest `(\w+)`\.)?",
    re.MULTILINE,
)
#: What a page says that is not current.
CHANGED = "the code that it measures has changed since"
_MARK = re.compile(rf"^> Measured on .*; {CHANGED}\.\n\n", re.MULTILINE)
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
    measures: Sequence[str]  # code, see `benchmarks.pages.measured`
    command: str  # writes the page, and is printed in it
    minutes: float  # that the command takes on two idle processors
    seed: str = "20261121"
    needs: Sequence[str] = ()  # keys of `NEEDS`
    not_run: Sequence[str] = ()  # packages without effect on its figures: readers that do not run, words
    why_long: str = ""  # why the command does not fit in the budget of one run

    def path(self, root: Path = Path()) -> Path:
        """Return the page's file below `root`."""
        return root / RESULTS / f"{self.name}.md"

    def origin(self, root: Path = Path()) -> Origin | None:
        """Return what the page's footer says, or None without a page or footer."""
        path = self.path(root)
        named = _FOOTER.search(path.read_text(encoding="utf-8")) if path.is_file() else None
        return Origin(date.fromisoformat(named[1]), named[2], named[3] or "") if named else None

    def measured(self, root: Path = Path()) -> Code:
        """Return the code below `root` that the page measures."""
        return measured_code(self.measures, root, self.not_run)

    def is_current(self, root: Path = Path()) -> bool:
        """Return whether the page was written by the code below `root`, as far as it is measured."""
        origin = self.origin(root)
        return origin is not None and origin.digest == self.measured(root).digest

    def marked(self, root: Path = Path()) -> str:
        """Return the page, with a line below its title if the code that it measures has changed since."""
        text = _MARK.sub("", self.path(root).read_text(encoding="utf-8"))
        origin = self.origin(root)
        if origin is None or self.is_current(root):
            return text
        title, _, rest = text.partition("\n\n")
        return f"{title}\n\n> Measured on {origin.day}; {CHANGED}.\n\n{rest}"


class Origin(NamedTuple):
    """The day when a page was written, the commit, and the digest of the code; "" in a page without one."""

    day: date
    commit: str
    digest: str


def footer(name: str, root: Path = ROOT) -> str:
    """Return the paragraph that ends a page: day, commit, digest, data set, held-out part and seed."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout.strip()
    written = f"Written on {datetime.now(UTC):%Y-%m-%d} from commit `{commit or 'unknown'}`."
    for page in (page for page in PAGES if page.name == name):
        written += f" Code digest `{page.measured(root).digest}`."
        written += f" Data: {page.data}. Held out: {page.held_out}. Seed: {page.seed}."
    return f"\n{written}\n"


def markdown_table(headings: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    cells = [[*headings], *rows]
    cells.insert(1, ["---"] * len(cells[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


_SECTIONS = yaml.safe_load(Path(__file__).with_name("pages.yaml").read_text(encoding="utf-8"))
PAGES = tuple(
    ResultPage(section=section, name=name, **fields)
    for section, pages in _SECTIONS.items()
    for name, fields in pages.items()
)
