"""What pages of the documentation say to type, read off their Markdown.

A command is a block, indented by four or fenced, that begins with one of `PROGRAMS`. A comment before a block
says what is special about it::

    <!-- not run: WHY -->      it is not run
    <!-- exit 1 -->            it ends with that status
    <!-- file: rules.xml -->   it is no command, but what that file holds
"""

import re
from dataclasses import dataclass
from textwrap import dedent

from tests.imports import ROOT

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
