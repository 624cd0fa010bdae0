"""Pages of results, the command that writes them, and digests of the code that they measure."""

import re
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from benchmarks import pages as module
from benchmarks import transfer
from benchmarks.pages import PAGES, ResultPage, footer
from benchmarks.pages import __main__ as command
from benchmarks.pages.measured import measured_code
from benchmarks.transfer import TransferRow
from data.errors import InputError
from serving.reports.evaluation_files import other_data_rows
from tests.imports import ROOT
from tests.system.conftest import Repository


@pytest.fixture
def checkout(tmp_path):
    """A repository with one commit of code and no page."""
    root = tmp_path / "project"
    (root / "docs/results").mkdir(parents=True)
    (root / "training").mkdir()
    (root / "training/model.py").write_text("slow = True\n")
    Repository(root).commit("More")
    return root


def page_of(name, minutes=1.0, run=None, needs=()):
    own = f"echo '# {name}' > docs/results/{name}.md" if run is None else run
    about = {"about": "speed", "data": "made up", "held_out": "nothing", "seed": "1", "section": "Speed"}
    about |= {"figure": "1 s", "figure_source": "seconds", "measures": ["training.model"]}
    return ResultPage(name=name, command=own, minutes=minutes, needs=needs, **about)


def chosen(pages, root):
    return [page.name for page in command.choose_pages(pages, 30, root)]


def test_commands_are_chosen_once_until_the_budget_is_spent(checkout):
    pages = [page_of("long", 20), page_of("short", 2), page_of("longer", 25), page_of("middle", 8)]
    assert chosen([*pages, replace(pages[1], name="other")], checkout) == ["short", "middle", "long"]


def test_a_page_is_outdated_until_its_measured_code_is_restored(checkout, monkeypatch):
    page, pages = page_of("first"), [page_of("first"), page_of("second")]
    monkeypatch.setattr(module, "PAGES", (page,))
    written = f"# first\n\n    the command\n{footer('first', checkout)}"
    assert written.endswith(" Data: made up. Held out: nothing. Seed: 1.\n")
    page.path(checkout).write_text(written)
    assert (page.marked(checkout), chosen(pages, checkout)) == (written, ["second"])
    (checkout / "training/other.py").write_text("slow = True\n")
    (checkout / "training/model.py").write_text("# quick enough\nslow = True\n")
    assert chosen(pages, checkout) == ["second"]
    (checkout / "training/model.py").write_text("slow = False\n")
    assert chosen(pages, checkout) == ["first", "second"]
    marked = page.marked(checkout)
    assert marked.startswith(f"# first\n\n> Measured on {page.origin(checkout).day}; {module.CHANGED}.\n")
    page.path(checkout).write_text(marked)
    assert page.marked(checkout) == marked
    (checkout / "training/model.py").write_text("slow = True\n")
    assert (page.marked(checkout), chosen(pages, checkout)) == (written, ["second"])


def test_a_failing_page_is_named_and_others_are_written(checkout, capsys):
    (checkout / "docs/results/broken.md").write_text("as it was\n")
    broken = page_of("broken", run="echo half; echo no data >&2; exit 3")
    failures = command.write_pages([broken, page_of("silent", run="true"), page_of("whole")], checkout)
    assert failures == {"broken": "exit 3: no data", "silent": "it ended well and wrote no page: no output"}
    assert (checkout / "docs/results/broken.md").read_text() == "as it was\n"
    assert (checkout / "docs/results/whole.md").read_text() == "# whole\n"
    assert "3 of 3: whole" in capsys.readouterr().out


def test_an_interrupted_command_announces_that_it_resumes(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "write", interrupted)
    monkeypatch.setattr(command, "write_documents", pytest.fail)
    assert command.main(["--only", "similarity", "--busy"]) == 130
    assert "goes on" in capsys.readouterr().err


