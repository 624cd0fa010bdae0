import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from data.comparisons.labels import consensus
from data.comparisons.tables import LABEL_DTYPES, ComparisonTables
from data.errors import InputError
from data.tables.specs import with_dtypes
from serving.cli import run_command
from serving.comparisons.evaluated import consensus_rule
from serving.comparisons.labels.review import LabelCandidates
from tests.code.comparisons.inputs import comparison_row, rows


def labelled(*rows):
    """Rows of comparison, status, annotator and time, the last two as far as they are given."""
    names = ["comparison_id", "status", "annotator", "labelled_at"]
    return with_dtypes(pd.DataFrame([(*row, None, None)[:4] for row in rows], columns=names), LABEL_DTYPES)


def voted(**votes):
    """``anna="fpp"``: what somebody says of the comparisons 0, 1 and 2; "-" is nothing."""
    said = {"f": "fail", "p": "pass"}
    return labelled(
        *(
            (f"{place:04}", said[vote], name)
            for name, row in votes.items()
            for place, vote in enumerate(row)
            if vote != "-"
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


@settings(max_examples=25)
@given(answers=ANSWERS, rule=st.sampled_from(["majority", "dawid-skene"]))
def test_cannot_tell_counts_as_no_label(answers, rule):
    def age(place):
        return answers[place][3] or "", place

    def is_undecided(at):
        comparison, said, who, _ = answers[at]
        same = [place for place, one in enumerate(answers) if (one[0], one[2]) == (comparison, who)]
        return "cannot_tell" in (said, answers[max(same, key=age)][1] if who else said)

    decided = labelled(*(answer for at, answer in enumerate(answers) if not is_undecided(at)))
    table = labelled(*answers)
    status, expected = consensus.consensus_status(table, rule), consensus.consensus_status(decided, rule)
    pd.testing.assert_series_equal(status, expected)
    for derived in (consensus.annotator_reliability, consensus.disputed_comparisons):
        pd.testing.assert_frame_equal(derived(table, status), derived(decided, expected))


def test_reliability_and_posterior_match_a_manual_calculation():
    """Three people, two comparisons: given the posterior, every share is a count that a pencil can do."""
    votes = consensus.Votes.from_labels(voted(a="fp", b="fp", c="pp"))
    assert votes.vote_counts.tolist() == [[1, 3], [2, 0]]
    found = consensus.dawid_skene(votes)
    q, r = found.posterior
    fails, passes = q + r, 2 - q - r
    assert found.sensitivity == pytest.approx([(4 + q) / (5 + fails)] * 2 + [4 / (5 + fails)], abs=1e-6)
    specificity = [(5 - r) / (5 + passes)] * 2 + [(4 + passes) / (5 + passes)]
    assert found.specificity == pytest.approx(specificity, abs=1e-6)
    assert found.prevalence == pytest.approx(fails / 2, abs=1e-6)


def test_estimated_reliability_of_annotators_matches_the_simulation():
    generator = np.random.default_rng(3)
    truth = generator.random(4000) < 0.1
    made = {"careful": (0.95, 0.99), "blind": (0.4, 0.995), "nervous": (0.9, 0.85), "dull": (0.7, 0.95)}
    votes = {}
    for name, (hit, spare) in made.items():
        fails = np.where(truth, generator.random(4000) < hit, generator.random(4000) > spare)
        votes[name] = np.where(fails, "f", "p")
    found = consensus.Votes.from_labels(voted(**votes))
    estimated = consensus.dawid_skene(found)
    for name, *told in zip(found.people, estimated.sensitivity, estimated.specificity, strict=True):
        assert told == pytest.approx(made[name], abs=0.06), name
    by_reliability = ((estimated.posterior > 0.5) != truth).mean()
    assert by_reliability < 0.9 * ((found.vote_counts[1] > 2) != truth).mean()
    with pytest.raises(ValueError, match="no votes"):
        consensus.dawid_skene(consensus.Votes.from_labels(labelled()))


def test_one_reliable_annotator_outweighs_two_who_always_pass():
    labels = voted(good="fp" * 40, also_good="fp" * 39 + "-p", idle="pp" * 40, idler="pp" * 40)
    assert consensus.consensus_status(labels, "majority")["0078"] == "pass"
    assert consensus.consensus_status(labels, "dawid-skene")["0078"] == "fail"


def test_an_anonymous_label_takes_precedence_over_earlier_votes_only():
    def majority(*rows):
        return consensus.consensus_status(labelled(*rows), "majority").fillna("").to_dict()

    votes = ("a", "pass", "anna"), ("a", "pass", "ben"), ("b", "pass", "anna")
    assert majority(("a", "fail"), *votes) == {"a": "fail", "b": "pass"}
    later = ("a", "pass", "anna", pd.Timestamp("2026-11-22T10:00Z"))
    assert majority(("a", "fail"), later) == {"a": "pass"}
    assert majority(("a", "fail", None, pd.Timestamp("2026-11-23T10:00Z")), later) == {"a": "fail"}
    # of several, most decide
    assert majority(("a", "fail"), ("a", "pass"), ("a", "fail"), ("b", "pass")) == {"a": "fail", "b": "pass"}
    assert majority(("a", "pass"), ("a", "fail")) == {"a": ""}


def test_only_the_last_label_of_an_annotator_counts():
    early, late = (pd.Timestamp(f"2026-11-2{day}", tz="UTC") for day in (1, 2))
    labels = labelled(("a", "pass", "anna", late), ("a", "fail", "anna", early), ("a", "pass", "ben", early))
    assert consensus.Votes.from_labels(labels).vote_counts.tolist() == [[2], [0]]


def test_disagreement_of_annotators_is_kept_and_named():
    labels = voted(anna="ffp", ben="fpp", cleo="fp-", dora="-f-")
    status = consensus.consensus_status(labels, "majority")
    assert pd.isna(status["0001"])
    told = consensus.disputed_comparisons(labels, status)
    assert told.fillna("").to_dict("records") == [
        {"comparison_id": "0001", "voted_fail": "anna, dora", "voted_pass": "ben, cleo", "status": ""}
    ]
    table = consensus.annotator_reliability(labels, status).set_index("annotator")
    assert table["cases"].to_dict() == {"anna": 3, "ben": 3, "cleo": 2, "dora": 1}
    assert table["agreement"].fillna(-1).to_dict() == {"anna": 1, "ben": 1, "cleo": 1, "dora": -1}
    assert table["sensitivity"].between(0, 1).all()


def test_annotators_without_shared_comparisons_have_no_reliability():
    for labels in (voted(anna="fp"), labelled(("a", "fail"))):
        assert consensus.annotator_reliability(labels, pd.Series(dtype="str")).empty


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Two people who know, and three who always pass: most say pass where those who know say fail."""
    monkeypatch.chdir(tmp_path)
    names = [f"o{number}" for number in range(40)]
    results = []
    for number, name in enumerate(names):
        for order, level in ((0, 100), (1, 100 - 30 * (number % 2))):
            results += rows(name, np.random.default_rng(number).normal(level, 1, 6), order)
    knowing = {"anna": True, "ben": True, "idle": False, "idler": False, "idlest": False}
    labels = [
        {
            "comparison_id": f"id-{name}",
            "annotator": who,
            "status": "fail" if knows and number % 2 else "pass",
        }
        for who, knows in knowing.items()
        for number, name in enumerate(names)
        # the last ones are left out by all of the idle, so that reliability can be told
        if knows or number < 20
    ]
    tables = ComparisonTables.from_rows(results, [comparison_row(name) for name in names], labels)
    tables.write(tmp_path / "data")
    return with_rule


def with_rule(rule):
    ingest = {"format": "tables", "path": "data"}
    section = {"ingest": ingest, "validate": {"consensus": rule}, "tune": {"models": []}}
    Path("params.yaml").write_text(yaml.safe_dump({"seed": 1, "comparisons": section}))


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
    for rule, fails in (("majority", 10), ("dawid-skene", 20)):
        assert LabelCandidates.from_tables(tables, None, rule).pool.y.sum() == fails


def test_without_a_project_the_consensus_is_the_majority(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert consensus_rule() == "majority"
    with_rule("most")
    with pytest.raises(
        InputError, match=r"params.yaml: comparisons.validate.consensus=.most. is not .majority. or "
    ):
        consensus_rule()
