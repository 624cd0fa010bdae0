import json
from functools import partial

import httpx
import pandas as pd
import pytest
import yaml

from data.corun.tables import CorunTables
from serving.corun.body import answer_static, answer_static_batch
from serving.corun.model import load_static
from serving.http.api import create_app
from serving.http.models import all_models
from tests.asking import ask
from tests.commands import perfjudge, perfjudge_process
from tests.system.conftest import Listening
from tests.system.corun.inputs import EVENTS, MACHINE, names, perf_csv, rates, request, true_impact
from tests.system.measuring import needs_corun_programs

run_corun = partial(perfjudge, "corun")
corun_process = partial(perfjudge_process, "corun", OMP_NUM_THREADS="1")


@pytest.fixture(scope="module")
def static(corun_project):
    return corun_project / "models/corun/random-forest"


@pytest.fixture(scope="module")
def online(corun_project):
    return corun_project / "models/corun/online"


def predicted(static, *arguments):
    done = run_corun("static", *arguments, "--model", static, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (one,) = json.loads(done.stdout)["predictions"]
    return one


def added_up(one):
    """Return the impact of the usual co-run of each that is added up, and all that drives it from there."""
    usual = sum(explained["usual_impact"] - 1 for explained in one["drivers_explain"])
    return 1 + usual + sum(driver["contribution"] for driver in one["attributions"])


def width(one):
    return one["high"] / one["low"]


def refused(done, told):
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr


def test_a_known_pair_gets_impact_interval_seconds_and_attributions(static):
    one = predicted(static, "--task", "task-7", "--with", "task-5")
    assert one["low"] < true_impact("task-7", "task-5") < one["high"]
    assert one["low"] < one["impact"] < one["high"]
    assert one["corun_seconds"] == pytest.approx(one["solo_seconds"] * one["impact"])
    assert (one["machine"], one["confidence"], one["notes"]) == (MACHINE, 0.9, [])
    # task-7 suffers more than the usual one, task-5 presses more, and task-1 does not press at all
    (explained,) = one["drivers_explain"]
    assert min(explained["own"], explained["others"]) > 0
    (quiet,) = predicted(static, "--task", "task-7", "--with", "task-1")["drivers_explain"]
    assert quiet["own"] > 0 > quiet["others"]
    assert {driver["feature"].partition("_")[0] for driver in one["attributions"]} == {"own", "others"}
    assert added_up(one) == pytest.approx(one["impact"], rel=1e-9)
    text = run_corun("static", "--task", "task-7", "--with", "task-5", "--model", static).stdout
    assert text.startswith(f"task-7 beside task-5 on {MACHINE}: {one['impact'] - 1:.1%} slower")


def test_requests_of_a_batch_get_the_answers_of_each_alone(static):
    served = load_static(str(static))
    pair = {"task": "task-7", "corunners": ["task-5"]}
    several, mine = pair | {"corunners": ["task-3", "task-5"]}, pair | {"task": "mine"}
    solo = {"task": "mine", "solo_seconds": 3.0, "events": {}}
    requests = [{"coruns": coruns} for coruns in ([pair], [several, pair], [mine])]
    requests.append({"coruns": [mine], "tasks": [solo]})
    bodies = [json.dumps(entry).encode() for entry in requests]
    *answers, bad = answer_static_batch([*bodies, b"{"], served)
    assert [one.content for one in answers] == [answer_static(body, served).content for body in bodies]
    assert "the body is not JSON" in str(bad)


def test_an_unknown_machine_is_noted_and_widens_the_interval(static):
    known = predicted(static, "--task", "task-7", "--with", "task-5")
    elsewhere = predicted(static, "--task", "task-7", "--with", "task-5", "--machine", "other")
    assert elsewhere["impact"] == known["impact"]
    assert width(elsewhere) > width(known)
    assert 'not trained on the machine "other"' in elsewhere["notes"][0]
    assert (elsewhere["solo_seconds"], elsewhere["corun_seconds"]) == (None, None)


def test_attributions_add_up_to_the_impact_of_co_runners(static):
    names = ("task-3", "task-5", "task-7")
    several = predicted(static, "--task", "task-7", "--with", *names)
    assert added_up(several) == pytest.approx(several["impact"], rel=1e-9)
    assert [one["corunners"] for one in several["drivers_explain"]] == [[name] for name in names]
    for name, explained in zip(names, several["drivers_explain"], strict=True):
        alone = predicted(static, "--task", "task-7", "--with", name)
        assert [one for one in several["attributions"] if one["corunners"] == [name]] == alone["attributions"]
        assert [explained] == alone["drivers_explain"]
        sides = explained["usual_impact"] + explained["own"] + explained["others"]
        assert sides == pytest.approx(explained["impact"], rel=1e-9)
        assert explained["model"].startswith("random-forest ")
    said = run_corun("static", "--task", "task-7", "--with", *names, "--model", static).stdout
    assert "task-7 beside task-3: " in said
    assert ", beside task-5 " in said


def test_solo_runs_make_further_tasks_known_with_wider_intervals(static, tmp_path):
    own = {"task": "mine", "machine": MACHINE, "repetition": 1, "solo_seconds": 3.7}
    CorunTables.from_rows([own | {event: 3.7 * rate for event, rate in rates("task-7").items()}], []).write(
        tmp_path
    )
    mine = predicted(static, "--task", "mine", "--with", "task-5", "--tasks", tmp_path)
    same = predicted(static, "--task", "task-7", "--with", "task-5")
    assert mine["impact"] == pytest.approx(same["impact"], rel=0.1)
    assert width(mine) > width(same)
    assert "not trained on mine" in mine["notes"][0]


def test_an_unknown_task_is_refused_with_the_online_model_offered(static):
    done = run_corun("static", "--task", "tusk-7", "--with", "task-5", "--model", static)
    refused(done, 'task "tusk-7"')
    assert 'did you mean "task-7"?' in done.stderr
    assert "perfjudge corun online SOLO.csv CORUN.csv" in done.stderr
    refused(run_corun("static", "--task", "task-7", "--with", "x", "--model", static), 'task "x"')


def test_a_missing_model_or_file_is_named_in_one_line(tmp_path, static):
    refused(run_corun("static", "--task", "a", "--with", "b", "--model", tmp_path), f"{tmp_path}/card.json")
    refused(run_corun("online", "a.csv", "b.csv", "--model", static), "a.csv: cannot be read")


def asked(tmp_path, online, solo, corun, *arguments):
    paths = tmp_path / "solo.csv", tmp_path / "corun.csv"
    for path, text in zip(paths, (solo, corun), strict=True):
        path.write_text(text)
    return run_corun("online", *paths, "--model", online, *arguments)


def test_the_output_of_perf_is_accepted_without_conversion(tmp_path, online):
    done = asked(tmp_path, online, perf_csv("task-7"), perf_csv("task-7", 1.4), "--json")
    told = json.loads(done.stdout)
    assert told["low"] < 1.4 < told["high"]
    assert told["impact"] == pytest.approx(1.4, rel=0.1)
    assert (told["sampled_seconds"], told["notes"]) == (2.0, [])
    assert {driver["feature"] for driver in told["attributions"]} <= set(EVENTS)


@pytest.mark.parametrize(
    ("solo", "corun", "told"),
    [
        ({"uncounted": ["LLC-loads"]}, {}, "solo.csv: did not count 1 of the model's"),
        ({}, {"seconds": 4.0, "skip": [1.0, 1.2, 1.4]}, "corun.csv: has a gap of 0.8 s before 1.6 s"),
    ],
)
def test_a_flaw_in_samples_is_noted_and_widens_the_interval(tmp_path, online, solo, corun, told):
    as_long = {"seconds": corun.get("seconds", 2.0)}
    whole = asked(tmp_path, online, perf_csv("task-7"), perf_csv("task-7", 1.4, **as_long), "--json")
    done = asked(tmp_path, online, perf_csv("task-7", **solo), perf_csv("task-7", 1.4, **corun), "--json")
    answer = json.loads(done.stdout)
    assert sum(told in note for note in answer["notes"]) == 1
    assert width(answer) > width(json.loads(whole.stdout)) - 1e-9
    assert answer["low"] < 1.4 < answer["high"]


def test_swapped_files_are_suspected_and_right_ones_are_not(tmp_path, online):
    alone, together = perf_csv("task-7"), perf_csv("task-7", 1.2)
    question = f"are {tmp_path / 'solo.csv'} and {tmp_path / 'corun.csv'} swapped?"
    (note,) = json.loads(asked(tmp_path, online, together, alone, "--json").stdout)["notes"]
    assert note.endswith(question)
    assert "swapped" not in asked(tmp_path, online, alone, together).stdout


@pytest.mark.parametrize(
    ("corun", "told"),
    [
        (perf_csv("task-7", seconds=0.2), "0.2 s of samples are too few; expected at least 0.4 s"),
        ("clock,value\n1,2\n", "a CSV whose header has t_seconds and events"),
    ],
    ids=["too few", "no perf"],
)
def test_unusable_samples_are_refused_in_one_line(tmp_path, online, corun, told):
    done = asked(tmp_path, online, perf_csv("task-7"), corun)
    refused(done, told)
    assert "corun.csv" in done.stderr


def test_every_task_is_placed_once_and_time_is_saved(static, tmp_path):
    done = run_corun("place", "--machines", 4, "--slots", 2, "--model", static, "--json")
    told = json.loads(done.stdout)
    best, worst = told["placements"][0], told["placements"][-1]
    assert (best["name"], worst["name"], told["exact"]) == ("best", "worst", True)
    for one in told["placements"]:
        assert sorted(task for group in one["groups"] for task in group) == names(8)
        assert best["slowdown"] <= one["slowdown"] <= worst["slowdown"]
    assert best["seconds"] < worst["seconds"]
    for saved, against in (
        (told["saved_against_random"], told["random"]["seconds"]),
        (told["saved_against_worst"], worst["seconds"]),
    ):
        assert saved["seconds"] == pytest.approx(against - best["seconds"])
        assert saved["share"] == pytest.approx(saved["seconds"] / against)
    assert told["random"]["seconds_low"] < told["random"]["seconds"] < told["random"]["seconds_high"]
    said = run_corun("place", "--machines", 4, "--slots", 2, "--model", static).stdout
    saved = told["saved_against_worst"]
    assert f"\n{saved['seconds']:.3g} s ({saved['share']:.1%} of run time) less than the worst (" in said
    assert f"({told['saved_against_random']['share']:.1%} of run time) less than at random (" in said


def test_more_corunners_than_a_request_may_have_are_refused(static):
    many = ("--with", "task-5", *["task-5"] * 63, "--model", static)
    refused(
        run_corun("static", "--task", "task-7", *many), "corunners=a list: List should have at most 63 items"
    )


def test_without_solo_times_only_slow_downs_are_reported(static):
    where = ("--machines", 4, "--slots", 2, "--machine", "other", "--model", static)
    message = f'no task ran alone on "other", but on "{MACHINE}"; name the tasks to place'
    refused(run_corun("place", *where), message)
    arguments = ("place", *names(8), *where)
    told = json.loads(run_corun(*arguments, "--json").stdout)
    assert (told["saved_against_random"], told["saved_against_worst"]) == (None, None)
    assert (told["random"]["seconds"], told["placements"][0]["seconds"]) == (None, None)
    said = run_corun(*arguments).stdout
    assert f"at random {told['random']['mean']:.3f} on average" in said
    assert "run times are unknown" in said
    assert "less than" not in said


def test_a_task_may_be_placed_twice_but_only_into_slots(static):
    twice = run_corun(
        "place", "task-7", "task-7", "task-1", "--machines", 2, "--slots", 2, "--model", static, "--json"
    )
    groups = json.loads(twice.stdout)["placements"][0]["groups"]
    assert ["task-7", "task-7"] not in groups
    refused(
        run_corun("place", *names(8), "--machines", 3, "--slots", 2, "--model", static), "8 tasks don't fit"
    )


@needs_corun_programs
def test_placements_are_really_run_and_compared(tmp_path):
    tasks = [
        {"name": name, "group": "x", "command": ["sh", "-c", f"sleep {seconds}"]}
        for name, seconds in (("long", 0.4), ("short", 0.1))
    ]
    suite = {
        "kind": "corun", "name": "naps", "seed": 1, "foreign": 1.0, "interval": 0.1, "events": ["task-clock"],
        "tasks": tasks,
    }  # fmt: skip
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite))
    groups = {"best": [["long", "short"]], "random-1": [["long"], ["short"]], "worst": [["short", "long"]]}
    placements = [
        {"name": name, "groups": put, "slowdown": 0.0, "seconds": 0.5} for name, put in groups.items()
    ]
    plan = {
        "model": {"name": "m", "version": "1", "uri": "u"}, "machine": "m", "machines": 2, "slots": 2,
        "exact": True, "notes": [],
        "random": {"draws": 1, "mean": 0, "low": 0, "high": 0}, "placements": placements,
    }  # fmt: skip
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    arguments = ("measure", tmp_path / "plan.json", tmp_path / "suite.yaml", "-o", tmp_path / "out")
    done = corun_process(*arguments, "--repetitions", 2)
    assert done.returncode == 0, done.stderr
    rows = pd.read_parquet(tmp_path / "out/placements.parquet")
    assert rows.groupby(["placement", "repetition"]).size().to_dict() == {
        (name, repetition): 2 for name in groups for repetition in (1, 2)
    }
    assert set(rows.loc[rows["placement"] == "random-1", "corunners"]) == {""}
    total = rows.groupby(["placement", "repetition"])["corun_seconds"].sum().groupby(level=0).mean()
    assert (total > 0.5).all()
    assert f"the predicted best took {total['best']:.1f} s of run time in total" in done.stdout.replace(
        "\n", " "
    )
    plan["placements"][0]["groups"] = [["stranger"]]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    refused(corun_process(*arguments), 'task "stranger": is not in the suite')


