import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.labels.consensus import (
    Votes,
    annotator_reliability,
    consensus_status,
    dawid_skene,
    disputed_comparisons,
)
from data.comparisons.tables import LABEL_DTYPES, ComparisonTables
from data.errors import InputError
from data.tables.specs import with_dtypes
from serving.cli import run_command
from serving.comparisons.evaluated import consensus_rule
from serving.comparisons.labels.command import LabelCandidates
from tests.code.comparisons.inputs import comparison_row, rows


def labelled(*rows):
    """Rows of comparison, status, annotator and time, the last two as far as they are given."""
    names = ["comparison_id", "status", "annotator", "labelled_at"]
    return with_dtypes(pd.DataFrame([(*row, None, None)[:4] for row in rows], columns=names), LABEL_DTYPES)


def voted(votes):
    """``{"anna": "fpp"}``: what somebody says of the comparisons 0, 1 and 2; "-" is nothing."""
    return labelled(
        *(
            (f"{place:04}", {"f": "fail", "p": "pass"}[said], name)
            for name, row in votes.items()
            for place, said in enumerate(row)
            if said != "-"
        )
    )


ANSWERS = st.lists(
    st.tuples(
        st.sampled_from("xyz"),
        st.sampled_from(["pass", "fail", "cannot_tell"]),
        st.sampled_from([None, "anna", "ben", "carl"]),
        st.sampled_from([None, "2026-11-21", "2026-11-22"]),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(answers=ANSWERS, rule=st.sampled_from(["majority", "dawid-skene"]))
def test_cannot_tell_counts_as_no_label(answers, rule):
    def age(place):
        return answers[place][3] or "", place

    def said_by(place):
        comparison, _, who, _ = answers[place]
        same = [
            other
            for other in range(len(answers))
            if answers[other][0] == comparison and answers[other][2] == who
        ]
        return answers[max(same, key=age)][1] if who else answers[place][1]

    undecided = [
        answer[1] == "cannot_tell" or said_by(at) == "cannot_tell" for at, answer in enumerate(answers)
    ]
    others = labelled(*(answer for answer, left_out in zip(answers, undecided, strict=True) if not left_out))
    table = labelled(*answers)
    status, expected = consensus_status(table, rule), consensus_status(others, rule)
    pd.testing.assert_series_equal(status, expected)
    pd.testing.assert_frame_equal(
        annotator_reliability(table, status), annotator_reliability(others, expected)
    )
    pd.testing.assert_frame_equal(disputed_comparisons(table, status), disputed_comparisons(others, expected))


def test_reliability_and_posterior_match_a_manual_calculation():
    """Three people, two comparisons: given the posterior, every share is a count that a pencil can do."""
    votes = Votes.from_labels(voted({"a": "fp", "b": "fp", "c": "pp"}))
    assert votes.vote_counts.tolist() == [[1, 3], [2, 0]]
    found = dawid_skene(votes)
    q, r = found.posterior
    n_fail, n_pass = q + r, 2 - q - r
    assert found.sensitivity == pytest.approx([(4 + q) / (5 + n_fail)] * 2 + [4 / (5 + n_fail)], abs=1e-6)
    assert found.specificity == pytest.approx(
        [(5 - r) / (5 + n_pass)] * 2 + [(4 + n_pass) / (5 + n_pass)], abs=1e-6
    )
    assert found.prevalence == pytest.approx(n_fail / 2, abs=1e-6)


def test_estimated_reliability_of_annotators_matches_the_simulation():
    generator = np.random.default_rng(3)
    truth = generator.random(4000) < 0.1
    made = {"careful": (0.95, 0.99), "blind": (0.4, 0.995), "nervous": (0.9, 0.85), "dull": (0.7, 0.95)}
    votes = {
        name: np.where(truth, generator.random(4000) < hit, generator.random(4000) > spare)
        for name, (hit, spare) in made.items()
    }
    labels = voted({name: np.where(said, "f", "p") for name, said in votes.items()})
    found = Votes.from_labels(labels)
    estimated = dawid_skene(found)
    told = dict(
        zip(found.people, zip(estimated.sensitivity, estimated.specificity, strict=True), strict=True)
    )
    for name, expected in made.items():
        assert told[name] == pytest.approx(expected, abs=0.06), name
    by_reliability = ((estimated.posterior > 0.5) != truth).mean()
    fails = found.vote_counts[1]
    assert by_reliability < 0.9 * ((fails > 2) != truth).mean()


def test_annotator_reliability_without_any_vote_is_a_value_error():
    with pytest.raises(ValueError, match="no votes"):
        dawid_skene(Votes.from_labels(labelled()))


def test_one_reliable_annotator_outweighs_two_who_always_pass():
    rows = {"good": "fp" * 40, "also good": "fp" * 39 + "-p", "idle": "pp" * 40, "idler": "pp" * 40}
    labels = voted(rows)
    assert consensus_status(labels, "majority")["0078"] == "pass"
    assert consensus_status(labels, "dawid-skene")["0078"] == "fail"


def test_an_anonymous_label_takes_precedence_over_votes():
    labels = labelled(("a", "fail"), ("a", "pass", "anna"), ("a", "pass", "ben"), ("b", "pass", "anna"))
    assert consensus_status(labels, "majority").to_dict() == {"a": "fail", "b": "pass"}


def test_a_later_vote_overrides_an_anonymous_label():
    later = ("a", "pass", "anna", pd.Timestamp("2026-11-22T10:00Z"))
    assert consensus_status(labelled(("a", "fail"), later), "majority").to_dict() == {"a": "pass"}
    settled = ("a", "fail", None, pd.Timestamp("2026-11-23T10:00Z"))
    assert consensus_status(labelled(settled, later), "majority").to_dict() == {"a": "fail"}


def test_only_the_last_label_of_an_annotator_counts():
    early, late = (pd.Timestamp(f"2026-11-2{day}", tz="UTC") for day in (1, 2))
    labels = labelled(("a", "pass", "anna", late), ("a", "fail", "anna", early), ("a", "pass", "ben", early))
    assert Votes.from_labels(labels).vote_counts.tolist() == [[2], [0]]


def test_disagreement_of_annotators_is_kept_and_named():
    labels = voted({"anna": "ffp", "ben": "fpp", "cleo": "fp-", "dora": "-f-"})
    status = consensus_status(labels, "majority")
    assert pd.isna(status["0001"])
    told = disputed_comparisons(labels, status)
    assert told.fillna("").to_dict("records") == [
        {"comparison_id": "0001", "voted_fail": "anna, dora", "voted_pass": "ben, cleo", "status": ""}
    ]
    table = annotator_reliability(labels, status).set_index("annotator")
    assert table["cases"].to_dict() == {"anna": 3, "ben": 3, "cleo": 2, "dora": 1}
    assert table["agreement"].fillna(-1).to_dict() == {"anna": 1, "ben": 1, "cleo": 1, "dora": -1}
    assert table["sensitivity"].between(0, 1).all()


def test_annotators_without_shared_comparisons_have_no_reliability():
    assert annotator_reliability(voted({"anna": "fp"}), pd.Series(dtype="str")).empty
    assert annotator_reliability(labelled(("a", "fail")), pd.Series(dtype="str")).empty


INGEST = {"format": "tables", "path": "data"}


def drawn(seed, level):
    return np.random.default_rng(seed).normal(level, 1, 6)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Two people who know, and three who always pass: most say pass where those who know say fail."""
    monkeypatch.chdir(tmp_path)
    names = [f"o{number}" for number in range(40)]
    results = [
        row
        for number, name in enumerate(names)
        for order in (0, 1)
        for row in rows(
            name, np.random.default_rng(number).normal(100 - 30 * order * (number % 2), 1, 6), order
        )
    ]
    labels = [
        {"comparison_id": f"id-{name}", "status": said, "annotator": who}
        for who, knows in (
            ("anna", True),
            ("ben", True),
            ("idle", False),
            ("idler", False),
            ("idlest", False),
        )
        for number, name in enumerate(names)
        # the last ones are left out by all of the idle, so that reliability can be told
        if knows or number < 20
        for said in ["fail" if knows and number % 2 else "pass"]
    ]
    ComparisonTables.from_rows(results, [comparison_row(name) for name in names], labels).write(
        tmp_path / "data"
    )

    def with_rule(rule):
        section = {"ingest": INGEST, "validate": {"consensus": rule}, "tune": {"models": []}}
        (tmp_path / "params.yaml").write_text(yaml.safe_dump({"seed": 1, "comparisons": section}))

    return with_rule


def test_commands_and_overview_use_the_projects_consensus_rule(project, capsys):
    agreement = {}
    for rule in ("majority", "dawid-skene"):
        project(rule)
        assert run_command(["labels", "people", "data", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        agreement[rule] = {one["annotator"]: one["agreement"] for one in told["people"]}
    assert agreement["majority"]["anna"] < agreement["majority"]["idle"] == 1
    assert agreement["dawid-skene"]["idle"] < agreement["dawid-skene"]["anna"] == 1


def test_labelling_order_uses_the_same_consensus_labels(project):
    tables = ComparisonTables.read(Path("data"))
    found = {
        rule: LabelCandidates.from_tables(tables, None, rule).pool.y.sum()
        for rule in ("majority", "dawid-skene")
    }
    assert found == {"majority": 10, "dawid-skene": 20}


def test_without_a_project_the_consensus_is_the_majority(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert consensus_rule() == "majority"
    (tmp_path / "params.yaml").write_text(
        "seed: 1\ncomparisons: {ingest: {format: tables, path: data}, validate: {consensus: most}, "
        "tune: {models: []}}"
    )
    with pytest.raises(InputError, match=r"params.yaml: comparisons.validate.consensus=.most.: "):
        consensus_rule()


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [(["pass"], "pass"), (["fail", "pass", "fail"], "fail"), (["pass", "fail"], None)],
)
def test_the_majority_of_anonymous_labels_counts(statuses, expected):
    status = consensus_status(labelled(*(("a", status) for status in statuses)), "majority")["a"]
    assert status == expected if expected else pd.isna(status)