def test_a_page_is_not_written_without_its_needs(checkout, monkeypatch):
    monkeypatch.setattr(command, "which", lambda _: None)
    monkeypatch.setattr("psutil.cpu_percent", lambda _: 80.0)
    served = page_of("served", needs=("wrk", "models", "idle"))
    (failure,) = command.write_pages([served], checkout).values()
    assert re.search("(?s)apt-get install wrk.*dvc repro.*idle machine", failure)
    assert "idle" not in command.write_pages([served], checkout, busy=True)["served"]


def test_experiments_run_in_a_clone_and_keep_only_pages(checkout, monkeypatch):
    (checkout.parent / "shared/data").mkdir(parents=True)
    run = "dvc exp run -S a=b && mkdir -p docs/results && echo '# public' > docs/results/public.md"
    page = page_of("public", run=run)
    (checkout.parent / "bin").mkdir()
    program = checkout.parent / "bin/dvc"
    program.write_text("#!/bin/sh\ntest -d ../shared/data && echo changed > training/model.py\n")
    program.chmod(0o755)
    monkeypatch.setattr(command.sys, "executable", str(checkout.parent / "bin/python"))
    assert command.write_pages([page], checkout) == {}
    assert page.path(checkout).read_text() == "# public\n"
    assert (checkout / "training/model.py").read_text() == "slow = True\n"


def test_every_page_is_current_or_says_that_it_is_not():
    files = {path.stem for path in (ROOT / module.RESULTS).glob("*.md")}
    assert files == {"index", *(page.name for page in PAGES)}
    assert [page.name for page in PAGES if page.origin(ROOT) is None] == []
    wrong = [page.name for page in PAGES if page.marked(ROOT) != page.path(ROOT).read_text()]
    assert wrong == [], "run python -m benchmarks.pages --only NAME, or --documents to mark it as outdated"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_names_its_command_code_and_a_long_time(page):
    title, empty, line = module._MARK.sub("", page.path(ROOT).read_text()).splitlines()[:3]
    assert title.startswith("# ")
    assert (empty, line) == ("", f"    {page.command}")
    (benchmark,) = re.findall(r"-m (benchmarks\.[\w.]+)", page.command)
    assert any(re.match(rf"{benchmark}(\.__main__)?(:|$)", name) for name in page.measures)
    assert page.minutes <= command.MINUTES or page.why_long


CODE = """
from training.other import rate, unused

LIMIT = 3

def slow(values):
    if not values:
        raise ValueError("none")
    return [rate(value) * LIMIT for value in values]

def other():
    return unused()
"""
RATE = "def rate(value):\n    return value + 1\n\ndef unused():\n    return 0\n"


def digest_of(code=CODE, rate=RATE, names=("training.model:slow",), not_run=()):
    with TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "training").mkdir()
        (root / "training/model.py").write_text(code)
        (root / "training/other.py").write_text(rate)
        (root / "params.yaml").write_text("# of trees\ntrees: {depth: 4, count: 5}\n")
        return measured_code(names, root, not_run).digest


RATE_HERE = CODE.replace("import rate, unused", "import unused") + RATE.partition("\n\n")[0]
RATE_BY_NAME = CODE.replace("rate(value)", 'resolve("training.other:rate")(value)')


@pytest.mark.parametrize(
    ("code", "old", "new", "not_run", "changes"),
    [
        (CODE, "    if not", '    """A word."""\n    # a word\n    if  not', "", False),
        (CODE, '"none"', '"none: a word"', "", False),
        (CODE, "(values)", "(values: list[int]) -> list[int]", "", False),
        (CODE, "return 0", "return -1", "", False),
        (CODE, CODE, RATE_HERE, "", False),
        (CODE, "LIMIT = 3", "LIMIT = 4", "", True),
        (CODE, "value + 1", "value + 2", "", True),
        (CODE, "[rate(value)", "[abs(value)", "", True),
        (RATE_BY_NAME, "value + 1", "value + 2", "", True),
        (CODE, "value + 1", "value + 2", "training.other", False),
        (CODE, "value + 1", "value + 2", "training.oth", True),
        (CODE, "LIMIT = 3", "LIMIT = 4", "training.other", True),
    ],
)
def test_a_digest_changes_with_executed_code_only(code, old, new, not_run, changes):
    assert (code + RATE).count(old) == 1
    changed = digest_of(code.replace(old, new), RATE.replace(old, new), not_run=[not_run])
    assert (changed != digest_of(code, not_run=[not_run])) == changes


