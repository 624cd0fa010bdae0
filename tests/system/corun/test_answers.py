import json
import os
import sys
from contextlib import nullcontext
from functools import partial
from itertools import product

import httpx
import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from data.corun.tables import SAMPLE_DTYPES, CorunTables
from data.errors import InputError
from serving.corun.body import answer_static, answer_static_batch
from serving.corun.model import load_static
from serving.corun.schemas import CorunQuestion
from serving.corun.solo_runs import load_with_solo_runs
from serving.corun.static import Static, predict_corun
from serving.http.api import create_app
from serving.http.models import all_models
from serving.http.schemas import RefusedError
from tests.asking import ask
from tests.commands import perfjudge, perfjudge_process
from tests.system.conftest import Listening, problem, refused
from tests.system.corun.inputs import EVENTS, MACHINE, names, perf_csv, rates, request, true_impact
from tests.system.measuring import needs_corun_programs

run_corun = partial(perfjudge, "corun")
corun_process = partial(perfjudge_process, "corun", OMP_NUM_THREADS="1")


@pytest.fixture(scope="module")
def static(corun_project):
    return corun_project / "models/corun/random-forest"


@pytest.fixture(scope="module")
def served_static(static):
    return load_static(str(static))


@pytest.fixture(scope="module")
def online(corun_project):
    return corun_project / "models/corun/online"


@pytest.fixture
def no_champion(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'none.db'}")


