"""Write the pages of docs/results, and the figures that other documents quote.

    python -m benchmarks.pages              outdated pages, as many as fit in 30 minutes
    python -m benchmarks.pages --list       every page: minutes, origin, state, needs, command
    python -m benchmarks.pages --only scale serving
    python -m benchmarks.pages --documents  only the figures that documents quote, and marks in outdated pages

A page is outdated if the code that it measures (`benchmarks.pages.measured`) has another digest than the
page's last line; a line below its title then says so. Pages are written one after the other, the quickest
first. Others are skipped, so that the same command resumes after an interruption. If a page fails, the others
are still written; the command names it at the end and returns 1.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from math import inf
from pathlib import Path
from shutil import which

from benchmarks.pages import NEEDS, PAGES, ResultPage
from benchmarks.pages.documents import write_documents
from benchmarks.table import program_environment
from data.errors import InputError
from data.paths import FamilyPaths
from data.tables.files import write_text

MINUTES = 30
#: The exit code after Ctrl-C.
INTERRUPTED = 130
#: An idle machine uses at most `BUSY` percent of its processors in one of `IDLE_SPANS` spans of `SECONDS`.
BUSY, IDLE_SPANS, SECONDS = 25, 10, 3
PUBLIC = Path("../shared/data")
#: Prefix that is removed: commands run in the environment of this interpreter.
_UV_RUN = re.compile(r"uv run (?:--group \w+ )?(?=python )")


def unmet_needs(page: ResultPage, root: Path, *, busy: bool = False) -> list[str]:
    """Return the requirements of the page that this machine does not meet, in the words of `NEEDS`."""
    import psutil

    checks = {
        "data": (root / PUBLIC).is_dir,
        "models": FamilyPaths("comparisons", root).models.is_dir,
        "wrk": lambda: which("wrk") is not None,
        "peers": lambda: find_spec("pgmpy") is not None and find_spec("pyagrum") is not None,
        # processes of the page before may need a moment to end
        "idle": lambda: busy or any(psutil.cpu_percent(SECONDS) <= BUSY for _ in range(IDLE_SPANS)),
    }
    return [NEEDS[need] for need in page.needs if not checks[need]()]


def choose_pages(pages: Sequence[ResultPage], minutes: float, root: Path = Path()) -> list[ResultPage]:
    """Return the outdated pages that fit in the budget, one per command, in the order of writing."""
    stale = [page for page in pages if not page.is_current(root)]
    selected: list[ResultPage] = []
    for page in sorted(stale, key=lambda page: page.minutes):
        fits = sum(other.minutes for other in selected) + page.minutes <= minutes
        if fits and page.command not in {other.command for other in selected}:
            selected.append(page)
    return selected


def write(page: ResultPage, root: Path = Path()) -> str:
    """Run the page's command; return the reason of a failure, or "" on success."""
    in_clone = page.command.startswith("dvc exp run")
    command, environment = _UV_RUN.sub("", page.command), program_environment()
    with _clone(root) if in_clone else nullcontext(root) as place:
        path = page.path(place)
        before = path.stat().st_mtime_ns if path.is_file() else 0
        options = {"cwd": place, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, shell=True, check=False, text=True, **options)  # noqa: S602 - of PAGES
        last = [line for line in ["no output", *done.stdout.splitlines()] if line.strip()][-1]
        if done.returncode:
            return f"exit {done.returncode}: {last}"
        if not path.is_file() or path.stat().st_mtime_ns == before:
            return f"it ended well and wrote no page: {last}"
        if in_clone:
            write_text(page.path(root), path.read_text(encoding="utf-8"))
    return ""


@contextmanager
def _clone(root: Path) -> Iterator[Path]:
    """Clone the checkout, with the public data where its commands expect them."""
    with tempfile.TemporaryDirectory(prefix="pages-") as scratch:
        clone = Path(scratch) / "project"
        subprocess.run(["git", "clone", "--quiet", str(root.resolve()), str(clone)], check=True)
        (Path(scratch) / PUBLIC.parent.name).symlink_to((root / PUBLIC).resolve().parent)
        yield clone


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the chosen pages, then the documents that quote them; return the exit code."""
    names = [page.name for page in PAGES]
    summary = __doc__.partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=summary)
    parser.add_argument("--list", action="store_true", help="only print the table of pages")
    parser.add_argument("--documents", action="store_true", help="only write what documents quote, and marks")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="these pages")
    parser.add_argument("--all", action="store_true", help="every outdated page, without a budget")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"budget (default: {MINUTES})")
    parser.add_argument("--busy", action="store_true", help="measure speed although other programs run")
    options = parser.parse_args(arguments)
    if options.list:
        print_pages()
        return 0
    failures: dict[str, str] = {}
    try:
        if not options.documents:
            named = [page for page in PAGES if page.name in (options.only or ())]
            chosen = named or choose_pages(PAGES, inf if options.all else options.minutes)
            failures = write_pages([*{page.command: page for page in chosen}.values()], busy=options.busy)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the same command goes on with the pages that are not written yet\n")
        return INTERRUPTED
    try:
        print("documents: " + (", ".join(map(str, write_documents())) or "nothing to change"))
    except InputError as exc:
        failures["documents"] = str(exc)
    for name, failure in failures.items():
        sys.stderr.write(f"{name}: {failure}\n")
    return int(bool(failures))


def write_pages(pages: Sequence[ResultPage], root: Path = Path(), *, busy: bool = False) -> dict[str, str]:
    """Write pages one after the other; return the reasons of failures by page name."""
    failures = {}
    total = sum(page.minutes for page in pages)
    print(f"{len(pages)} pages, about {total:.0f} minutes", flush=True)
    for number, page in enumerate(pages, 1):
        print(f"{number} of {len(pages)}: {page.name}, about {page.minutes:g} minutes", flush=True)
        begun = time.monotonic()
        lacks = unmet_needs(page, root, busy=busy)
        failure = f"needs {', '.join(lacks)}" if lacks else write(page, root)
        print(f"    {failure or 'written'} after {(time.monotonic() - begun) / 60:.1f} minutes", flush=True)
        if failure:
            failures[page.name] = failure
    return failures


def print_pages() -> None:
    """Print every page: minutes, origin, state, needs, and whether it would be written now."""
    from rich.console import Console
    from rich.table import Table

    table = Table("page", "minutes", "written", "commit", "state", "needs", "now", "command")
    now = {page.command for page in choose_pages(PAGES, MINUTES)}
    for page in sorted(PAGES, key=lambda page: page.minutes):
        origin = page.origin()
        origin_cells = (str(origin.day), origin.commit) if origin else ("", "")
        state = "current" if page.is_current() else "outdated"
        later = "no" if state == "current" else f"no: {page.why_long or 'the budget is spent'}"
        next_run, needs = "yes" if page.command in now else later, ", ".join(page.needs)
        table.add_row(page.name, f"{page.minutes:g}", *origin_cells, state, needs, next_run, page.command)
    Console(width=None if sys.stdout.isatty() else 230).print(table)


if __name__ == "__main__":
    sys.exit(main())