@pytest.fixture(scope="module")
def server(model_directory, static, online):
    listening = Listening(
        "--model", str(model_directory), "--corun-static", str(static), "--corun-online", str(online)
    )
    yield listening
    listening.stop()


def post(server, what, content, **headers):
    return httpx.post(
        f"{server.url}/v1/corun/{what}",
        content=content if isinstance(content, bytes) else json.dumps(content).encode(),
        headers={"content-type": "application/json"} | headers,
        timeout=120,
    )


def test_the_server_answers_as_the_command_line_does(server, static, online, tmp_path):
    question = {"coruns": [{"task": "task-7", "corunners": ["task-5"]}]}
    answer = post(server, "static", question).json()
    assert answer["predictions"] == [predicted(static, "--task", "task-7", "--with", "task-5")]
    sampled = post(server, "online", request()).json()
    told = json.loads(asked(tmp_path, online, perf_csv("task-7"), perf_csv("task-7", 1.4), "--json").stdout)
    assert sampled["impact"] == pytest.approx(told["impact"], rel=0.02)


QUESTION = {"task": "task-7", "corunners": ["task-5"]}
SOLO = {"task": "mine", "solo_seconds": 1.0, "events": {"page-faults": 1}}
RUN = {"t_seconds": [0.2, 0.4, 0.6], "events": {"page-faults": [1, 2, 3]}}


