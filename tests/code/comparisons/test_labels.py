"""Labels: which comparisons to label next, models of few labels, doubtful labels, and several annotators."""

import json
from dataclasses import replace
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
from tests.families import COLUMNS, feature_table, small_family
from training.comparisons.family import Examples, FeatureTable
from training.comparisons.label_review import (
    ONE_AT_RANDOM,
    UNLABELLED,
    Learnable,
    Pool,
    fit_few_labels,
    label_doubts,
    next_to_label,
    read_training_data,
    suspected_labels,
)
from training.comparisons.stored import TrainedModel
from training.comparisons.train import train
from training.comparisons.tune import tasks_of, tune
from training.registry import champions
from training.registry.champions import Version


def drawn(n=600, groups=60, fails=0.03, seed=0):
    """Comparisons of which the first feature tells most, and the second the rest."""
    generator = np.random.default_rng(seed)
    y = (generator.random(n) < fails).astype(np.int64)
    x = generator.normal(0, 1, (n, 4))
    x[:, 0] -= 3 * y
    x[:, 1] -= 2 * y
    return Examples(x, y, np.array([f"o{number}" for number in generator.integers(0, groups, n)]))


def pool_of(examples, labelled=(), start=None):
    y = np.full(len(examples.y), UNLABELLED)
    y[list(labelled)] = examples.y[list(labelled)]
    return Pool(examples.x, y, examples.groups, -examples.x[:, 0], start)


def mistakes(model, unseen):
    """Return the shares of missed fails and of passes that are judged to fail."""
    judged = model.predict_probability(unseen.x) >= model.threshold
    return np.array([1 - judged[unseen.y == 1].mean(), judged[unseen.y == 0].mean()])


def foreign(*shape, **drawing):
    """Draw comparisons of other operations, such as a champion was trained on."""
    start = drawn(*shape, **drawing)
    return replace(start, groups=np.char.add("s", start.groups))


def fitted(chosen, examples, start=None, seed=0):
    """Fit to the chosen comparisons of all, and to those of a champion."""
    rest = np.delete(examples.x, chosen, axis=0)
    return fit_few_labels(Learnable(examples.select_rows(chosen), start, rest), seed)


def test_suspicious_comparisons_come_first_with_some_random_ones():
    examples = drawn()
    first = next_to_label(pool_of(examples), 25)
    assert len(set(first)) == 25
    assert len(set(examples.groups[first])) >= 20
    at_random = first[ONE_AT_RANDOM - 1 :: ONE_AT_RANDOM]
    suspicious = np.setdiff1d(first, at_random)
    assert first[0] == examples.x[:, 0].argmin()
    assert examples.x[suspicious, 0].max() < np.median(examples.x[:, 0])
    assert examples.y[first].mean() > 5 * examples.y.mean()


def test_then_the_least_certain_comparisons_are_chosen():
    examples = drawn()
    labelled = next_to_label(pool_of(examples), 40)
    then = next_to_label(pool_of(examples, labelled), 20)
    assert not set(then) & set(labelled)
    assert len(set(examples.groups[then])) == 20
    model = fit_few_labels(Learnable(examples.select_rows(np.sort(labelled))), 0)
    sure = np.abs(model.predict_probability(examples.x) - 0.5)
    assert sure[then].mean() < 0.6 * np.delete(sure, np.r_[labelled, then]).mean()


def test_labelling_order_is_deterministic_and_finite():
    examples = drawn(30)
    pool = pool_of(examples, range(24))
    assert next_to_label(pool, 4).tolist() == next_to_label(pool, 4).tolist()
    assert sorted(next_to_label(pool, 100)) == [24, 25, 26, 27, 28, 29]
    assert not len(next_to_label(pool_of(examples, range(30)), 5))


@pytest.mark.slow
def test_chosen_labels_beat_twice_as_many_random_labels():
    missed = {"first": [], "random": []}
    for seed in range(2):
        examples, unseen = drawn(1500, seed=seed), drawn(3000, seed=seed + 50)
        labelled = np.zeros(0, np.int64)
        for _ in range(4):
            labelled = np.r_[labelled, next_to_label(pool_of(examples, labelled), 15)]
        at_random = np.random.default_rng(seed).permutation(1500)[:120]
        for name, chosen in (("first", labelled), ("random", at_random)):
            missed[name].append(mistakes(fitted(chosen, examples, seed=seed), unseen))
    assert np.mean(missed["first"]) < np.mean(missed["random"])


