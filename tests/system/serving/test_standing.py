"""A person makes a version champion, or brings the one of before back, or moves the alias by hand."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from data.errors import InputError
from serving.comparisons.model import load_judge
from serving.promotion.decisions import promote, rollback
from tests.commands import perfjudge
from tests.system.conftest import MLFLOW_WARNINGS, refused
from tests.system.serving.registry import NAME, registry_in, truncate, with_a_feature_of_tomorrow
from training.registry.champions import CHALLENGER, CHAMPION, find_version, version_of
from training.registry.promotion_history import (
    BY_HAND,
    ChampionRecord,
    challenger_reason,
    champion_reason,
    promote_version,
    read_promotions,
    sync_if_moved,
)

pytestmark = MLFLOW_WARNINGS


@pytest.fixture(scope="module")
def kept(tmp_path_factory, empty_store):
    """A store with three versions, and one that cannot be loaded, and one that answers no question."""
    with registry_in(tmp_path_factory.mktemp("store"), empty_store) as registry:
        for _ in range(3):
            registry.add()
        registry.add(spoil=lambda directory: truncate(directory / "card.json"))
        registry.add(spoil=with_a_feature_of_tomorrow)
        yield registry


@pytest.fixture
def store(kept):
    """The same, with the first version as champion and nothing before it."""
    store = kept.store
    for tag in store.get_registered_model(NAME).tags:
        store.delete_registered_model_tag(NAME, tag)
    for found in store.search_model_versions(f"name = '{NAME}'"):
        for tag in set(found.tags) - {"files_digest", "model"}:
            store.delete_model_version_tag(NAME, found.version, tag)
    store.delete_registered_model_alias(NAME, CHALLENGER)
    kept.lead("1")
    return store


def borne():
    found = (version_of(NAME, alias) for alias in (CHAMPION, CHALLENGER))
    return tuple(None if one is None else one.version for one in found)


def standings(store):
    found = store.search_model_versions(f"name = '{NAME}'")
    return {int(one.version): one.tags["role"] for one in found if "role" in one.tags}


def test_each_rollback_goes_one_champion_further_back(store):
    told = promote(NAME, "2", "  quieter on\n noisy suites ", "anna").summary
    where = f"{NAME} v2 is champion in place of v1, which is challenger now"
    assert told.startswith(f"{where}: promoted by anna on ")
    assert told.endswith(": quieter on noisy suites")
    assert (borne(), load_judge().ref.version) == (("2", "1"), "2")
    promote(NAME, "v3", "even quieter", "bert")
    assert standings(store) == {1: "former champion", 2: "challenger", 3: "champion"}

    assert rollback(NAME, "misses pauses", "anna").summary.startswith(f"{NAME} v2 is champion in place of v3")
    assert (borne(), load_judge().ref.version) == (("2", "3"), "2")
    assert champion_reason(version_of(NAME, CHAMPION)).endswith(": misses pauses")
    assert challenger_reason(version_of(NAME, CHALLENGER)) == "anna preferred v2: misses pauses"
    rollback(NAME, "so does this one")
    assert borne() == ("1", "2")
    with pytest.raises(InputError, match=f"{NAME} had no champion before v1"):
        rollback(NAME, "once more")
    assert [one.version for one in read_promotions(NAME)] == ["1", "2", "3", "2", "1"]
    assert standings(store) == {1: "champion", 2: "challenger", 3: "former champion"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((NAME, "best", "none"), 'version "best" of regression-comparison is not a number'),
        (("regresion-comparison", "2", "none"), 'model "regresion-comparison" is unknown; did you mean "reg'),
        ((NAME, "2", " "), "--reason: 0 letters; expected the reasons for v2 in 1 to 2000 letters"),
        ((NAME, "4", "half a card"), "card.json"),
        ((NAME, "5", "of tomorrow"), "'medians_tomorrow' is no longer computed"),
    ],
)
def test_an_unusable_version_is_not_promoted(store, arguments, told):
    with pytest.raises(InputError) as caught:
        promote(*arguments)
    assert told in str(caught.value)
    assert borne() == ("1", None)


@pytest.mark.parametrize("by", ["a" * 65, "an\x1b[1mna", "an\u202ena"])
def test_a_decision_by_an_invalid_name_changes_nothing(store, by):
    promote(NAME, "2", "better", "anna")
    before = store.get_registered_model(NAME)
    for decide in (lambda: promote(NAME, "3", "better", by), lambda: rollback(NAME, "worse", by)):
        with pytest.raises(InputError) as caught:
            decide()
        told = r"--by='[ -~]{1,80}' is not a name of 1 to 64 visible characters"
        assert re.fullmatch(told, str(caught.value))
    after = store.get_registered_model(NAME)
    assert (borne(), after.tags, after.aliases) == (("2", "1"), before.tags, before.aliases)


def test_only_one_of_several_decisions_at_once_is_made(store):
    sync_if_moved(NAME)

    def decide(version):
        try:
            promote_version(NAME, version, ChampionRecord(version, "promote", "first come", "anna"), "1")
        except InputError as exc:
            return str(exc)
        return ""

    with ThreadPoolExecutor(4) as people:
        outcomes = list(people.map(decide, ["2", "3", "2", "3"]))
    assert outcomes.count("") == 1
    champion = version_of(NAME, CHAMPION).version
    told = f"v{champion} is champion of {NAME} meanwhile (promoted by anna"
    assert all(told in one for one in outcomes if one)
    assert [one.version for one in read_promotions(NAME)] == ["1", champion]


def test_a_manually_moved_alias_can_be_rolled_back(store):
    promote(NAME, "2", "better", "anna")
    for version in ("1", "3"):
        # version 1 was champion before, version 3 never
        store.set_registered_model_alias(NAME, CHAMPION, version)
        if version == "1":
            assert champion_reason(version_of(NAME, CHAMPION)) == BY_HAND
        sync_if_moved(NAME)
        assert champion_reason(version_of(NAME, CHAMPION)).startswith("moved by somebody on ")
        assert champion_reason(version_of(NAME, CHAMPION)).endswith(f": {BY_HAND}")
    assert standings(store) == {1: "challenger", 2: "former champion", 3: "champion"}
    assert read_promotions(NAME)[-1].summary_line.startswith("moved by somebody on ")
    rollback(NAME, "nobody said why")
    assert borne() == ("1", "3")


def test_the_command_line_promotes_and_rolls_back(store):
    done = perfjudge("promote", NAME, "2", "--reason", "better", "--by", "anna", "--json")
    assert (done.returncode, json.loads(done.stdout)["promotion"]["reason"]) == (0, "better")
    done = perfjudge("rollback", NAME, "--reason", "worse\u202eafter all")
    assert (done.returncode, f"{NAME} v1 is champion in place of v2" in done.stdout) == (0, True)
    assert r"worse\u202eafter all" in done.stdout
    refused(perfjudge("rollback", NAME, "--reason", "more"), f"perfjudge: {NAME} had no champion before v1\n")
    assert find_version(f"models:/{NAME}/1").tags["champion_way"] == "rollback"
    assert borne() == ("1", "2")