def solo_run(**changes):
    return {"coruns": [QUESTION], "tasks": [SOLO | changes]}


def sampled(solo=RUN, **changes):
    return {"solo": solo, "corun": RUN | changes}


#: What every family's requests refuse is in the tests of the server.
REFUSED = {
    "no co-runner": ("static", {"coruns": [QUESTION | {"corunners": []}]}, "coruns.0.corunners"),
    "a name that joins two": ("static", solo_run(task="a+b"), "tasks.0.task='a+b'"),
    "a zero duration": ("static", solo_run(solo_seconds=0), "tasks.0.solo_seconds=0"),
    "an unknown key of a run": ("online", sampled(event={}), 'corun.event is unknown; did you mean "e'),
    "no samples": ("online", sampled(t_seconds=[]), "corun.t_seconds"),
    "a count beyond all counters": ("static", solo_run(events={"x": 2**64}), "tasks.0.events.x=18446744"),
    "a sample beyond all counters": ("online", sampled(events={"x": [1, 1e308, 3]}), "events.x.1=1e+308"),
    "a negative sample": ("online", sampled(events={"x": [1, -2, 3]}), "corun.events.x.1=-2"),
}


@pytest.mark.parametrize(("what", "content", "told"), REFUSED.values(), ids=REFUSED)
def test_bad_requests_are_answered_with_problem_details(server, what, content, told):
    answer = post(server, what, content)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert told in answer.json()["detail"]