def test_own_passes_keep_a_champion_and_own_fails_improve_it():
    """Own fails show in a feature that those of the champion did not have; without any there is no model."""
    start, own, unseen = foreign(400, seed=7), drawn(800, fails=0.1, seed=8), drawn(3000, seed=9)
    start.x[:, 0] = np.random.default_rng(1).normal(0, 1, 400)
    fails, passes = (np.flatnonzero(own.y == label) for label in (1, 0))
    assert fit_few_labels(Learnable(own.select_rows(passes[:10])), 0) is None
    champion, warm = fit_few_labels(Learnable(start), 0), fitted(passes[:10], own, start)
    assert (warm.predict_probability(unseen.x) == champion.predict_probability(unseen.x)).all()
    assert warm.threshold == champion.threshold
    chosen = np.r_[fails[:12], passes[:38]]
    assert mistakes(fitted(chosen, own, start), unseen).mean() < mistakes(champion, unseen).mean() - 0.02


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_first_labels_keep_the_share_of_fails_unless_they_contradict_it(shift):
    """Shifted by two standard deviations, the champion fails far more of the user's passes than fail."""
    start, own = foreign(400, fails=0.3, seed=7), drawn(1500, seed=8)
    own.x[:, :2] -= shift
    champion = fit_few_labels(Learnable(start), 0)
    probability = champion.predict_probability(own.x)
    chosen = np.argsort(np.abs(probability - champion.threshold))[:60]
    warm = fitted(np.union1d(chosen, np.flatnonzero(own.y == 1)[:15]), own, start)
    share, kept = ((one.predict_probability(own.x) >= one.threshold).mean() for one in (champion, warm))
    assert (abs(kept - share) < 0.01) == (shift == 0), (kept, share)
    assert kept <= share + 0.01


def test_own_rows_are_recognised_where_small_effects_are_left_out():
    """Rows below the minimum effect size are not fitted to, so they do not change the threshold."""
    start, own = foreign(400, fails=0.3, seed=7), drawn(600, fails=0.1, seed=8)
    small = (own.y == 0) & (np.arange(600) % 2 == 0)
    chosen = np.r_[np.flatnonzero(own.y == 1)[:20], np.flatnonzero(own.y == 0)[:60]]
    rest, part = np.delete(own.x, chosen, axis=0), own.select_rows(chosen)
    both = replace(part, below=small[chosen]), part.select_rows(np.flatnonzero(~small[chosen]))
    first, second = (fit_few_labels(Learnable(rows, start, rest), 0) for rows in both)
    assert first.threshold == second.threshold


def test_unlabelled_rows_get_the_label_that_labelled_rows_imply():
    """A third of all fail: were all others to count as passes, the threshold would let most fails pass."""
    missed = []
    for seed in range(3):
        examples, unseen = drawn(900, fails=0.35, seed=seed), drawn(3000, fails=0.35, seed=seed + 50)
        model = fitted(np.random.default_rng(seed).permutation(900)[:80], examples, seed=seed)
        missed.append(mistakes(model, unseen))
    assert np.mean(missed) < 0.06
    assert np.mean(missed, axis=0)[0] < 0.08


def test_training_uses_the_extra_data_beside_the_features(tmp_path):
    """With a start that says the opposite, the same search comes to another model; without, to the same."""
    family = small_family(tmp_path, models=("logistic",))
    table = FeatureTable.read(family.features_file, COLUMNS)
    assert read_training_data(family.features_file, table, table.examples).only_user_labels
    others = feature_table(50, seed=5).drop(columns="status")
    others.to_parquet(family.features_file.with_name("unlabelled.parquet"), index=False)
    assert read_training_data(family.features_file, table, table.examples).only_user_labels
    assert len(read_training_data(family.features_file, table, table.examples, unlabelled=True).rest) == 50
    started = feature_table(400, seed=1)
    started["status"] = np.where(started["status"] == "fail", "pass", "fail")
    started["fold_group"] = "shipped/" + started["fold_group"]
    started.to_parquet(family.features_file.with_name("start.parquet"), index=False)
    known = read_training_data(family.features_file, table, table.examples)
    assert len(known.all_rows.y) == len(table.examples.y) + 400
    folds = [task for task in tasks_of(family, table) if task.part != "all"]
    assert all(len(task.data.user_labels.y) < len(table.examples.y) for task in folds)
    tune(family)
    train(family)
    model = TrainedModel.read(family.paths.models / "logistic")
    failed = table.examples.y == 1
    probability = model.model.predict_proba(table.examples.x)[:, 1]
    assert probability[failed].mean() < probability[~failed].mean()


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Four operations, one of them slower; nothing is labelled, and no model is registered."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'missing.db'}")
    generator = np.random.default_rng(0)
    results = []
    for name, level in (("a", 100), ("b", 100), ("c", 70), ("d", 100)):
        results += rows(name, generator.normal(100, 1, 6)) + rows(name, generator.normal(level, 1, 6), 1)
    tables = ComparisonTables.from_rows(results, [comparison_row(name) for name in "abcd"], [])
    tables.write(tmp_path / "data")
    return tmp_path / "data"


