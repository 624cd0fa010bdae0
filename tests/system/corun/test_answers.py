import json
import os
import sys
from contextlib import nullcontext
from functools import partial
from itertools import product

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
from tests.system.conftest import problem, refused
from tests.system.corun.inputs import EVENTS, MACHINE, names, perf_csv, rates, request, true_impact
from tests.system.measuring import needs_corun_programs

run_corun = partial(perfjudge, "corun")
corun_process = partial(perfjudge_process, "corun", OMP_NUM_THREADS="1")
PAIR = {"task": "task-7", "corunners": ["task-5"]}
MINE = {"task": "mine", "corunners": ["task-5"]}
#: The counts of task-7 in a solo run of 3.7 s.
COUNTS = {event: 3.7 * rate for event, rate in rates("task-7").items()}


@pytest.fixture(scope="module")
def static(corun_project):
    return corun_project / "models/corun/random-forest"


@pytest.fixture(scope="module")
def served(static):
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


def body_of(*coruns, tasks=()):
    return json.dumps({"coruns": coruns, "tasks": tasks}).encode()


def answer(served, *coruns, tasks=()):
    """Return the decoded answer to a request."""
    return json.loads(answer_static(body_of(*coruns, tasks=tasks), served).content)


def solo_run(events, task="mine", seconds=3.7, **further):
    """Return a solo run as a request has it."""
    return {"task": task, "solo_seconds": seconds, "events": events, **further}


def solo_row(**changes):
    """Return a solo run as a row of the table of tasks."""
    row = {"task": "mine", "machine": MACHINE, "repetition": 1, "solo_seconds": 3.7, "page-faults": 5.0}
    return row | changes


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
    assert text.startswith(f"task-7 beside task-5 on {MACHINE}: {one['impact'] - 1:.1%} slower")


def test_requests_of_a_batch_get_the_answers_of_each_alone(served):
    several = PAIR | {"corunners": ["task-3", "task-5"]}
    bodies = [*map(body_of, (PAIR, MINE)), body_of(several, PAIR), body_of(MINE, tasks=[solo_run({})])]
    *answers, bad = answer_static_batch([*bodies, b"{"], served)
    assert [one.content for one in answers] == [answer_static(body, served).content for body in bodies]
    assert "the body is not JSON" in str(bad)


def test_an_unknown_machine_or_task_is_noted_and_widens_the_interval(static, tmp_path):
    known, _ = predicted(static, "task-7", "task-5")
    elsewhere, _ = predicted(static, "task-7", "task-5", further=("--machine", "other"))
    assert elsewhere["impact"] == known["impact"]
    assert 'not trained on the machine "other"' in elsewhere["notes"][0]
    assert (elsewhere["solo_seconds"], elsewhere["corun_seconds"]) == (None, None)
    CorunTables.from_rows([solo_row(**COUNTS)], []).write(tmp_path)
    mine, _ = predicted(static, "mine", "task-5", further=("--tasks", tmp_path))
    assert mine["impact"] == pytest.approx(known["impact"], rel=0.1)
    assert "not trained on mine" in mine["notes"][0]
    assert min(width(elsewhere), width(mine)) > width(known)


STATIC_MINE = ("static", "--task", "mine", "--with", "task-5")
PLACE = ("place", "mine", "task-5", "--machines", 1, "--slots", 2)
RUN = f'tasks.parquet machine "{MACHINE}" task "mine" repetition 1'
#: What is refused of all tables is in the tests of the tables.
FLAWED_SOLO_RUNS = {
    f"{RUN}: solo_seconds=1e+300 must be between 1e-06 and 1e+09": ([solo_row(solo_seconds=1e300)], ()),
    f"{RUN}: page-faults=1.84467e+19 must be below 2^64": ([solo_row(**{"page-faults": 2.0**64})], ()),
    f"{RUN}: occurs twice": ([solo_row(), solo_row(solo_seconds=9.0)], ()),
    "tasks.parquet tasks row 0: has no task": ([solo_row(task=None)], ()),
    f'hosts.parquet machine "{MACHINE}": occurs twice': ([solo_row()], [{"machine": MACHINE}] * 2),
}


@pytest.mark.parametrize("command", [STATIC_MINE, PLACE])
@pytest.mark.parametrize(("message", "rows"), FLAWED_SOLO_RUNS.items())
def test_flawed_solo_runs_of_more_tasks_are_refused(static, tmp_path, command, message, rows):
    tasks, hosts = rows
    CorunTables.from_rows(tasks, [], [], hosts).write(tmp_path)
    refused(run_corun(*command, "--model", static, "--tasks", tmp_path), f"{tmp_path}/{message}")