def predicted(static, task, *corunners, further=()):
    options = ("--task", task, "--with", *corunners, "--model", static, *further)
    done = run_corun("static", *options, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (one,) = json.loads(done.stdout)["predictions"]
    return one, run_corun("static", *options).stdout


def added_up(one):
    """Return the impact of the usual co-run of each that is added up, and all that drives it from there."""
    usual = sum(explained["usual_impact"] - 1 for explained in one["drivers_explain"])
    return 1 + usual + sum(driver["contribution"] for driver in one["attributions"])


def width(one):
    return one["high"] / one["low"]


def test_a_known_pair_gets_impact_interval_seconds_and_attributions(static):
    one, text = predicted(static, "task-7", "task-5")
    assert one["low"] < true_impact("task-7", "task-5") < one["high"]
    assert one["low"] < one["impact"] < one["high"]
    assert one["corun_seconds"] == pytest.approx(one["solo_seconds"] * one["impact"])
    assert (one["machine"], one["confidence"], one["notes"]) == (MACHINE, 0.9, [])
    # task-7 suffers more than the usual one, task-5 presses more, and task-1 does not press at all
    (explained,) = one["drivers_explain"]
    assert min(explained["own"], explained["others"]) > 0
    (quiet,) = predicted(static, "task-7", "task-1")[0]["drivers_explain"]
    assert quiet["own"] > 0 > quiet["others"]
    assert {driver["feature"].partition("_")[0] for driver in one["attributions"]} == {"own", "others"}
    assert added_up(one) == pytest.approx(one["impact"], rel=1e-9)
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


def test_an_unknown_machine_or_task_is_noted_and_widens_the_interval(static, tmp_path):
    known, _ = predicted(static, "task-7", "task-5")
    elsewhere, _ = predicted(static, "task-7", "task-5", further=("--machine", "other"))
    assert elsewhere["impact"] == known["impact"]
    assert 'not trained on the machine "other"' in elsewhere["notes"][0]
    assert (elsewhere["solo_seconds"], elsewhere["corun_seconds"]) == (None, None)
    own = {"task": "mine", "machine": MACHINE, "repetition": 1, "solo_seconds": 3.7}
    own |= {event: 3.7 * rate for event, rate in rates("task-7").items()}
    CorunTables.from_rows([own], []).write(tmp_path)
    mine, _ = predicted(static, "mine", "task-5", further=("--tasks", tmp_path))
    assert mine["impact"] == pytest.approx(known["impact"], rel=0.1)
    assert "not trained on mine" in mine["notes"][0]
    assert min(width(elsewhere), width(mine)) > width(known)


def mine(**changes):
    return {
        "task": "mine",
        "machine": MACHINE,
        "repetition": 1,
        "solo_seconds": 3.7,
        "page-faults": 5.0,
        **changes,
    }


STATIC_MINE = ("static", "--task", "mine", "--with", "task-5")
PLACE = ("place", "mine", "task-5", "--machines", 1, "--slots", 2)
MINE = f'machine "{MACHINE}" task "mine" repetition 1'
FLAWED_SOLO_RUNS = {
    f"tasks.parquet {MINE}: solo_seconds=-1 must be above 0 and finite": ([mine(solo_seconds=-1.0)], ()),
    f"tasks.parquet {MINE}: solo_seconds=inf must be": ([mine(solo_seconds=np.inf)], ()),
    f"tasks.parquet {MINE}: has no solo_seconds": ([mine(solo_seconds=np.nan)], ()),
    f"tasks.parquet {MINE}: page-faults=-5 must be 0 or more": ([mine(**{"page-faults": -5.0})], ()),
    f"tasks.parquet {MINE}: page-faults=inf must be": ([mine(**{"page-faults": np.inf})], ()),
    **{
        f"tasks.parquet {MINE}: solo_seconds={seconds:g} must be between 1e-06 and 1e+09": (
            [mine(solo_seconds=seconds)],
            (),
        )
        for seconds in (1e-300, 1e300)
    },
    f"tasks.parquet {MINE}: page-faults=1.84467e+19 must be below 2^64": (
        [mine(**{"page-faults": 2.0**64})],
        (),
    ),
    f"tasks.parquet {MINE}: occurs twice": ([mine(), mine(solo_seconds=9.0)], ()),
    "tasks.parquet tasks row 0: has no task": ([mine(task=None)], ()),
    f'hosts.parquet machine "{MACHINE}": occurs twice': ([mine()], [{"machine": MACHINE}] * 2),
}


@pytest.mark.parametrize("command", [STATIC_MINE, PLACE])
@pytest.mark.parametrize(("message", "rows"), FLAWED_SOLO_RUNS.items())
def test_flawed_solo_runs_of_more_tasks_are_refused(static, tmp_path, command, message, rows):
    tasks, hosts = rows
    CorunTables.from_rows(tasks, [], [], hosts).write(tmp_path)
    refused(run_corun(*command, "--model", static, "--tasks", tmp_path), f"{tmp_path}/{message}")


def test_events_of_more_tasks_that_the_model_does_not_use_are_noted(static, tmp_path):
    CorunTables.from_rows([mine(nonsense=1.0, cycles=2.0)], []).write(tmp_path)
    note = f"{tmp_path}: events that the model does not use: nonsense, cycles"
    for command in (STATIC_MINE, PLACE):
        options = (*command, "--model", static, "--tasks", tmp_path)
        assert json.loads(run_corun(*options, "--json").stdout)["notes"][0] == note
        assert f"note: {note}\n" in run_corun(*options).stdout


def test_a_solo_run_elsewhere_keeps_the_default_machine(static):
    served = load_static(str(static))
    pair = {"task": "task-7", "corunners": ["task-5"]}
    elsewhere = {"task": "mine", "machine": "other", "solo_seconds": 3.0, "events": {}}
    bodies = [{"coruns": [pair]}, {"coruns": [pair], "tasks": [elsewhere]}]
    answers = [json.loads(answer_static(json.dumps(body).encode(), served).content) for body in bodies]
    assert answers[0]["predictions"] == answers[1]["predictions"]
    assert answers[0]["predictions"][0]["machine"] == MACHINE


def test_events_of_solo_runs_may_have_synonyms_and_unused_ones_are_named(static):
    served = load_static(str(static))
    counts = {event: 3.7 * rate for event, rate in rates("task-7").items()}
    underscores = {event.replace("-", "_"): count for event, count in counts.items()}
    others = {"nonsense": 1.0, f"{next(iter(counts))}:u": 5.0}

    def answer(events):
        solo = {"task": "mine", "solo_seconds": 3.7, "events": events}
        body = {"coruns": [{"task": "mine", "corunners": ["task-5"]}], "tasks": [solo]}
        content = json.loads(answer_static(json.dumps(body).encode(), served).content)
        return content["predictions"][0]["impact"], content["notes"]

    impact, notes = answer(counts)
    assert notes == []
    assert answer(underscores) == (impact, [])
    named = ", ".join(others)
    assert answer(counts | others) == (impact, [f"tasks[0]: events that the model does not use: {named}"])
    assert answer({})[0] != impact


@pytest.mark.parametrize(
    "spell",
    [
        str,
        str.upper,
        lambda event: event.replace("-", "_"),
        lambda event: {"instructions": "inst_retired.any", "page-faults": "faults"}.get(event, event),
    ],
    ids=["as the model", "capitals", "underscores", "synonyms"],
)
def test_tables_and_requests_get_equal_answers_for_any_spelling_of_events(static, tmp_path, spell):
    counts = {event: 3.7 * rate for event, rate in rates("task-7").items()}
    unused = {"nonsense": 1e9, "instructions:u": 5.0}
    events = {spell(event): count for event, count in counts.items()} | unused
    CorunTables.from_rows([mine(**{"page-faults": None}) | events], []).write(tmp_path)
    pair = {"task": "mine", "corunners": ["task-5"]}
    served = load_with_solo_runs(str(static), tmp_path)
    assert served.known_tasks.counted_events == list(EVENTS)
    tables = predict_corun(CorunQuestion(**pair), served)
    solo = {"task": "mine", "solo_seconds": 3.7}
    answers = []
    for given in (events, counts):
        body = json.dumps({"coruns": [pair], "tasks": [solo | {"events": given}]}).encode()
        answers.append(json.loads(answer_static(body, load_static(str(static))).content))
    assert tables.model_dump(mode="json")["predictions"] == answers[0]["predictions"]
    assert answers[0]["predictions"] == answers[1]["predictions"]
    assert tables.notes == [f"{tmp_path}: events that the model does not use: {', '.join(unused)}"]


@pytest.mark.parametrize("number", [1, 40])
def test_solo_runs_of_tasks_without_a_corun_change_nothing_but_the_notes(static, number):
    served = load_static(str(static))
    (known,) = served.known_tasks.tasks_by_machine
    body = {"coruns": [{"task": "task-3", "corunners": ["task-5"]}]}
    others = [{"task": f"x{at}", "solo_seconds": 1000.0, "events": {EVENTS[0]: 1e9}} for at in range(number)]
    plain, answer = (
        json.loads(answer_static(json.dumps(body | {"tasks": tasks}).encode(), served).content)
        for tasks in ([], others)
    )
    assert answer["predictions"] == plain["predictions"]
    assert answer["notes"] == [
        *(f'tasks[{at}] is not used: no co-run has "x{at}"' for at in range(number)),
        *plain["notes"],
    ]
    again = [{"task": "task-3", "solo_seconds": 99.0, "events": dict.fromkeys(EVENTS, 1.0)}]
    answer = json.loads(answer_static(json.dumps(body | {"tasks": again}).encode(), served).content)
    assert answer["notes"][0] == f'tasks[0] replaces the model\'s solo run of "task-3" on "{known}"'


POSTED = st.sampled_from(["mine", "other", "task-3", "task-5"])


@hypothesis.given(
    coruns=st.lists(
        st.tuples(
            st.sampled_from(["mine", "other", "task-3", "task-7"]), st.lists(POSTED, min_size=1, max_size=2)
        ),
        min_size=1,
        max_size=6,
    ),
    runs=st.lists(st.tuples(POSTED, st.sampled_from([0.01, 3.7, 900.0]), st.booleans()), max_size=6),
)
@hypothesis.settings(max_examples=40)
def test_predictions_for_coruns_do_not_depend_on_other_coruns(served_static, coruns, runs):
    (known,) = served_static.known_tasks.tasks_by_machine
    tasks = [
        {
            "task": task,
            "machine": known if is_known else "elsewhere",
            "solo_seconds": seconds,
            "events": rates("task-2"),
        }
        for task, seconds, is_known in runs
    ]
    asked = [{"task": task, "corunners": others, "machine": known} for task, others in coruns]

    def predictions(asked):
        body = json.dumps({"coruns": asked, "tasks": tasks}).encode()
        found = json.loads(answer_static(body, served_static).content)["predictions"]
        # the note on an unknown task names those that are known
        return [one if one["impact"] else one | {"notes": len(one["notes"])} for one in found]

    assert predictions(asked) == [one for corun in asked for one in predictions([corun])]


@pytest.mark.parametrize("seconds", [9e-7, 1e-6, 1e9, 2e9])
@pytest.mark.parametrize("count", [0.0, np.nextafter(2.0**64, 0), 2.0**64])
def test_tables_and_requests_have_equal_limits(static, tmp_path, seconds, count):
    CorunTables.from_rows([mine(solo_seconds=seconds, nonsense=count)], []).write(tmp_path)
    solo = {"task": "mine", "solo_seconds": seconds, "events": {"nonsense": count}}
    body = json.dumps({"coruns": [{"task": "mine", "corunners": ["task-5"]}], "tasks": [solo]}).encode()
    is_valid = 1e-6 <= seconds <= 1e9 and count < 2**64
    for answer in (
        lambda: load_with_solo_runs(str(static), tmp_path),
        lambda: answer_static(body, load_static(str(static))),
    ):
        with nullcontext() if is_valid else pytest.raises((InputError, RefusedError)):
            answer()


@pytest.mark.parametrize(
    ("missing", "names"),
    [
        ([], None),
        (["LLC-loads"], "1 of the model's 10 events (LLC-loads)"),
        (EVENTS[-5:], f"5 of the model's 10 events ({', '.join(EVENTS[-5:-1])} and 1 more)"),
    ],
)
@pytest.mark.parametrize("repetitions", [1, 2])
def test_uncounted_events_of_added_solo_runs_are_named(static, tmp_path, missing, names, repetitions):
    counts = {event: 3.7 * rate for event, rate in rates("task-7").items()}
    counts |= dict.fromkeys(missing)
    # an event counted in one of several runs is known
    runs = [counts, dict.fromkeys(EVENTS)][:repetitions]
    rows = [mine(repetition=number) | events for number, events in enumerate(runs, 1)]
    CorunTables.from_rows(rows, []).write(tmp_path)
    pair = {"task": "mine", "corunners": ["task-5"]}
    solos = [{"task": "mine", "solo_seconds": 3.7, "events": events} for events in runs]
    body = json.dumps({"coruns": [pair], "tasks": solos}).encode()
    answers = {
        tmp_path: predict_corun(CorunQuestion(**pair), load_with_solo_runs(str(static), tmp_path)).notes,
        "tasks": json.loads(answer_static(body, load_static(str(static))).content)["notes"],
    }
    end = "for mine; the model fills them in, and intervals are not wider for it"
    for source, notes in answers.items():
        assert notes == ([f"{source}: lacks counts of {names} {end}"] if names else [])


def test_attributions_add_up_to_the_impact_of_co_runners(static):
    names = ("task-3", "task-5", "task-7")
    several, text = predicted(static, "task-7", *names)
    assert added_up(several) == pytest.approx(several["impact"], rel=1e-9)
    assert [one["corunners"] for one in several["drivers_explain"]] == [[name] for name in names]
    for name, explained in zip(names, several["drivers_explain"], strict=True):
        alone, _ = predicted(static, "task-7", name)
        assert [one for one in several["attributions"] if one["corunners"] == [name]] == alone["attributions"]
        assert [explained] == alone["drivers_explain"]
        sides = explained["usual_impact"] + explained["own"] + explained["others"]
        assert sides == pytest.approx(explained["impact"], rel=1e-9)
        assert explained["model"].startswith("random-forest ")
    assert "task-7 beside task-3: " in text
    assert ", beside task-5 " in text


@pytest.mark.parametrize("alone", [[0.9, 0.8], [0.8, 0.9, 1.02], [1.1, 0.95], [1.1, 1.2], [0.9, 0.9]])
def test_explained_impacts_add_up_also_where_speed_ups_do_not(static, monkeypatch, alone):
    impacts = {f"task-{number}": impact for number, impact in enumerate(alone)}
    monkeypatch.setattr(Static, "predict_impacts", lambda *_: np.array(alone))
    answer = predict_corun(CorunQuestion(task="task-7", corunners=[*impacts]), load_static(str(static)))
    (one,) = answer.predictions
    assert 0 < one.low <= one.impact <= one.high
    explained = [name for row in one.drivers_explain for name in row.corunners]
    assert one.impact == pytest.approx(1 + sum(impacts[name] - 1 for name in explained))
    assert {driver.corunners[0] for driver in one.attributions} <= set(explained)
    assert {name for name, impact in impacts.items() if impact >= 1} <= set(explained)


def test_drivers_of_a_short_co_run_multiply_to_the_slow_down(online, tmp_path):
    paths, seconds = [tmp_path / "solo.csv", tmp_path / "corun.csv"], (10, 3)
    for path, lasted, rate in zip(paths, seconds, (1_000_000_000, 200_000_000), strict=True):
        rows = (
            f"{second}.0,{count},{unit},{event},1000000000,100.00,,"
            for second in range(1, lasted + 1)
            for event, count, unit in (("instructions", rate, ""), ("task-clock", 1000, "msec"))
        )
        path.write_text("\n".join(rows))
    done = run_corun("online", *paths, "--model", online, "--json")
    drivers = {one["feature"]: one for one in json.loads(done.stdout)["attributions"]}
    assert drivers["task-clock"]["contribution"] == pytest.approx(0)
    assert drivers["instructions"]["usual"] == pytest.approx(1e9)
    assert drivers["instructions"]["contribution"] == pytest.approx(4)


def test_an_unknown_task_is_refused_with_the_online_model_offered(static, tmp_path):
    def asked(task, *corunners, model=static):
        return run_corun("static", "--task", task, "--with", *corunners, "--model", model)

    done = asked("tusk-7", "task-5")
    refused(done, 'task "tusk-7"')
    assert 'did you mean "task-7"?' in done.stderr
    assert "perfjudge corun online SOLO.csv CORUN.csv" in done.stderr
    refused(asked("task-7", "x"), 'task "x"')
    # more co-runners than a request may have, a missing model, and a missing file
    refused(asked("task-7", *["task-5"] * 64), "corunners has more than 63 entries")
    refused(asked("a", "b", model=tmp_path), f"{tmp_path}/card.json")
    refused(run_corun("online", "a.csv", "b.csv", "--model", static), "a.csv: cannot be read")


@pytest.fixture
def answered(tmp_path, online):
    """Return a function that gives the answer about samples as text or decoded JSON."""

    def answer(solo, corun, *, as_json=True):
        paths = tmp_path / "solo.csv", tmp_path / "corun.csv"
        for path, text in zip(paths, (solo, corun), strict=True):
            path.write_text(text)
        done = run_corun("online", *paths, "--model", online, *(["--json"] if as_json else []))
        return json.loads(done.stdout) if as_json else done.stdout

    return answer


def test_the_output_of_perf_is_accepted_without_conversion(answered):
    told = answered(perf_csv("task-7"), perf_csv("task-7", 1.4))
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
def test_a_flaw_in_samples_is_noted_and_widens_the_interval(answered, solo, corun, told):
    whole = answered(perf_csv("task-7"), perf_csv("task-7", 1.4, seconds=corun.get("seconds", 2.0)))
    answer = answered(perf_csv("task-7", **solo), perf_csv("task-7", 1.4, **corun))
    assert sum(told in note for note in answer["notes"]) == 1
    assert width(answer) > width(whole) - 1e-9
    assert answer["low"] < 1.4 < answer["high"]


def test_swapped_files_are_suspected_and_right_ones_are_not(tmp_path, answered):
    alone, together = perf_csv("task-7"), perf_csv("task-7", 1.2)
    (note,) = answered(together, alone)["notes"]
    assert note.endswith(f"are {tmp_path / 'solo.csv'} and {tmp_path / 'corun.csv'} swapped?")
    assert "swapped" not in answered(alone, together, as_json=False)


def place(static, *arguments):
    """Return the answer about a placement with two slots a machine, and its text."""
    options = ("place", *arguments, "--slots", 2, "--model", static)
    return json.loads(run_corun(*options, "--json").stdout or "{}"), run_corun(*options)


def test_every_task_is_placed_once_and_time_is_saved(static):
    told, done = place(static, "--machines", 4)
    best, worst, at_random = told["placements"][0], told["placements"][-1], told["random"]
    assert (best["name"], worst["name"], told["exact"]) == ("best", "worst", True)
    for one in told["placements"]:
        assert sorted(task for group in one["groups"] for task in group) == names(8)
        assert best["slowdown"] <= one["slowdown"] <= worst["slowdown"]
    assert best["seconds"] < worst["seconds"]
    shares = {}
    for against, seconds in (("random", at_random["seconds"]), ("worst", worst["seconds"])):
        saved = told[f"saved_against_{against}"]
        assert saved["seconds"] == pytest.approx(seconds - best["seconds"])
        assert saved["share"] == pytest.approx(saved["seconds"] / seconds)
        shares[against] = f"({saved['share']:.1%} of run time) less than "
    assert at_random["seconds_low"] < at_random["seconds"] < at_random["seconds_high"]
    assert f"\n{saved['seconds']:.3g} s {shares['worst']}the worst (" in done.stdout
    assert f"{shares['random']}at random (" in done.stdout


def test_without_solo_times_only_slow_downs_are_reported(static):
    where = ("--machines", 4, "--machine", "other")
    message = f'no task ran alone on "other", but on "{MACHINE}"; name the tasks to place'
    refused(place(static, *where)[1], message)
    told, done = place(static, *names(8), *where)
    assert (told["saved_against_random"], told["saved_against_worst"]) == (None, None)
    assert (told["random"]["seconds"], told["placements"][0]["seconds"]) == (None, None)
    assert f"at random {told['random']['mean']:.3f} on average" in done.stdout
    assert "run times are unknown" in done.stdout
    assert "less than" not in done.stdout


def test_a_task_may_be_placed_twice_but_only_into_slots(static):
    twice, _ = place(static, "task-7", "task-7", "task-1", "--machines", 2)
    assert ["task-7", "task-7"] not in twice["placements"][0]["groups"]
    refused(place(static, *names(8), "--machines", 3)[1], "8 tasks don't fit")


@needs_corun_programs
def test_placements_are_really_run_and_compared(tmp_path):
    suite = {
        "kind": "corun", "name": "naps", "seed": 1, "foreign": 1.0, "interval": 0.1, "events": ["task-clock"],
        "tasks": [
            {"name": name, "group": "x", "command": ["sh", "-c", f"sleep {seconds}"]}
            for name, seconds in (("long", 0.4), ("short", 0.1))
        ],
    }  # fmt: skip
    groups = {"best": [["long", "short"]], "random-1": [["long"], ["short"]], "worst": [["short", "long"]]}
    placements = [
        {"name": name, "groups": put, "slowdown": 0.0, "seconds": 0.5} for name, put in groups.items()
    ]
    plan = {
        "model": {"name": "m", "version": "1", "uri": "u"}, "machine": "m", "machines": 2, "slots": 2,
        "exact": True, "notes": [], "random": {"draws": 1, "mean": 0, "low": 0, "high": 0},
        "placements": placements,
    }  # fmt: skip

    def measured():
        for name, content in (("suite", suite), ("plan", plan)):
            (tmp_path / f"{name}.json").write_text(json.dumps(content))
        plan_file, suite_file = tmp_path / "plan.json", tmp_path / "suite.json"
        return corun_process("measure", plan_file, suite_file, "-o", tmp_path / "out", "--repetitions", 2)

    done = measured()
    assert done.returncode == 0, done.stderr
    rows = pd.read_parquet(tmp_path / "out/placements.parquet")
    seconds = rows.groupby(["placement", "repetition"])["corun_seconds"]
    assert seconds.size().to_dict() == dict.fromkeys(product(groups, (1, 2)), 2)
    assert set(rows.loc[rows["placement"] == "random-1", "corunners"]) == {""}
    total = seconds.sum().groupby(level=0).mean()
    assert (total > 0.5).all()
    best = f"the predicted best took {total['best']:.1f} s of run time in total"
    assert best in done.stdout.replace("\n", " ")
    plan["placements"][0]["groups"] = [["stranger"]]
    refused(measured(), 'task "stranger": is not in the suite')


@pytest.fixture(scope="module")
def server(model_directory, static, online):
    models = ("--model", model_directory, "--corun-static", static, "--corun-online", online)
    listening = Listening(*map(str, models))
    yield listening
    listening.stop()


def post(server, what, content):
    return httpx.post(f"{server.url}/v1/corun/{what}", json=content, timeout=120)


def test_the_server_answers_as_the_command_line_does(server, static, answered):
    answer = post(server, "static", {"coruns": [QUESTION]}).json()
    assert answer["predictions"] == [predicted(static, "task-7", "task-5")[0]]
    sampled, told = (
        post(server, "online", request()).json(),
        answered(perf_csv("task-7"), perf_csv("task-7", 1.4)),
    )
    assert sampled["impact"] == pytest.approx(told["impact"], rel=0.02)


QUESTION = {"task": "task-7", "corunners": ["task-5"]}
SOLO = {"task": "mine", "solo_seconds": 1.0, "events": {"page-faults": 1}}
RUN = {"t_seconds": [0.2, 0.4, 0.6], "events": {"page-faults": [1, 2, 3]}}


def sampled(solo=RUN, **changes):
    return {"solo": solo, "corun": RUN | changes}


#: What every family's requests refuse is in the tests of the server.
REFUSED = {
    "coruns[0].corunners is empty": {"coruns": [QUESTION | {"corunners": []}]},
    **{
        told: {"coruns": [QUESTION], "tasks": [SOLO | change]}
        for told, change in {
            'tasks[0].task="a+b" is not a string that matches ^[^+]*$': {"task": "a+b"},
            "tasks[0].solo_seconds=0 is not a number of at least 1e-06": {"solo_seconds": 0},
            "tasks[0].events.x=a huge number is not a number below 1.8": {"events": {"x": 2**64}},
        }.items()
    },
    'corun.event is unknown; did you mean "e': sampled(event={}),
    "corun.t_seconds is empty": sampled(t_seconds=[]),
    "events.x[1]=1e+308 is not a number below": sampled(events={"x": [1, 1e308, 3]}),
    "corun.events.x[1]=-2 is not a number of at least 0": sampled(events={"x": [1, -2, 3]}),
}


@pytest.mark.parametrize(("told", "content"), REFUSED.items())
def test_bad_requests_are_answered_with_problem_details(server, told, content):
    answer = post(server, "static" if "coruns" in content else "online", content)
    problem(answer, 422, told)


UNUSABLE = {
    "page-faults: has 3 counts": sampled(RUN | {"t_seconds": [0.2]}),
    **{
        f"solo.events.{name}: is the name of a column of samples": sampled(
            RUN | {"events": {name: [1, 2, 3]}}
        )
        for name in SAMPLE_DTYPES
    },
    "solo: shares no event with corun that measures progress": sampled(events={"instructions": [1, 2, 3]}),
}


@pytest.mark.parametrize(("told", "content"), UNUSABLE.items())
def test_unusable_samples_are_answered_without_an_impact(server, told, content):
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


def test_progress_is_answered_without_a_champion(no_champion):
    question = ("POST", "/v1/corun/online", {"json": request()})
    (answer,) = ask(create_app(all_models({})), question, started=True)
    sampled = answer.json()
    assert (sampled["impact"], sampled["model"]["name"]) == (pytest.approx(1.4, rel=0.1), "progress")


@pytest.fixture
def watch(no_champion, tmp_path):
    """Return a function that watches beside a solo run of 1 s: 5 intervals, and an event that is none."""
    solo, ends = tmp_path / "solo.csv", [0.2, 0.4, 0.6, 0.8, 1.0]
    solo.write_text("".join(f"{end},200,msec,task-clock,1,1,,\n{end},9,,zzz,1,1,,\n" for end in ends))
    return lambda *arguments, name="solo.csv": run_corun("watch", "--solo", tmp_path / name, *arguments)


def test_a_command_is_watched_to_its_end(watch, tmp_path):
    busy = [sys.executable, "-c", "for number in range(20_000_000): number * number"]
    done = watch("--json", "-o", tmp_path / "answer.json", "--", *busy)
    assert done.returncode == 0, done.stderr
    told = f"this machine does not count zzz, which {tmp_path / 'solo.csv'} has"
    assert told in " ".join(done.stderr.split())
    last = json.loads((tmp_path / "answer.json").read_text())
    assert (json.loads(done.stdout.splitlines()[-1]), last["model"]["name"]) == (last, "progress")
    # it has ended, so that nothing is left to be guessed
    assert last["high"] / last["low"] < 1.03


def test_a_missing_process_or_command_gives_a_one_line_error(watch):
    pid = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(pid, 0)
    refused(watch(str(pid), name="none.csv"), "none.csv: cannot be read")
    done = watch("there-is-no-such-program")
    assert (done.returncode, done.stderr.count("there-is-no-such-program")) == (2, 1)