BY_RANK = "most suspicious by a rank statistic, as there is no champion, or drawn at random"


def labels_command(name, *options):
    return run_command(["labels", name, "data", *map(str, options)])


@pytest.mark.parametrize(
    ("labels", "reason"),
    [([], BY_RANK), (["fail"], BY_RANK), (["fail", "pass"], "a model of the labels so far is unsure")],
)
def test_reasons_name_the_order_that_was_used(source, capsys, labels, reason):
    given = [f"id-{name},{status},anna,\n" for name, status in zip("ca", labels, strict=False)]
    (source / "labels.csv").write_text("comparison_id,status,annotator,labelled_at\n" + "".join(given))
    assert labels_command("next", "--json") == 0
    assert {row["reason"] for row in json.loads(capsys.readouterr().out)} == {reason}


def test_labels_next_says_that_no_comparison_needs_a_label(source, capsys):
    given = "".join(f"id-{name},pass,anna,\n" for name in "abcd")
    (source / "labels.csv").write_text("comparison_id,status,annotator,labelled_at\n" + given)
    assert labels_command("next") == 0
    assert capsys.readouterr().out == "No comparison needs a label.\n"
    assert labels_command("next", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


def test_labels_next_refuses_a_champion_that_cannot_be_read(source, tmp_path, monkeypatch, capsys):
    broken = Version("regression-comparison", "1", {}, str(tmp_path / "model"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.skops").write_text("half a mo")
    monkeypatch.setattr(champions, "find_version", lambda _: broken)
    assert labels_command("next") == 2
    assert "model.skops: is not a model" in capsys.readouterr().err


def test_a_filled_in_label_file_is_read_with_data(source, capsys):
    assert labels_command("next", "-n", 4, "-o", source / "labels.csv") == 0
    listed = pd.read_csv(source / "labels.csv").assign(annotator="anna", status=["fail", "pass", None, None])
    assert listed["comparison_id"][0] == "id-c"
    both = pd.concat([listed, listed.assign(annotator="ben", status=["fail", "fail", None, None])])
    both.to_csv(source / "labels.csv", index=False)
    assert labels_command("people") == 0
    told = capsys.readouterr().out
    assert "anna" in told
    assert "1 comparisons on which they don't agree" in told
    assert labels_command("next", "--json") == 0
    assert '"id-c"' not in capsys.readouterr().out


def test_rows_that_are_filled_in_stay_when_written_again(source, capsys):
    file, other = source / "labels.csv", source.parent / "first.csv"
    assert labels_command("next", "-o", file) == 0
    listed = pd.read_csv(file, dtype=str)
    listed.loc[0, ["status", "annotator"]] = ["fail", "anna"]
    listed.to_csv(file, index=False)
    assert labels_command("next", "-o", file) == 0
    again = pd.read_csv(file)
    assert sorted(again["comparison_id"]) == sorted(listed["comparison_id"])
    assert again[["status", "annotator"]].dropna().to_numpy().tolist() == [["fail", "anna"]]
    # in another place, the data do not have these labels yet
    file.rename(other)
    assert labels_command("next", "-o", other) == 0
    assert pd.read_csv(other)["comparison_id"].is_unique
    assert labels_command("next", "-o", file, "--json") == 2
    other.write_text("not,labels\n1,2\n")
    assert labels_command("next", "-o", other) == 2
    assert 'has no column "comparison_id"' in capsys.readouterr().err
    assert other.read_text() == "not,labels\n1,2\n"


#: Of two folds on other scales: the label, and what a model that had not seen it gives.
HELD_OUT = [
    (0, "fail", 0.9), (0, "fail", 0.8), (0, "fail", 0.05),
    (0, "pass", 0.1), (0, "pass", 0.2), (0, "pass", 0.85),
    (1, "fail", 0.4), (1, "fail", 0.3), (1, "pass", 0.1), (1, "pass", 0.38), (1, "pass", 0.0),
]  # fmt: skip


@pytest.fixture
def verdicts():
    """Two models on the same folds; the second agrees with every label but the first wrong one."""
    table = pd.DataFrame(HELD_OUT, columns=["fold", "status", "probability"])
    table["comparison_id"] = [f"c{row:02}" for row in range(len(table))]
    table["verdict"] = (table["probability"] >= 0.25).map({True: "fail", False: "pass"})
    other = table.assign(entry="other", verdict=table["status"])
    other.loc[2, "verdict"] = "pass"
    return pd.concat([table.assign(entry="champion"), other], ignore_index=True)


def test_suspicion_of_a_label_is_the_models_excess_doubt(verdicts):
    known = labelled(("c02", "fail")).assign(labelled_by="anna")
    found = suspected_labels(verdicts, "champion", known)
    assert [(one.comparison_id, one.status, one.labelled_by) for one in found] == [
        ("c02", "fail", "anna"), ("c05", "pass", "unknown"), ("c09", "pass", "unknown"),
    ]  # fmt: skip
    # 0.95 beside the mean of 0.9, 0.8, 0.15; 0.85 beside that of 0.9, 0.8, 0.05; 0.38 beside that of 0.4, 0.3
    assert [one.doubt for one in found] == pytest.approx([1 / 3, 0.8 / 3, 0.03])
    assert found[0].reason == (
        "the champion, trained without this comparison, predicts a fail probability of 0.050",
        "2 of 2 models contradict the label",
    )
    # a fold with one label only yields no doubts
    own = verdicts[(verdicts["entry"] == "champion") & (verdicts["status"] == "pass")]
    assert pd.isna(label_doubts(own)).all()


def test_disputed_comparisons_follow_with_the_label_per_annotator(verdicts):
    people = labelled(("c00", "fail", "anna"), ("c00", "fail", "ben"), ("c00", "pass", "cleo"))
    people["labelled_by"] = people["annotator"]
    last = suspected_labels(verdicts, "champion", people)[-1]
    assert (last.comparison_id, last.doubt, last.labelled_by) == ("c00", 0, "anna, ben, cleo")
    assert last.reason == ("anna, ben voted fail", "cleo voted pass")


def labelled(*rows):
    """Rows of comparison, status, annotator and time, the last two as far as they are given."""
    names = ["comparison_id", "status", "annotator", "labelled_at"]
    return with_dtypes(pd.DataFrame([(*row, None, None)[:4] for row in rows], columns=names), LABEL_DTYPES)


def voted(**votes):
    """``anna="fpp"``: what somebody says of the comparisons 0, 1 and 2; "-" is nothing."""
    said = {"f": "fail", "p": "pass"}
    given = [(f"{at:04}", vote, who) for who, row in votes.items() for at, vote in enumerate(row)]
    return labelled(*((name, said[vote], who) for name, vote, who in given if vote in said))


STATUSES, PEOPLE = ["pass", "fail", "cannot_tell"], [None, "anna", "ben", "carl"]
DAYS = [None, "2026-11-21", "2026-11-22"]
ANSWERS = st.lists(st.tuples(*map(st.sampled_from, ("xyz", STATUSES, PEOPLE, DAYS))), max_size=12)


@settings(max_examples=15)
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


def test_last_labels_count_and_anonymous_ones_before_earlier_votes():
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
    # without shared comparisons there is no reliability
    for labels in (voted(anna="fp"), labelled(("a", "fail"))):
        assert consensus.annotator_reliability(labels, pd.Series(dtype="str")).empty


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Two people who know, and three who always pass."""
    monkeypatch.chdir(tmp_path)
    names = [f"o{number}" for number in range(40)]
    results = [
        row
        for number, name in enumerate(names)
        for order, level in ((0, 100), (1, 100 - 30 * (number % 2)))
        for row in rows(name, np.random.default_rng(number).normal(level, 1, 6), order)
    ]
    said = [(at, who, ("pass", "fail")[at % 2]) for at in range(40) for who in ("anna", "ben")]
    # the last ones are left out by all of the idle, so that reliability can be told
    said += [(at, who, "pass") for at in range(20) for who in ("idle", "idler", "idlest")]
    labels = [{"comparison_id": f"id-o{at}", "annotator": who, "status": status} for at, who, status in said]
    tables = ComparisonTables.from_rows(results, [comparison_row(name) for name in names], labels)
    tables.write(tmp_path / "data")
    return tables


def with_rule(rule):
    ingest = {"format": "tables", "path": "data"}
    section = {"ingest": ingest, "validate": {"consensus": rule}, "tune": {"models": []}}
    Path("params.yaml").write_text(yaml.safe_dump({"seed": 1, "comparisons": section}))


@pytest.mark.parametrize(
    ("rule", "agrees", "other", "fails"),
    [("majority", "idle", "anna", 10), ("dawid-skene", "anna", "idle", 20)],
)
def test_commands_and_order_use_the_projects_consensus_rule(project, capsys, rule, agrees, other, fails):
    with_rule(rule)
    assert labels_command("people", "--json") == 0
    told = json.loads(capsys.readouterr().out)["people"]
    agreement = {one["annotator"]: one["agreement"] for one in told}
    assert agreement[other] < agreement[agrees] == 1
    assert LabelCandidates.from_tables(project, None, rule).pool.y.sum() == fails


def test_without_a_project_the_consensus_is_the_majority(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert consensus_rule() == "majority"
    with_rule("most")
    with pytest.raises(InputError, match=r"params.yaml: comparisons.validate.consensus=.most. is not .major"):
        consensus_rule()
