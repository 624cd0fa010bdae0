"""The command that writes pages of results: which it chooses, and how it reports those that fail."""

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import hypothesis.strategies as st
import pytest
import typer
from hypothesis import given

from benchmarks import pages as module
from benchmarks import transfer
from benchmarks.pages import PAGES, ResultPage, footer
from benchmarks.pages import __main__ as command
from benchmarks.transfer import TransferRow
from data.errors import InputError
from serving.reports.evaluation_files import other_data_rows
from tests.imports import ROOT


@pytest.fixture
def checkout(tmp_path):
    """A repository with one commit of code and no page."""
    root = tmp_path / "project"
    (root / "docs/results").mkdir(parents=True)
    (root / "training").mkdir()
    (root / "training/model.py").write_text("slow = True\n")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    commit(root)
    return root


def commit(root):
    author = ["-c", "user.name=nobody", "-c", "user.email=nobody"]
    subprocess.run(["git", "add", "--all"], cwd=root, check=True)
    subprocess.run(["git", *author, "commit", "--quiet", "--message", "More"], cwd=root, check=True)


def page_of(name, minutes=1.0, run=None, needs=()):
    own = f"echo '# {name}' > docs/results/{name}.md" if run is None else run
    about = {"about": "speed", "data": "made up", "held_out": "nothing", "seed": "1", "section": "Speed"}
    about |= {"figure": "1 s", "figure_source": "seconds"}
    return ResultPage(name=name, command=own, minutes=minutes, needs=needs, **about)


def write_now(root, name):
    page_of(name).path(root).write_text(f"# {name}\n{footer(name, root)}")


def chosen(pages, root):
    return [page.name for page in command.choose_pages(pages, 30, root)]


def test_commands_are_chosen_once_until_the_budget_is_spent(checkout):
    pages = [page_of("long", 20), page_of("short", 2), page_of("longer", 25), page_of("middle", 8)]
    of_the_same_command = replace(pages[1], name="other")
    assert chosen([*pages, of_the_same_command], checkout) == ["short", "middle", "long"]


def test_only_pages_of_changed_or_uncommitted_code_are_chosen(checkout):
    pages = [page_of("first"), page_of("second")]
    write_now(checkout, "first")
    assert chosen(pages, checkout) == ["second"]
    # a page is no code
    commit(checkout)
    assert chosen(pages, checkout) == ["second"]
    (checkout / "training/model.py").write_text("slow = False\n")
    assert {*chosen(pages, checkout)} == {"first", "second"}
    write_now(checkout, "first")
    assert page_of("first").origin(checkout).changed
    commit(checkout)
    assert {*chosen(pages, checkout)} == {"first", "second"}


def test_a_failing_page_is_named_and_others_are_written(checkout, capsys):
    (checkout / "docs/results/broken.md").write_text("as it was\n")
    pages = [
        page_of("broken", run="echo half; echo no data >&2; exit 3"),
        page_of("silent", run="true"),
        page_of("whole"),
    ]
    failures = command.write_pages(pages, checkout)
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
    assert "apt-get install wrk" in failure
    assert "dvc repro" in failure
    assert "idle machine" in failure
    assert not served.path(checkout).exists()
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_names_its_command_origin_and_a_long_time(page):
    title, empty, line = page.path(ROOT).read_text().splitlines()[:3]
    assert title.startswith("# ")
    assert (empty, line) == ("", f"    {page.command}")
    assert page.origin(ROOT) is not None
    assert page.minutes <= command.MINUTES or page.why_long


def test_a_footer_names_day_commit_data_split_and_seed():
    page = next(page for page in PAGES if page.name == "serving")
    said = footer("serving", ROOT)
    assert said.endswith(f" Data: {page.data}. Held out: {page.held_out}. Seed: {page.seed}.\n")
    assert module._FOOTER.search(said)


ROW = TransferRow(
    "corun", "made up", "pairs", 10, "mean error", [0.0125, 0.0135], {"forest": 0.02}, ("forest", 0.02),
    "at most 0.6 times", ["A with B 9 %"],
)  # fmt: skip
SHOWN = (
    "| corun | made up | pairs | 10 | mean error | 1.30 % ± 0.05 % | forest 2.00 % | forest 2.00 % "
    "| at most 0.6 times | no |"
)


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


def test_failing_and_single_questions_are_printed_only(ask, tmp_path, capsys):
    assert ask(one=badly, other=well) == 1
    printed = capsys.readouterr()
    assert printed.err.endswith(f"one failed: ValueError: nothing in {tmp_path.name}\n")
    assert printed.out.count(SHOWN) == 1
    assert ask("--only", "other", one=badly, other=well) == 0
    assert ask("--part", "choose", other=well) == 0
    assert not (tmp_path / "docs/results/transfer.md").exists()
    assert other_data_rows(tmp_path, "corun") == []


def test_an_interrupted_run_keeps_the_questions_it_has_answered(ask):
    assert ask(one=well, other=badly) == 1
    assert ask(one=badly, other=well) == 0


@given(names=st.sets(st.text(min_size=1), min_size=6), report=st.booleans())
def test_the_final_third_is_in_no_choice(names, report):
    final = transfer.Part(Path(), report=True).split_names([*names])[1]
    learned, tested = transfer.Part(Path(), report=report).split_names([*names])
    assert not learned & tested
    assert learned | tested == (names if report else names - final)
    assert len(final) == round(len(names) / 3)


@pytest.mark.parametrize(
    ("goal", "reached"),
    [
        ("at most 0.0125", True),
        ("at most 0.012", False),
        ("at least 2.5 times", True),
        ("at most 2.4 times", False),
        ("at least 0.0075 more", True),
        ("at least 0.008 more", False),
        ("at most 0 less", True),
        ("at most -0.01 less", False),
    ],
)
def test_a_goal_limits_a_figure_or_its_relation_to_another(goal, reached):
    assert transfer.is_reached(goal, 0.0125, 0.005) is reached


def test_an_unreadable_goal_is_an_error():
    with pytest.raises(InputError, match="'about 5': expected at least or at most"):
        transfer.is_reached("about 5", 1, None)


@pytest.mark.parametrize(
    ("module", "program"),
    [("serving", "wrk"), ("kills", "git"), ("pipeline", "git"), ("retraining", "git")],
)
def test_a_benchmark_names_the_package_of_a_missing_program(tmp_path, module, program, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [module])
    with pytest.raises(SystemExit, match=r"^2$"):
        import_module(f"benchmarks.{module}").main()
    assert capsys.readouterr() == ("", f"not installed: {program}; on Debian: apt-get install {program}\n")


def test_an_unknown_part_of_base_rates_is_refused_with_the_choices(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["base_rate", "--part", "other"])
    with pytest.raises(SystemExit, match=r"^2$"):
        typer.run(import_module("benchmarks.base_rate").main)
    assert "'other' is not one of 'choose'" in capsys.readouterr().err