@pytest.mark.parametrize("command", [STATIC_MINE, PLACE])
def test_events_of_more_tasks_that_the_model_does_not_use_are_noted(static, tmp_path, command):
    CorunTables.from_rows([solo_row(nonsense=1.0, cycles=2.0)], []).write(tmp_path)
    note = f"{tmp_path}: events that the model does not use: nonsense, cycles"
    options = (*command, "--model", static, "--tasks", tmp_path)
    assert json.loads(run_corun(*options, "--json").stdout)["notes"][0] == note
    assert f"note: {note}\n" in run_corun(*options).stdout


def test_a_solo_run_elsewhere_keeps_the_default_machine(served):
    plain, told = (answer(served, PAIR, tasks=runs) for runs in ([], [solo_run({}, machine="other")]))
    assert plain["predictions"] == told["predictions"]
    assert plain["predictions"][0]["machine"] == MACHINE


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
def test_tables_and_requests_get_equal_answers_for_any_spelling_of_events(static, served, tmp_path, spell):
    unused = {"nonsense": 1e9, "instructions:u": 5.0}
    events = {spell(event): count for event, count in COUNTS.items()} | unused
    CorunTables.from_rows([solo_row(**{"page-faults": None}) | events], []).write(tmp_path)
    with_table = load_with_solo_runs(str(static), tmp_path)
    assert with_table.known_tasks.counted_events == tuple(EVENTS)
    tables = predict_corun(CorunQuestion(**MINE), with_table)
    spelt, plain, nothing = (answer(served, MINE, tasks=[solo_run(given)]) for given in (events, COUNTS, {}))
    assert tables.model_dump(mode="json")["predictions"] == spelt["predictions"] == plain["predictions"]
    assert nothing["predictions"] != plain["predictions"]
    twice = answer(served, MINE, tasks=[solo_run(COUNTS | {"faults": 1.0})])
    assert (twice["predictions"], "does not use: faults" in twice["notes"][0]) == (plain["predictions"], True)
    gap = COUNTS | {"faults": COUNTS["page-faults"], "page-faults": None}
    filled = answer(served, MINE, tasks=[solo_run(gap)])
    assert (filled["predictions"], filled["notes"]) == (plain["predictions"], [])
    note = f"events that the model does not use: {', '.join(unused)}"
    assert (tables.notes, spelt["notes"]) == ([f"{tmp_path}: {note}"], [f"tasks[0]: {note}"])
    assert plain["notes"] == []


@pytest.mark.parametrize("number", [1, 40])
def test_solo_runs_of_tasks_without_a_corun_change_nothing_but_the_notes(served, number):
    others = [solo_run({EVENTS[0]: 1e9}, f"x{at}", 1000.0) for at in range(number)]
    plain, told = (answer(served, PAIR, tasks=tasks) for tasks in ([], others))
    assert told["predictions"] == plain["predictions"]
    unused = [f'tasks[{at}] is not used: no co-run has "x{at}"' for at in range(number)]
    assert told["notes"] == unused + plain["notes"]
    replaced = answer(served, PAIR, tasks=[solo_run(dict.fromkeys(EVENTS, 1.0), "task-7", 99.0)])["notes"]
    assert replaced[0] == f'tasks[0] replaces the model\'s solo run of "task-7" on "{MACHINE}"'


def test_solo_runs_in_tables_that_replace_those_of_the_model_are_named(static, tmp_path):
    CorunTables.from_rows([solo_row(task=task) | COUNTS for task in ("mine", "task-7")], []).write(tmp_path)
    notes = load_with_solo_runs(str(static), tmp_path).notes
    assert notes == (f'{tmp_path}: replaces the model\'s solo runs of "task-7" on "{MACHINE}"',)


POSTED = st.sampled_from(["mine", "other", "task-3", "task-5"])
ASKED = st.sampled_from(["mine", "other", "task-3", "task-7"])


@hypothesis.given(
    coruns=st.lists(st.tuples(ASKED, st.lists(POSTED, min_size=1, max_size=2)), min_size=2, max_size=5),
    runs=st.lists(st.tuples(POSTED, st.sampled_from([0.01, 3.7, 900.0]), st.booleans()), max_size=6),
)
@hypothesis.settings(max_examples=25)
def test_predictions_for_coruns_do_not_depend_on_other_coruns(served, coruns, runs):
    tasks = [
        solo_run(rates("task-2"), task, seconds, machine=MACHINE if is_known else "elsewhere")
        for task, seconds, is_known in runs
    ]
    asked = [{"task": task, "corunners": others, "machine": MACHINE} for task, others in coruns]

    def predictions(*asked):
        # the note on an unknown task names those that are known
        found = answer(served, *asked, tasks=tasks)["predictions"]
        return [one if one["impact"] else one | {"notes": len(one["notes"])} for one in found]

    assert predictions(*asked) == [one for corun in asked for one in predictions(corun)]