UNUSABLE = {
    "a count too many": (sampled(RUN | {"t_seconds": [0.2]}), "page-faults: has 3 counts"),
    "an event called t_seconds": (sampled(events={"t_seconds": [1, 2, 3]}), "the column of time"),
    "other events alone": (
        sampled(RUN | {"events": {"page-faults": [1, 2, 3]}}, events={"instructions": [1, 2, 3]}),
        "solo: shares no event with corun that measures progress",
    ),
}


@pytest.mark.parametrize(("content", "told"), UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_samples_are_answered_without_an_impact(server, content, told):
    answer = post(server, "online", content)
    found = answer.json()
    assert (answer.status_code, found["impact"], found["low"], found["high"]) == (200, None, None, None)
    assert told in found["notes"][0]


def test_an_unknown_task_is_noted_beside_other_answers(server):
    asked = {"coruns": [QUESTION, QUESTION | {"task": "x"}]}
    known, unknown = post(server, "static", asked).json()["predictions"]
    assert known["impact"] > 0
    assert (unknown["task"], unknown["impact"], unknown["corun_seconds"]) == ("x", None, None)
    assert 'task "x": has no solo run' in unknown["notes"][0]


def test_progress_is_answered_without_a_champion(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'none.db'}")
    (answer,) = ask(
        create_app(all_models({})), ("POST", "/v1/corun/online", {"json": request()}), started=True
    )
    sampled = answer.json()
    assert (sampled["impact"], sampled["model"]["name"]) == (pytest.approx(1.4, rel=0.1), "progress")
