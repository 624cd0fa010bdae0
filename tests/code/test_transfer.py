"""The command of the table of transfer, on questions that are quickly answered."""

import pytest

from benchmarks import transfer
from benchmarks.transfer import TransferRow

ROW = TransferRow("made up", "whole causes", "which", 10, "ours", "mean error", 0.0125, 0.001)


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Return what asks questions that are made up, in a directory with a page of results."""

    def asking(*arguments, **questions):
        monkeypatch.setattr(transfer, "QUESTIONS", questions)
        return transfer.main([str(tmp_path), *arguments])

    (tmp_path / "docs/results").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return asking


def well(shared, seed):
    yield ROW


def badly(shared, seed):
    yield ROW
    raise ValueError(f"nothing in {shared.name}")


def test_answers_of_all_questions_make_the_table(ask, tmp_path):
    assert ask(one=well, other=well) == 0
    page = (tmp_path / "docs/results/transfer.md").read_text()
    assert page.count("| made up | whole causes | which | 10 | ours | mean error | 0.0125 | 0.0010 |") == 2


def test_a_question_that_fails_is_told_beside_the_rows_of_the_others_and_no_table_is_written(
    ask, tmp_path, capsys
):
    assert ask(one=badly, other=well) == 1
    said = capsys.readouterr()
    assert said.err.endswith(f"one failed after 1 rows: ValueError: nothing in {tmp_path.name}\n")
    assert said.out.count("| made up |") == 2
    assert not (tmp_path / "docs/results/transfer.md").exists()


def test_a_single_question_is_printed_only(ask, tmp_path, capsys):
    assert ask("--only", "other", one=badly, other=well) == 0
    assert capsys.readouterr().out.count("| made up |") == 1
    assert not (tmp_path / "docs/results/transfer.md").exists()
