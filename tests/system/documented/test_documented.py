"""Every command of the documentation runs as printed, page by page, in a clone with nothing beside it.

A command is a block, indented by four or fenced, that begins with one of `PROGRAMS`. A comment before a block
says what is special about it::

    <!-- not run: WHY -->      it is not run
    <!-- exit 1 -->            it ends with that status
    <!-- file: rules.xml -->   it is no command, but what that file holds
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from textwrap import dedent

import pytest

from tests.imports import ROOT
from tests.preloaded import Preloaded
from tests.system.documented.project import Project, copied, fill

PROGRAMS = {
    "cat", "cp", "createdb", "curl", "dask", "docker", "export", "git", "gzip", "mkdir", "perf",
    "perfjudge", "pip", "printf", "psql", "python", "sed", "sqlite3", "sudo", "uv",
}  # fmt: skip
_BEGIN = re.compile(r"(?:[A-Z_]+=(?:\$\(|\S*\s+))*([\w./-]+)(?!\S)")
_MARK = re.compile(r"<!-- (not run|exit|file):? ?(.*?) -->")
_FENCE = re.compile(r"( *)```([\w-]*).*")


@dataclass(frozen=True)
class Block:
    """Lines that stand by themselves, and the comment before them: its kind and what it says."""

    page: str
    line: int
    text: str
    mark: str = ""
    says: str = ""

    @property
    def command(self):
        begin = _BEGIN.match(self.text)
        return self.mark != "file" and begin is not None and begin[1] in PROGRAMS

    @property
    def runs(self):
        return self.command and self.mark != "not run"

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def pages():
    """Return the pages that tell what to type; tables of results name the benchmark that wrote them."""
    found = [path.relative_to(ROOT) for path in sorted((ROOT / "docs").rglob("*.md"))]
    return ["README.md", "CONTRIBUTING.md", *(str(path) for path in found if "results" not in path.parts)]


def blocks_of(page):
    lines = (ROOT / page).read_text().splitlines()
    mark, number, found = ("", ""), 0, []
    while number < len(lines):
        line = lines[number]
        end = _end_of_block(lines, number)
        if end > number:
            inside = lines[number + 1 : end - 1] if _FENCE.match(line) else lines[number:end]
            found.append(Block(page, number + 1, dedent("\n".join(inside)), *mark))
        if marked := _MARK.fullmatch(line.strip()):
            mark = marked.groups()
        elif line.strip():
            mark = ("", "")
        number = max(end, number + 1)
    return found


def _end_of_block(lines, begin):
    """Return the line behind the block that begins at `begin`, or `begin` if none does."""
    if fence := _FENCE.match(lines[begin]):
        end = f"{fence[1]}```"
        return next(at for at in range(begin + 1, len(lines)) if lines[at].rstrip() == end) + 1
    if not lines[begin].startswith("    ") or (begin and lines[begin - 1].strip()):
        return begin
    # what stands behind an empty line is what the command prints
    inside = (at for at in range(begin, len(lines)) if not lines[at].startswith("    "))
    return next(inside, len(lines))


#: Why a block may not be run, and how many blocks at most there are for that reason.
REASONS = {
    "installs programs": 9,
    "measures for minutes or hours": 9,
    "runs these tests": 1,
    "a public data set": 12,
    "a server of your own": 4,
    "counts a program of your own": 2,
    "needs docker": 2,
    "needs several terminals, and machines": 1,
    "needs that scheduler": 1,
    "needs a PostgreSQL server": 1,
    "needs PostgreSQL and an S3": 1,
}
#: A row of a table of verdicts: its verdict, and the cells that may be names.
ROW = re.compile(
    r"^\W*?[│|] *\**"
    r"(pass|fail|invalid|unsure|regression|improvement|acknowledged|within noise|unchanged)"
    r"\** *[│|](.*)$",
    re.MULTILINE,
)
NAME = re.compile(r"[A-Za-z][\w./-]*")
BLOCKS = {page: blocks_of(page) for page in pages()}


@pytest.fixture(scope="session")
def clone(made_once, needs_uv, preloaded_programs):
    return made_once("documented", partial(fill, python=preloaded_programs / "python"))


@pytest.fixture(scope="session")
def programs(clone, tmp_path_factory, preloaded_programs):
    """Programs with the code of a copy of the clone; each page is typed in a new copy at the same place."""
    root = tmp_path_factory.mktemp("documented") / "perfjudge"
    copied(clone, root)
    with Preloaded(root, preloaded_programs / "python") as loaded:
        yield root, loaded.path


@pytest.fixture
def project(clone, programs):
    root, path = programs
    copied(clone, root)
    made = Project(root, path)
    yield made
    made.end()


def verdicts(text):
    """Return the verdicts that a table shows, each with the names in its row."""
    cells = (
        (verdict, [one.strip() for one in re.split("[│|]", rest)]) for verdict, rest in ROW.findall(text)
    )
    return {(verdict, *filter(NAME.fullmatch, row)) for verdict, row in cells}


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, blocks in BLOCKS.items() if any(one.runs for one in blocks)])
def test_every_command_of_a_page_ends_as_documented(project, page):
    for block, then in pairwise([*BLOCKS[page], Block(page, 0, "")]):
        if block.mark == "file":
            path = project.root / block.says
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text + "\n")
        elif block.runs:
            done = project.typed(block.text)
            wanted = int(block.says) if block.mark == "exit" else 0
            assert done.status == wanted, f"{block.place}: status {done.status}\n{block.text}\n\n{done.said}"
            shown = set() if then.command or then.mark == "file" else verdicts(then.text)
            assert shown <= verdicts(done.said), f"{then.place} shows other verdicts\n\n{done.said}"


def test_pages_show_verdicts_of_both_judge_and_compare():
    pages = ("README.md", "docs/ci.md", "docs/tutorials/first-verdict.md")
    first, ci, tutorial = ({one for block in BLOCKS[page] for one in verdicts(block.text)} for page in pages)
    assert ("fail", "mine", "parse") in first
    assert ("regression", "mine/parse") in first & tutorial
    assert ("regression", "editor/parse") in ci


def test_few_commands_are_not_run_for_known_reasons():
    counted = Counter(block.says for blocks in BLOCKS.values() for block in blocks if block.mark == "not run")
    assert {why: count for why, count in counted.items() if count > REASONS.get(why, 0)} == {}
    runs = sum(block.runs for blocks in BLOCKS.values() for block in blocks)
    assert runs > 3 * counted.total()


@pytest.mark.parametrize("page", BLOCKS)
def test_no_command_hides_in_other_blocks(page):
    hidden = [
        f"{block.place}: {line}"
        for block in BLOCKS[page]
        if not block.command and not block.says.endswith(".yml")
        for line in block.text.splitlines()
        if line.startswith(("uv run", "curl ", "perfjudge "))
    ]
    assert hidden == []


def test_every_sample_named_by_a_page_exists():
    commands = "\n".join(block.text for blocks in BLOCKS.values() for block in blocks if block.command)
    named = {word.strip("'\"@,") for word in commands.split()}
    samples = [name for name in named if name.startswith("docs/samples")]
    assert samples
    assert [name for name in samples if not (ROOT / name).exists()] == []