def test_a_digest_depends_on_the_values_of_parameters():
    names = ["params.yaml:trees.depth"], ["params.yaml:trees.count"], ["params.yaml"]
    assert len({digest_of(names=one) for one in names}) == 3


@pytest.mark.parametrize("name", ["training.none", "training.model:none", "none.yaml", "params.yaml:x.none"])
def test_measured_code_that_does_not_exist_is_refused(name):
    with pytest.raises(InputError, match=r"pages\.yaml.*none"):
        digest_of(names=[name])


ROW = TransferRow(
    "corun", "made up", "pairs", 10, "mean error", [0.0125, 0.0135], {"forest": 0.02}, ("forest", 0.02),
    "at most 0.6 times", ["A with B 9 %"],
)  # fmt: skip
SHOWN = "| 10 | mean error | 1.30 % ± 0.05 % | forest: 2.00 % | forest: 2.00 % | at most 0.6 times | no |"


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Return what asks questions that are made up, in a directory with a page of results."""

    def asking(*arguments, **questions):
        monkeypatch.setattr(transfer, "QUESTIONS", questions)
        return transfer.main([str(tmp_path), *arguments])

    (tmp_path / "docs/results").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return asking


def well(part):
    yield ROW


def badly(part):
    raise ValueError(f"nothing in {part.shared.name}")


def test_the_table_joins_answers_of_all_questions(ask, tmp_path):
    assert ask(one=well, other=well) == 0
    page = (tmp_path / "docs/results/transfer.md").read_text()
    assert (page.count(SHOWN), page.count("| made up | pairs | mean error | A with B 9 % |")) == (2, 2)
    assert [row["ours"] for row in other_data_rows(tmp_path, "corun")] == ["1.30 % ± 0.05 %"] * 2
    assert other_data_rows(tmp_path, "matrices") == []


def test_single_and_failing_questions_are_printed_only(ask, tmp_path, capsys):
    assert ask(one=badly, other=well) == 1
    printed = capsys.readouterr()
    assert printed.err.endswith(f"one failed: ValueError: nothing in {tmp_path.name}\n")
    assert printed.out.count(SHOWN) == 1
    assert ask("--only", "other", one=badly, other=well) == 0
    assert ask("--part", "choose", other=well) == 0
    assert not (tmp_path / "docs/results/transfer.md").exists()
    assert other_data_rows(tmp_path, "corun") == []


@given(names=st.sets(st.text(min_size=1), min_size=6), report=st.booleans())
@settings(max_examples=30)
def test_the_final_third_is_in_no_choice(names, report):
    final = transfer.Part(Path(), report=True).split_names([*names])[1]
    learned, tested = transfer.Part(Path(), report=report).split_names([*names])
    assert not learned & tested
    assert learned | tested == (names if report else names - final)
    assert len(final) == round(len(names) / 3)


@pytest.mark.parametrize(
    ("goal", "reached"),
    [
        ("at most 0.0125", True), ("at least 2.5 times", True), ("at least 0.0075 more", True),
        ("at most 0 less", True), ("at most 0.012", False), ("at most 2.4 times", False),
        ("at least 0.008 more", False), ("at most -0.01 less", False),
    ],
)  # fmt: skip
def test_a_goal_limits_a_figure_or_its_relation_to_another(goal, reached):
    assert transfer.is_reached(goal, 0.0125, 0.005) is reached
    with pytest.raises(InputError, match="'about 5': expected at least or at most"):
        transfer.is_reached("about 5", 1, None)


@pytest.mark.parametrize(("module", "program"), [("serving", "wrk"), ("kills", "git")])
def test_a_benchmark_names_the_package_of_a_missing_program(tmp_path, module, program, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [module])
    with pytest.raises(SystemExit, match=r"^2$"):
        import_module(f"benchmarks.{module}").main()
    assert capsys.readouterr() == ("", f"not installed: {program}; on Debian: apt-get install {program}\n")