@pytest.mark.parametrize("seconds", [9e-7, 1e-6, 1e9, 2e9])
@pytest.mark.parametrize("count", [0.0, np.nextafter(2.0**64, 0), 2.0**64])
def test_tables_and_requests_have_equal_limits(static, served, tmp_path, seconds, count):
    CorunTables.from_rows([solo_row(solo_seconds=seconds, nonsense=count)], []).write(tmp_path)
    run = solo_run({"nonsense": count}, seconds=seconds)
    is_valid = 1e-6 <= seconds <= 1e9 and count < 2**64
    for read in (
        lambda: load_with_solo_runs(str(static), tmp_path),
        lambda: answer(served, MINE, tasks=[run]),
    ):
        with nullcontext() if is_valid else pytest.raises((InputError, RefusedError)):
            assert read()


@pytest.mark.parametrize(
    ("missing", "names"),
    [
        ([], None),
        (["LLC-loads"], "1 of the model's 10 events (LLC-loads)"),
        (EVENTS[-5:], f"5 of the model's 10 events ({', '.join(EVENTS[-5:-1])} and 1 more)"),
    ],
)
@pytest.mark.parametrize("repetitions", [1, 2])
def test_uncounted_events_of_added_solo_runs_are_named(static, served, tmp_path, missing, names, repetitions):
    # an event counted in one of several runs is known
    runs = [COUNTS | dict.fromkeys(missing), dict.fromkeys(EVENTS)][:repetitions]
    rows = [solo_row(repetition=number) | events for number, events in enumerate(runs, 1)]
    CorunTables.from_rows(rows, []).write(tmp_path)
    answers = {
        tmp_path: predict_corun(CorunQuestion(**MINE), load_with_solo_runs(str(static), tmp_path)).notes,
        "tasks": answer(served, MINE, tasks=[*map(solo_run, runs)])["notes"],
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
def test_explained_impacts_add_up_also_where_speed_ups_do_not(served, monkeypatch, alone):
    impacts = {f"task-{number}": impact for number, impact in enumerate(alone)}
    monkeypatch.setattr(Static, "predict_impacts", lambda *_: np.array(alone))
    (one,) = predict_corun(CorunQuestion(task="task-7", corunners=[*impacts]), served).predictions
    assert 0 < one.low <= one.impact <= one.high
    explained = [name for row in one.drivers_explain for name in row.corunners]
    assert one.impact == pytest.approx(1 + sum(impacts[name] - 1 for name in explained))
    assert {driver.corunners[0] for driver in one.attributions} <= set(explained)
    assert {name for name, impact in impacts.items() if impact >= 1} <= set(explained)


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


KINDS = {
    "matrices": "matrices (regression-matrix)",
    "corun_static": "corun (corun-static)",
    "corun_online": "corun (corun-online)",
}


@pytest.mark.parametrize(
    ("given_for", "expected"),
    [("matrices", "corun_static"), ("corun_online", "corun_static"), ("corun_static", "corun_online")],
)
def test_a_model_of_another_kind_is_refused_with_both_kinds(small_models, tmp_path, given_for, expected):
    (tmp_path / "solo.csv").write_text(perf_csv("task-7"))
    (tmp_path / "corun.csv").write_text(perf_csv("task-7", 1.4))
    arguments = {
        "corun_static": ("static", "--task", "a", "--with", "b"),
        "corun_online": ("online", tmp_path / "solo.csv", tmp_path / "corun.csv"),
    }[expected]
    model = small_models[given_for]
    told = f"perfjudge: {model}: is a model of {KINDS[given_for]}; expected one of {KINDS[expected]}\n"
    done = run_corun(*arguments, "--model", model)
    assert (done.returncode, done.stderr) == (2, told)


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
    found = answered(perf_csv("task-7", **solo), perf_csv("task-7", 1.4, **corun))
    assert sum(told in note for note in found["notes"]) == 1
    assert width(found) > width(whole) - 1e-9
    assert found["low"] < 1.4 < found["high"]
    # progress uses all parts
    assert found["sampled_seconds"] == min(2.0, corun.get("seconds", 2.0))


def test_progress_alone_answers_where_the_model_lacks_most_events(answered):
    few = {"uncounted": [event for event in EVENTS if event not in {"instructions", "task-clock"}]}
    found = answered(perf_csv("task-7", **few), perf_csv("task-7", 1.4, **few))
    drivers = {one["feature"]: one["contribution"] for one in found["attributions"]}
    assert drivers == pytest.approx({"task-clock": 0, "instructions": 0.4}, abs=0.01)


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
    assert at_random["seconds_low"] < at_random["seconds"] < at_random["seconds_high"]
    for against, other, text in (
        ("random", at_random, "at random"),
        ("worst", worst, "the worst by slow-down"),
    ):
        saved = told[f"saved_against_{against}"]
        assert saved["seconds"] == pytest.approx(other["seconds"] - best["seconds"])
        assert saved["share"] == pytest.approx(saved["seconds"] / other["seconds"])
        assert saved["share"] > 0
        share = f"({saved['share']:.1%} of run time)"
        assert f"{saved['seconds']:.3g} s {share} less than {text} (" in done.stdout


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
    plan = {
        "model": {"name": "m", "version": "1", "uri": "u"}, "machine": "m", "machines": 2, "slots": 2,
        "exact": True, "notes": [], "random": {"draws": 1, "mean": 0, "low": 0, "high": 0},
        "placements": [{"name": name, "groups": put, "slowdown": 0.0, "seconds": 0.5}
                       for name, put in groups.items()],
    }  # fmt: skip
    plan_file, suite_file, out = tmp_path / "plan.json", tmp_path / "suite.json", tmp_path / "out"

    def measured():
        suite_file.write_text(json.dumps(suite))
        plan_file.write_text(json.dumps(plan))
        return corun_process("measure", plan_file, suite_file, "-o", out, "--repetitions", 2)

    done = measured()
    assert done.returncode == 0, done.stderr
    rows = pd.read_parquet(out / "placements.parquet")
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
def app(static, online):
    return create_app(all_models({"corun_static": str(static), "corun_online": str(online)}))


def post(app, what, content):
    return ask(app, ("POST", f"/v1/corun/{what}", {"json": content}), started=True)[0]


def test_the_server_answers_as_the_command_line_does(app, static, answered):
    told = post(app, "static", {"coruns": [PAIR]}).json()
    assert told["predictions"] == [predicted(static, "task-7", "task-5")[0]]
    sampled = post(app, "online", request()).json()
    by_command = answered(perf_csv("task-7"), perf_csv("task-7", 1.4))
    assert sampled["impact"] == pytest.approx(by_command["impact"], rel=0.02)


SAMPLES = {"t_seconds": [0.2, 0.4, 0.6], "events": {"page-faults": [1, 2, 3]}}


def sampled(solo=SAMPLES, **changes):
    return {"solo": solo, "corun": SAMPLES | changes}


def with_solo(**changes):
    return {"coruns": [PAIR], "tasks": [solo_run({"page-faults": 1}) | changes]}


#: What every family's requests refuse is in the tests of the server.
REFUSED = {
    'tasks[0].task="a+b" is not a string that matches ^[^+]*$': with_solo(task="a+b"),
    "tasks[0].solo_seconds=0 is not a number of at least 1e-06": with_solo(solo_seconds=0),
    "tasks[0].events.x=a huge number is not a number below 1.8": with_solo(events={"x": 2**64}),
    "events.x[1]=1e+308 is not a number below": sampled(events={"x": [1, 1e308, 3]}),
    "corun.events.x[1]=-2 is not a number of at least 0": sampled(events={"x": [1, -2, 3]}),
}


@pytest.mark.parametrize(("told", "content"), REFUSED.items())
def test_bad_requests_are_answered_with_problem_details(app, told, content):
    problem(post(app, "static" if "coruns" in content else "online", content), 422, told)


UNUSABLE = {
    "page-faults: has 3 counts": sampled(SAMPLES | {"t_seconds": [0.2]}),
    **{
        f"solo.events.{name}: is the name of a column of samples": sampled(
            SAMPLES | {"events": {name: [1, 2, 3]}}
        )
        for name in SAMPLE_DTYPES
    },
    "solo: shares no event with corun that measures progress": sampled(events={"instructions": [1, 2, 3]}),
}


@pytest.mark.parametrize(("told", "content"), UNUSABLE.items())
def test_unusable_samples_are_answered_without_an_impact(app, told, content):
    found = post(app, "online", content)
    content = found.json()
    assert (found.status_code, content["impact"], content["low"], content["high"]) == (200, None, None, None)
    assert told in content["notes"][0]


def test_an_unknown_task_is_noted_beside_other_answers(app):
    asked = {"coruns": [PAIR, PAIR | {"task": "x"}]}
    known, unknown = post(app, "static", asked).json()["predictions"]
    assert known["impact"] > 0
    assert (unknown["task"], unknown["impact"], unknown["corun_seconds"]) == ("x", None, None)
    assert 'task "x": has no solo run' in unknown["notes"][0]


def test_progress_is_answered_without_a_champion(no_champion):
    found = post(create_app(all_models({})), "online", request()).json()
    assert (found["impact"], found["model"]["name"]) == (pytest.approx(1.4, rel=0.1), "progress")


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
