"""Two sides of a change, as CI compares them: several runs, acknowledgements, further runs, every answer."""

import json
import os
import re
import shlex
import shutil
import sys
from datetime import date
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from data.comparisons.pair import Missing
from data.comparisons.params import Measure
from data.tables.problems import Problems
from serving.comparisons.compare.acknowledging import Acknowledgements, Revision, read_acknowledged
from serving.comparisons.compare.command import RunReader
from serving.comparisons.compare.rows import github_annotations
from tests.commands import perfjudge
from tests.data.refusals import refusal
from tests.system.comparisons.run_files import LEVELS, named_run, run_file
from tests.system.conftest import Repository


@pytest.fixture
def compared(tmp_path, model_directory, monkeypatch):
    """Return what compares: the exit code, the answer and what was said beside it."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, form="json"):
        done = perfjudge("compare", "--model", model_directory, "--format", form, *arguments)
        answer = json.loads(done.stdout) if form == "json" and done.returncode < 2 else done.stdout
        return done.returncode, answer, done.stderr

    return call


@pytest.fixture
def refused(compared):
    """Return what compares; it has to be refused, in the line that is returned."""

    def call(*arguments, **further):
        code, _, said = compared(*arguments, **further)
        lines = [line for line in said.splitlines() if not line.startswith("confirming")]
        assert (code, len(lines)) == (2, 1), said
        return lines[0]

    return call


@pytest.fixture
def sides(tmp_path):
    """Return what writes a run of each side, of which the target is slower; the same is left out of both."""

    def write(scale=None, whole=1.0, **both):
        target = run_file(tmp_path / "t.json", scale, whole, seed=1, **both)
        return run_file(tmp_path / "b.json", **both), target

    return write


def outcomes(answer):
    return {one["operation"]: one["outcome"] for one in answer["verdicts"]}


def earlier_runs(directory, levels, scale=None):
    """Write runs of these levels into a directory, named by their numbers."""
    directory.mkdir()
    for number, level in enumerate(levels, 1):
        run_file(directory / f"{number}.json", scale, whole=level, seed=100 + number)
    return directory


@pytest.mark.parametrize("outlier", [1.0, 10.0, 0.1])
def test_earlier_runs_let_a_change_fail_despite_an_outlier(compared, sides, tmp_path, outlier):
    # runs that differ by little
    history = earlier_runs(tmp_path / "earlier", [1, 1.002, 1.004, outlier, 1.002, 1.004, 1, 1.002])
    code, answer, said = compared(*sides({"a": 1.08}), "--history", history, "--fail-on-regression")
    found = outcomes(answer)
    assert (code, found.pop("a")) == (1, "regression"), said
    assert set(found.values()) <= {"unchanged", "within_noise"}
    remarks = [told for one in answer["verdicts"] for told in one["remarks"] if "left out" in told]
    told = "one run of 9 before the target is left out: "
    assert [one.startswith(told) for one in remarks] == [True] * (0 if outlier == 1 else len(LEVELS))


def read(*sides, history=()):
    """Return the versions of the sides' runs and of the earlier ones, and what is noted about them."""
    reader = RunReader(Problems(), Measure(better="lower"))
    runs = [run for side in sides for run in reader.read_runs(side)]
    earlier = reader.read_history(history, runs)
    return [run.version for run in runs], [run.version for run in earlier], [*reader.problems.notes]


def asv_run(path, commit):
    """Write the file of asv for a commit."""
    about = {"commit_hash": f"{commit:010d}", "date": 1_700_000_000_000 + commit, "params": {"machine": "m"}}
    results = {"time_a": [[[1.0, 1.1, 1.2]], [1.1], []]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({**about, "result_columns": ["samples", "result", "params"], "results": results})
    )
    return path


def criterion_run(path, number):
    """Write the directory of a run of criterion, whose benchmarks have one, two and three names."""
    for names in ("a", "b/c", "d_d/e/f"):
        new = path / names / "new"
        new.mkdir(parents=True)
        (new / "sample.json").write_text(json.dumps({"iters": [1.0] * 2, "times": [number, number + 1.0]}))
        # a name may have more slashes than its directory
        benchmark = {"full_id": names.replace("_", "/"), "directory_name": names}
        (new / "benchmark.json").write_text(json.dumps(benchmark))
    return path


def one_run(path, number):
    path.parent.mkdir(exist_ok=True)
    return run_file(path, seed=number)


#: What writes a run, how its name ends, and how its version is called.
FORMS = {
    "asv": (asv_run, ".json", "{:010}"),
    "criterion": (criterion_run, "", "run-{}"),
    "run-json": (one_run, ".json", "run-{}"),
}


@pytest.mark.parametrize("sides", [(10, 11), (6, 9), (9, 6), (0, 1)])
def test_versions_from_the_sides_on_are_no_history(tmp_path, sides):
    earlier = range(min(sides))
    runs = [asv_run(tmp_path / f"all/m/{at}-env.json", at) for at in range(12)]
    found = read(*([runs[at]] for at in sides), history=[tmp_path / "all"])
    assert found == (*([f"{at:010}" for at in numbers] for numbers in (sides, earlier)), [])
    # a directory of one version, which is a side
    only = asv_run(tmp_path / "one/m/12-env.json", 12)
    only.with_name("machine.json").write_text("{}")
    assert read([only], history=[tmp_path / "one"])[1] == []
    tables = [tmp_path / f"{name}.csv" for name in "bth"]
    for path, versions in zip(tables, ([sides[0]], [sides[1]], range(12)), strict=True):
        path.write_text("\n".join(["operation,version,value", *(f"a,{at},{at + 1}" for at in versions)]))
    found = read(tables[:1], tables[1:2], history=tables[2:])
    assert found == (*([str(at) for at in numbers] for numbers in (sides, earlier)), [])


@pytest.mark.parametrize("place", ["base", "target", "history"])
@pytest.mark.parametrize("form", ["run-json", "criterion"])
def test_copies_of_a_run_count_once(tmp_path, place, form):
    names = ("history", "base", "target")
    given = {name: [FORMS[form][0](tmp_path / name, number)] for number, name in enumerate(names)}
    (original,), directory = given["target" if place == "target" else "base"], tmp_path / "copies"
    directory.mkdir()
    for number in "12":
        (shutil.copytree if original.is_dir() else shutil.copy)(original, directory / number)
    given[place] += [Path(original), directory]
    told = [f"{directory / number} is the same as {original}; it counts once" for number in "12"]
    if place != "history":
        told.insert(0, f"{original} is given several times; it counts once")
    found = read(given["base"], given["target"], history=given["history"])
    assert found == (["base", "target"], ["history"], told)


def test_one_file_may_be_both_sides(tmp_path):
    run = run_file(tmp_path / "r.json")
    assert read([run], [run]) == (["r", "r"], [], [])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_directory_of_runs_is_read_run_by_run(tmp_path, form, count):
    write, ending, version = FORMS[form]
    # 10 follows 9
    numbers = range(8, 8 + count)
    runs = [write(tmp_path / f"runs/run-{number}{ending}", number) for number in numbers]
    (tmp_path / "runs/labels.csv").write_text("comparison_id,status,annotator\n")
    versions = [version.format(number) for number in numbers]
    assert read([tmp_path / "runs"])[0] == versions
    assert read(runs[-1:], history=[tmp_path / "runs"])[:2] == (versions[-1:], versions[:-1])


def test_a_far_slower_run_makes_every_operation_a_regression(compared, sides):
    code, answer, _ = compared(*sides(whole=1.4), "--fail-on-regression")
    assert (code, set(outcomes(answer).values())) == (1, {"regression"})
    assert answer["whole_run"] == {"m": pytest.approx(-0.4, abs=0.01)}
    assert any("common cause" in note for note in answer["notes"])


def test_a_pass_due_to_a_faster_run_is_unsure(compared, sides):
    answer = compared(*sides({"a": 1.25}, whole=0.8))[1]
    assert (answer["verdicts"][0]["model_verdict"], outcomes(answer)["a"]) == ("pass", "unsure")
    assert answer["verdicts"][0]["reason"].endswith("% faster")


def test_why_and_explain_add_the_evidence_to_tables(compared, sides):
    slower = sides({"a": 1.5}, left_out=("c", "d", "e", "f"))
    plain, why, explained = (
        compared(*slower, *more, form="table")[1] for more in ([], ["--why"], ["--explain"])
    )
    assert why == explained
    assert why.startswith(plain)
    assert "bench/a: " in why.removeprefix(plain)


@pytest.mark.parametrize(
    ("first", "again", "outcome"), [(1.08, 1.09, "regression"), (1.04, 0.99, "within_noise")]
)
def test_doubtful_operations_are_repeated_until_clear(compared, sides, tmp_path, first, again, outcome):
    for number in range(1, 10):
        run_file(tmp_path / f"again{number}.json", {"a": again}, seed=2 * number)
    script = 'echo $PERFJUDGE_OPERATIONS >> asked.txt; cp again$(grep -c "" asked.txt).json "$0"'
    confirming = ("--confirm", "9", "--fail-on-regression", "--", "sh", "-c", script, "{output}")
    code, answer, said = compared(*sides({"a": first}), *confirming)
    assert (code, outcomes(answer)["a"]) == (int(outcome == "regression"), outcome), said
    repeated = said.count("confirming: ")
    assert 0 < repeated < 9
    assert (tmp_path / "asked.txt").read_text().split() == ["a"] * repeated
    assert [one["versions"] for one in answer["verdicts"][:2]] == [f"b -> t..t, again {repeated}", "b -> t"]


@pytest.mark.parametrize(("copied", "told"), [("t.json", ["t"] * 3), ("new.json", ["t, again 1"] * 2)])
def test_a_copy_of_an_earlier_run_confirms_nothing(compared, sides, tmp_path, copied, told):
    before, after = sides(whole=1.06)
    run_file(tmp_path / "new.json", whole=1.06, seed=2)
    targets = (f"--target={path}" for path in dict.fromkeys((after, tmp_path / copied)))
    expected = compared("--base", before, *targets)[1]
    _, answer, said = compared(before, after, "--confirm", "3", "--", "cp", copied, "{output}")
    assert said.count("confirming: ") == 3
    first, second = ([one["probability"] for one in found["verdicts"]] for found in (answer, expected))
    assert first == second
    assert [note for note in answer["notes"] if "counts once" in note] == [
        f"confirming run {number} of the target is the same as {name}; it counts once"
        for number, name in enumerate(told, 4 - len(told))
    ]


def test_confirming_runs_are_named_by_the_file_of_their_side(compared, refused, tmp_path):
    for name, level in {"b": 100, "t": 50, "again": 51}.items():
        rows = [f"sort,{level + repetition / 10}" for repetition in range(9)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["operation,value", *rows]))
    (tmp_path / "wrong.csv").write_text("operation,value\nsort,fast\n")
    confirming = ("b.csv", "t.csv", "--confirm", "1", "--", "cp")
    notes = compared(*confirming, "again.csv", "{output}")[1]["notes"]
    assumed = [note.partition(" does not say which")[0] for note in notes if "does not say which" in note]
    assert assumed == ["b.csv", "t.csv", "t.csv, again 1"]
    wrong = refused(*confirming, "wrong.csv", "{output}")
    assert wrong == 'perfjudge: t.csv, again 1:2: value="fast" is not a finite number'


CONFIRM = ("--confirm", "1", "--")
UNCLOSED = ('"', "cp 'a", "cp a\\")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([*CONFIRM, sys.executable, "-c", "print('no disk'); exit(3)", "{output}"], "exit code 3 (no disk)"),
        ([*CONFIRM, sys.executable, "-c", "", "{output}"], "wrote no {output}"),
        ([*CONFIRM, "cp", "other.json", "{output}"], "none of the operations in doubt: a"),
        ([*CONFIRM, "true"], "names no {output}"),
        ([*CONFIRM, "no-such-program", "{output}"], "which is not installed"),
        # python itself needs longer to start
        (
            ["--confirm-timeout", "0.2", *CONFIRM, "sh", "-c", "sleep 60", "{output}"],
            "longer than 0.2 seconds",
        ),
        (["--", "x"], "only with --confirm"),
        *(
            (["--confirm-base", one, *CONFIRM, "x", "{output}"], f"--confirm-base {one!r}: no ")
            for one in UNCLOSED
        ),
    ],
)
def test_a_command_that_cannot_confirm_is_refused_in_one_line(refused, sides, tmp_path, options, told):
    run_file(tmp_path / "other.json", left_out=("a",))
    assert told in refused(*sides({"a": 1.5}), *options)


@pytest.mark.parametrize("name", ["nul\0", "two\nlines"])
def test_a_name_that_a_command_cannot_be_given_is_refused(refused, tmp_path, name):
    before, after = (run_file(tmp_path / f"{by}.json", levels={name: by}) for by in (100.0, 150.0))
    told = refused(before, after, "--confirm", "1", "--", "cp", after, "{output}")
    assert f"operation {name!r} has a control character" in told


@pytest.mark.parametrize(("option", "replaced"), [("--base", "BASELINE"), ("--target", "TARGET")])
def test_a_side_that_is_given_twice_is_refused(refused, tmp_path, option, replaced):
    told = refused("x.json", "more.json", option, run_file(tmp_path / "b.json"))
    assert "unexpected 'more.json'" in told
    assert re.search(rf"{option}( replaces)? {replaced}", told)


FILE = """
acknowledged:
- {operation: a*, until: 2026-12-31, at_most: 10, by: anna, reason: known}
- {operation: gone, until: 1.2, by: ben, reason: was slow}
unstable:
- {operation: e, by: cleo, reason: depends on the network}
"""


def says(text, tmp_path, today=date(2026, 12, 31), target=("2.0",), baseline=("1.0",), measured=()):
    path = tmp_path / "known.yaml"
    path.write_text(text)
    revisions = (Revision(names, tmp_path) for names in (baseline, target))
    return Acknowledgements(*read_acknowledged(path), *revisions, today, measured)


def entry(kind, field, value, operation="a"):
    """Return a file with one entry, which begins or ends with a value."""
    about = {"operation": operation, field: value, "by": "x", "reason": "y"}
    return json.dumps({kind: [about]})


#: The kinds of entries, and the field in which each begins or ends.
ENTRIES = [("accepted", "since"), ("acknowledged", "until"), ("unstable", "until")]


def test_an_acknowledged_fail_does_not_count_until_its_day(compared, tmp_path):
    def acknowledging(before, after, *options, until="2999"):
        (tmp_path / ".perfjudge.yaml").write_text(FILE.replace("2026", until))
        code, answer, _ = compared(before, after, "--fail-on-regression", *options)
        return code, outcomes(answer), answer

    before, exactly = run_file(tmp_path / "b.json"), ("--between-run-variation", "none")
    small, large = (run_file(tmp_path / f"{by}.json", {"a": by, "e": 1.5}, seed=1) for by in (1.08, 1.3))
    code, found, answer = acknowledging(before, small, *exactly)
    assert (code, found["a"], found["e"]) == (0, "acknowledged", "acknowledged")
    assert answer["verdicts"][0]["acknowledged"]["by"] == "anna"
    assert any('"gone" by ben matches no compared operation' in note for note in answer["notes"])
    assert acknowledging(before, large, *exactly)[0] == 1
    # nor does an excused operation that is unsure
    alone = [run_file(tmp_path / f"{level}.json", levels={"a": level}, seed=2) for level in (100.0, 104.0)]
    assert acknowledging(*alone, "--fail-on-unsure")[:2] == (0, {"a": "unsure"})
    code, found, answer = acknowledging(before, small, *exactly, until="2001")
    assert (code, found["a"]) == (1, "regression")
    assert any("has expired (until 2001-12-31)" in note for note in answer["notes"])


@given(st.integers(1, 300), st.integers(1, 10**6))
def test_a_change_of_exactly_the_acknowledged_size_is_acknowledged(tmp_path_factory, limit, level):
    known = says(FILE.replace("at_most: 10", f"at_most: {limit}"), tmp_path_factory.getbasetemp())

    def excused(percent):
        change = -(level * (1 + percent / 100) - level) / level
        moved = SimpleNamespace(change=change)
        slower = SimpleNamespace(benchmark="b", operation="a", verdict="fail", moved=moved)
        return known.find_excuses([slower])[0] is not None

    assert (excused(limit), excused(1.001 * limit)) == (True, False)


def test_losses_beyond_the_acknowledged_size_are_noted(tmp_path):
    known = says(FILE.partition("- {operation: gone")[0], tmp_path)
    verdicts = [
        SimpleNamespace(benchmark="b", operation=name, verdict=verdict, moved=SimpleNamespace(change=change))
        for name, verdict, change in [
            ("a1", "fail", -0.136), ("a2", "fail", -0.1), ("a3", "pass", -0.2), ("a4", "unsure", -0.11),
            ("b", "fail", -0.5),
        ]
    ]  # fmt: skip
    told = 'acknowledged "a*" by anna does not cover a1 (13.6 %), a4 (11.0 %), a5 (from 0): at_most is 10'
    from_0 = SimpleNamespace(benchmark="b", operation="a5", verdict="fail", moved=None)
    assert [*known.entry_notes([*verdicts, from_0])] == [f"{known.path}: {told}"]


def test_a_run_of_the_target_is_no_run_of_the_baseline(compared, tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    for seed, slower in enumerate([{}, {}, {"a": 1.15}]):
        run_file(runs / f"{seed}.json", slower, seed=seed)
    shutil.copy(runs / "2.json", tmp_path / "copy.json")
    apart = compared("--base", "runs/0.json", "--base", "runs/1.json", "--target", "runs/2.json")[1]
    for target in ("runs/2.json", "copy.json"):
        answer = compared("runs", target)[1]
        assert outcomes(answer) == outcomes(apart) | {"a": "regression"}
        assert "runs/2.json is a run of the target; it does not count as baseline" in answer["notes"]
    assert {*outcomes(compared("runs", "runs")[1]).values()} <= {"unchanged", "within_noise"}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (entry("acknowledged", "untl", "1"), 'did you mean "until"?'),
        (entry("acknowledged", "until", None), "acknowledged[0].until=null: expected a day"),
        ("ignored: []", "ignored is unknown"),
        ("[", "is not YAML"),
    ],
)
def test_a_wrong_file_of_acknowledgements_is_named(tmp_path, text, named):
    told = refusal(says, text, tmp_path)
    assert told.startswith(f"{tmp_path}/known.yaml")
    assert named in told
    assert "none.yaml: No such file" in refusal(read_acknowledged, tmp_path / "none.yaml")


DAYS = [
    *("%Y-%-m-%-d", "%Y/%m/%d", "%Y-%m", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d 00:00", "%d.%m.%Y", "%-m/%-d/%Y"),
    *("%d-%m-%Y", "%b %-d %Y", "%-d %B %Y", "%d-%b-%Y", "%Y%m%d", "%G-W%V-%u", "%GW%V"),
]


@given(st.dates(date(1970, 1, 1), date(2099, 12, 31)), st.sampled_from(DAYS))
@settings(suppress_health_check=list(HealthCheck))
@example(date(2020, 2, 28), "%Y-%m-30")
@example(date(2020, 2, 28), "30.%m.%Y")
def test_a_day_in_another_form_is_no_name(tmp_path, day, form):
    text = day.strftime(form)
    if text == day.isoformat():
        assert says(entry("unstable", "until", text), tmp_path).content.unstable[0].until == day
        return
    for kind in ("acknowledged", "unstable"):
        expected = "expected a day such as 2026-12-31, or a version or commit"
        told = f"{tmp_path / 'known.yaml'}: {kind}[0].until={json.dumps(text)}: {expected}"
        assert refusal(says, entry(kind, "until", text), tmp_path) == told


NAMES = [
    *("2.2", "v2026.1.2", "2026.1", "2026.12.31", "4f2c9d1", "1234567", "10.0.2004", "nightly-2026-01-05"),
    *("HEADLESS-2", "1.2~rc1", "v1^2", "user@3", "AHEAD"),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("kind", "field"), ENTRIES)
def test_a_version_or_commit_begins_or_ends_an_entry(tmp_path, name, kind, field):
    # as YAML takes it for a number or a name
    text = entry(kind, field, "NAME").replace('"NAME"', name)
    (found,) = getattr(says(text, tmp_path).content, kind)
    assert getattr(found, field) == name


@pytest.mark.parametrize("before", ["", "origin/", "refs/remotes/origin/", "FETCH_", "ORIG_"])
@pytest.mark.parametrize("after", ["", "~1", "^", "^{commit}", "@{1}", "@{yesterday}"])
@pytest.mark.parametrize(("kind", "field"), ENTRIES)
def test_a_moving_commit_is_refused_as_begin_or_end(tmp_path, kind, field, before, after):
    for name in (f"{before}HEAD{after}", "@{1}" if after.startswith("@") else f"@{after}"):
        expected = f'{kind}[0].{field}="{name}" is another commit later; expected a version, or a commit'
        told = refusal(says, entry(kind, field, name), tmp_path)
        assert told.startswith(f"{tmp_path / 'known.yaml'}: {expected}")


@given(st.lists(st.text("ab1[]*?!-=", min_size=1, max_size=6), min_size=1, max_size=4, unique=True))
@example(["sort[n=10]", "sort1"])
@settings(suppress_health_check=list(HealthCheck))
def test_the_exact_name_of_an_operation_covers_no_other(tmp_path, names):
    entries = says(entry("accepted", "since", "1.0", names[0]), tmp_path, measured=names)
    operations = [("bench", name) for name in names]
    assert entries.stale_operations(operations, Revision(("0.9",), tmp_path)) == {operations[0]}


@pytest.mark.parametrize(("slower", "outcome"), [("sort[n=10]", "acknowledged"), ("sort1", "regression")])
def test_an_acknowledged_name_with_brackets_excuses_that_operation(
    compared, sides, tmp_path, slower, outcome
):
    (tmp_path / ".perfjudge.yaml").write_text(entry("acknowledged", "until", "2999-12-31", "sort[n=10]"))
    answer = compared(*sides({slower: 1.5}, levels={"sort[n=10]": 100.0, "sort1": 100.0}))[1]
    assert outcomes(answer)[slower] == outcome
    assert not any("matches no" in note for note in answer["notes"])


@pytest.mark.parametrize("null", ["", "null", "~"])
def test_null_in_a_file_of_acknowledgements_means_nothing(tmp_path, null):
    unstable = f"- {{operation: 'null', by: cleo, reason: net, until: {null}}}"
    content = says(f"acknowledged: {null}\naccepted: {null}\nunstable:\n{unstable}", tmp_path).content
    assert (content.acknowledged, content.accepted) == ((), ())
    assert [(one.operation, one.until) for one in content.unstable] == [("null", None)]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository with three commits, a tag, and a branch that is named like a version."""
    repository = Repository(tmp_path_factory.mktemp("repository"))
    for number in "123":
        repository.git("commit", "--quiet", "--allow-empty", "--message", number)
    for words in (("branch", "1.2"), ("tag", "v1"), ("update-ref", "refs/remotes/origin/work", "HEAD")):
        repository.git(*words)
    return repository


def test_revisions_are_found_by_name_and_by_git(repository):
    first, second, third = repository.git("log", "--reverse", "--format=%H").split()
    named = Revision((f"run-12-g{second}",), repository.root)
    found = [one for one in (first, second, second[:9], third, "--all") if named.contains_change(one)]
    assert found == [first, second, second[:9]]
    # short names of a commit that git does not know
    elsewhere = Revision(("4f2c9d1e",), repository.root)
    assert [elsewhere.contains_change(one) for one in ("4f2c9d1", "4f2c9d")] == [True, False]
    since = says(entry("accepted", "since", second), repository.root, baseline=(second,), target=(third,))
    operations = [("bench", "a"), ("bench", "b")]
    stale = [since.stale_operations(operations, Revision((run,), repository.root)) for run in (first, third)]
    assert stale == [{operations[0]}, set()]


@pytest.mark.parametrize(
    ("baseline", "target", "is_excused"),
    [
        (0, 1, True),
        (0, 2, True),
        (1, 2, False),
        (2, 2, False),
        (0, 0, False),
        (None, 1, True),
        (None, 2, False),
    ],
)
def test_an_accepted_change_excuses_only_its_own_step(repository, baseline, target, is_excused):
    commits = repository.git("log", "--reverse", "--format=%H").split()
    before, after = (("unknown",) if at is None else (commits[at],) for at in (baseline, target))
    accepted = says(entry("accepted", "since", commits[1]), repository.root, baseline=before, target=after)
    slower = SimpleNamespace(benchmark="b", operation="a", verdict="fail", moved=None)
    assert [excuse is not None for excuse in accepted.find_excuses([slower])] == [is_excused]
    notes = [*accepted.entry_notes([slower])]
    assert any("--base-commit" in note for note in notes) == (baseline is None and not is_excused)


@pytest.mark.parametrize(
    ("until", "is_known"),
    [("v1", True), ("1.0", True), ("2999-12-31", True), ("1.10", False), ("0badc0ffee", False)],
)
def test_an_end_that_is_unknown_is_noted(repository, until, is_known):
    known = says(entry("acknowledged", "until", until), repository.root)
    slower = SimpleNamespace(benchmark="b", operation="a", verdict="fail", moved=None)
    assert known.find_excuses([slower])[0] is not None
    told = f'acknowledged "a" by x has not expired: {until} is no compared version, and unknown to git'
    assert [*known.entry_notes([slower])] == ([] if is_known else [f"{known.path}: {told}"])


@pytest.mark.parametrize("name", ["main", "main~1", "1.2", "origin/work", "origin/work@{1}"])
@pytest.mark.parametrize(("kind", "field"), ENTRIES)
def test_a_branch_is_refused_unless_it_is_a_version(repository, name, kind, field):
    root, text = repository.root, entry(kind, field, name)
    expected = f'{kind} "a" by x: {field}="{name}" is another commit later; expected a version, or a commit'
    assert refusal(says, text, root).startswith(f"{root / 'known.yaml'} {expected}")
    assert says(text, root, target=(name,))
    assert says(entry(kind, field, "v1"), root)


def test_history_before_an_accepted_change_is_left_out(compared, tmp_path):
    history = earlier_runs(tmp_path / "earlier", [1] * 8, {"a": 0.8})
    before, after = run_file(tmp_path / "9.json"), run_file(tmp_path / "10.json", seed=1)
    known = tmp_path / "known.yaml"
    known.write_text("accepted:\n- {operation: a, since: 9, by: anna, reason: meant}")
    answer = compared(before, after, "--history", history, "--acknowledged", known)[1]
    assert outcomes(answer)["a"] == "unchanged"
    assert not any("earlier build" in word for word in answer["verdicts"][0]["words"])
    assert any("earlier build" in word for word in answer["verdicts"][1]["words"])


def test_a_comment_has_a_marker_and_names_several_machines(compared, tmp_path):
    for side, scale, seed in (("b", None, 0), ("t", {"a": 1.5, "b": 0.5}, 1)):
        runs = run_file(tmp_path / "m", scale, seed=seed), run_file(tmp_path / "n", machine="n", seed=seed)
        results = [one for run in runs for one in json.loads(run.read_text())["results"]]
        (tmp_path / f"{side}.json").write_text(json.dumps({"results": results}))
    comment = compared("b.json", "t.json", "--name", "fast -->", form="markdown")[1].splitlines()
    assert comment[0] == "<!-- perfjudge compare fast > -->"
    rows = [line.split(" | ")[:3] for line in comment if line.startswith("| **")]
    assert rows == [["| **regression**", "bench/a", "m"], ["| **improvement**", "bench/b", "m"]]


def test_links_devices_and_permissions_of_outputs_stay(compared, tmp_path):
    before, after = run_file(tmp_path / "b.json"), run_file(tmp_path / "t.json", {"a": 1.5})
    (tmp_path / "elsewhere").mkdir()
    page, linked, fifo = tmp_path / "page.html", tmp_path / "elsewhere/comment.md", tmp_path / "fifo"
    page.touch(0o600)
    for name, target in (("link.md", linked), ("null.xml", Path("/dev/null"))):
        (tmp_path / name).symlink_to(target)
    os.mkfifo(fifo)
    read = []
    reader = Thread(target=lambda: read.append(fifo.read_text()), daemon=True)
    reader.start()
    outputs = ("--html", page, "--markdown", tmp_path / "link.md", "--junit", tmp_path / "null.xml")
    assert compared(before, after, *outputs, "-o", fifo, form="table")[0] == 0
    reader.join(60)
    assert "regression" in read[0]
    assert linked.read_text().startswith("<!-- perfjudge compare")
    assert page.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "link.md").is_symlink()
    assert Path("/dev/null").is_char_device()
    assert fifo.is_fifo()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--markdown", "page.html"], "named for two outputs"),
        (["--markdown", "none/page.md"], "none: no such directory"),
        (["-o", "."], "is a directory"),
        (["--step-summary"], "No such file"),
    ],
)
def test_nothing_is_written_if_an_output_is_refused(refused, tmp_path, monkeypatch, options, named):
    run_file(tmp_path / "b.json")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "none/summary"))
    assert named in refused("b.json", "b.json", "--html", "page.html", *options, form="table")
    assert not (tmp_path / "page.html").exists()
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    assert "GITHUB_STEP_SUMMARY" in refused("b.json", "b.json", "--step-summary")


@pytest.mark.parametrize(
    ("option", "output"),
    [
        *(("-o", name) for name in ("b.json", "link.json", "runs/1.json", "runs/new", "h/1.json", ".ack")),
        *((option, "b.json") for option in ("--json-file", "--markdown", "--junit", "--html")),
    ],
)
def test_an_output_that_is_an_input_is_refused(refused, tmp_path, option, output):
    for name in ("b.json", "runs/1.json", "h/1.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        run_file(tmp_path / name)
    (tmp_path / "link.json").symlink_to("b.json")
    (tmp_path / ".ack").touch()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    inputs = ("b.json", "runs", "--history", "h", "--acknowledged", ".ack")
    told = refused(*inputs, option, output, form="junit" if output == ".ack" else "json")
    assert f"{output}: is {'inside the input' if '/' in output else 'the input'} " in told
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_two_commands_of_one_hyperfine_file_are_both_sides(compared, tmp_path):
    levels = {"sleep 0.02": 0.02, "sleep 0.3": 0.3}
    results = [
        {"command": command, "times": [level + 0.001 * number for number in range(6)]}
        for command, level in levels.items()
    ]
    (tmp_path / "bench.json").write_text(json.dumps({"results": results}))
    answer = compared("bench.json", "--between-run-variation", "none")[1]
    (verdict,) = answer["verdicts"]
    assert [verdict["operation"], verdict["target_operation"], verdict["verdict"]] == [*levels, "fail"]
    assert '"sleep 0.3" of bench.json is compared with "sleep 0.02" of bench.json' in answer["notes"][0]
    assert outcomes(compared("bench.json", "--match", "sleep 0.3=sleep 0.02")[1]).keys() == {"sleep 0.3"}
    assert "sleep 0.02 -> sleep 0.3" in compared("bench.json", form="table")[1]
    again = ("--confirm", "1", "--", "cp", shutil.copy(tmp_path / "bench.json", tmp_path / "again.json"))
    assert "confirming" in compared("bench.json", *again, "{output}")[2]


@pytest.mark.parametrize(("levels", "outcome"), [((0.0, 3.0), "regression"), ((3.0, 0.0), "improvement")])
def test_a_metric_that_appears_or_vanishes_is_reported(compared, tmp_path, levels, outcome):
    for side, level in zip("bn", levels, strict=True):
        run_file(tmp_path / f"{side}.json", levels=LEVELS | {"allocs": level, "zero": 0.0})
    failing = int(outcome == "regression")
    code, answer, _ = compared("b.json", "n.json", "--fail-on-regression", "--junit", "junit.xml")
    assert outcomes(answer) == dict.fromkeys(LEVELS, "unchanged") | {"allocs": outcome}
    assert (code, (tmp_path / "junit.xml").read_text().count("<failure")) == (failing, failing)
    assert (answer["missing"], "0 throughout, and left out: zero" in answer["notes"]) == ([], True)
    (told,) = (one for one in answer["verdicts"] if one["operation"] == "allocs")
    verdict = ("fail" if failing else "pass", None, "invalid")
    assert (told["verdict"], told["invalid_reason"], told["model_verdict"]) == verdict
    assert f'result_status="{verdict[0]}"' in compared("b.json", "n.json", form="xml")[1]
    side, other = ("baseline", "target") if levels[1] else ("target", "baseline")
    text, median = told["reason"].rsplit(": ", 1)
    assert text == f"threads 1: the {side} holds no value above 0, the {other}'s median"
    assert float(median) == pytest.approx(3, rel=0.02)
    entry = {"operation": "allocs", "reason": "a cache", "by": "nobody"}
    limited = entry | {"until": "2999-12-31", "at_most": 50}
    for content, excused in (({"unstable": [entry]}, failing), ({"acknowledged": [limited]}, False)):
        (tmp_path / ".perfjudge.yaml").write_text(json.dumps(content))
        answer = compared("b.json", "n.json")[1]
        assert outcomes(answer)["allocs"] == ("acknowledged" if excused else outcome)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ([0], [3], "invalid"),
        ([0, 0], [3, 3], "regression"),
        ([0, 0], [3, 4], "unsure"),
        ([0] * 4, [3, 4, 5, 6], "regression"),
        ([0] * 4, [0, 3, 3, 3], "invalid"),
        ([0, 1, 0, 0], [3] * 4, "invalid"),
    ],
)
def test_values_that_appear_need_evidence_on_both_sides(compared, tmp_path, before, after, outcome):
    for side, values in (("b", before), ("n", after)):
        file = json.loads(run_file(tmp_path / f"{side}.json", levels={"a": 100.0, "x": 1.0}).read_text())
        file["results"][1]["configurations"][0]["samples"] = values
        (tmp_path / f"{side}.json").write_text(json.dumps(file))
    assert outcomes(compared("b.json", "n.json")[1])["x"] == outcome
    summary = compared("b.json", "n.json", form="table")[1].partition("2 comparisons: ")[2]
    assert f"1 {'fail' if outcome == 'regression' else outcome}" in summary


@pytest.mark.parametrize("form", ["table", "json", "xml", "markdown", "junit"])
def test_a_comparison_without_any_judgeable_operation_is_refused(compared, tmp_path, form):
    for side, level in (("b", -3.0), ("n", 3.0)):
        run_file(tmp_path / f"{side}.json", levels={"allocs": level, "frees": level})
    code, answer, said = compared("b.json", "n.json", "--markdown", "comment.md", form=form)
    assert (code, "allocs" in answer, (tmp_path / "comment.md").exists()) == (2, True, True)
    assert said.splitlines()[-1].startswith(
        "perfjudge: b.json and n.json: nothing can be judged: 2 operations invalid; bench/allocs: threads 1: "
    )


def test_matched_operations_are_confirmed_under_both_names(compared, tmp_path):
    named_run(tmp_path / "b.json", ["old", "same"])
    named_run(tmp_path / "n.json", ["same", "new"])
    first, second = (
        ["sh", "-c", f'echo "$PERFJUDGE_OPERATIONS" > {side}.txt; cp {side}.json "$0"', "{output}"]
        for side in "bn"
    )
    noisy = ("--match", "old=new", "--between-run-variation", "3", "--confirm", "1")
    answer = compared("b.json", "n.json", *noisy, "--confirm-base", shlex.join(first), "--", *second)[1]
    assert outcomes(answer).keys() == {"old", "same"}
    assert "old" in (tmp_path / "b.txt").read_text().splitlines()
    assert "new" in (tmp_path / "n.txt").read_text().splitlines()


def test_a_matched_operation_is_not_compared_with_itself(compared, tmp_path):
    base, new = (named_run(tmp_path / f"{side}.json", ["old", "new", "c"]) for side in "bn")
    answer = compared(base, new, "--match", "old=new")[1]
    assert outcomes(answer).keys() == {"old", "c"}
    assert [one["operation"] for one in answer["missing"]] == ["new"]
    moved = next(one for one in answer["verdicts"] if one["operation"] == "old")["moved"]
    assert moved is None or moved["target_median"] == pytest.approx(200, rel=0.05)


NAME = st.text(min_size=1, max_size=12).filter(lambda name: name.strip() and name.isprintable())


@given(st.lists(NAME, min_size=2, max_size=4, unique=True), st.data())
@settings(max_examples=10, suppress_health_check=list(HealthCheck))
def test_any_two_names_can_be_matched_as_suggested(compared, tmp_path, names, data):
    at = data.draw(st.integers(1, len(names) - 1))
    base, new = named_run(tmp_path / "b.json", names[:at]), named_run(tmp_path / "n.json", names[at:])
    code, _, told = compared(base, new)
    assert (code, all(f"bench/{name}/m" in told for name in names)) == (2, True)
    option = shlex.split(told.partition("compare two of them with ")[2])
    code, answer, told = compared(base, new, *option)
    # a name that holds "=" may be read in several ways, which the error says
    assert code == 0 or "may be read in several ways" in told
    if code == 0:
        (verdict,) = answer["verdicts"]
        assert option[1] == f"{verdict['operation']}={verdict['target_operation']}"


@pytest.mark.parametrize(
    ("matches", "told"),
    [
        (["ol=new"], 'operation "ol" of b.json is unknown; did you mean "old"?'),
        (["old"], "has no =; expected BASE=NEW, an operation of each side"),
        (["old=new", "old=new"], "that another --match names"),
    ],
)
def test_a_match_of_unknown_or_repeated_operations_is_refused(refused, tmp_path, matches, told):
    base, new = named_run(tmp_path / "b.json", ["old"]), named_run(tmp_path / "n.json", ["new"])
    assert told in refused(base.name, new.name, *(f"--match={match}" for match in matches))


def test_a_single_side_is_refused_with_what_is_expected(compared, refused, tmp_path):
    assert "expected TARGET, or --target FILE" in refused("--base", run_file(tmp_path / "b.json"))
    told = refused(named_run(tmp_path / "three.json", ["quick", "slow", "true"]))
    assert all(name in told for name in ("quick", "slow", "true"))
    option = shlex.split(told.partition("of this file: ")[2])
    answer = compared(tmp_path / "three.json", *option)[1]
    assert ([one["operation"] for one in answer["verdicts"]], answer["missing"]) == (["quick"], [])


def test_annotations_beyond_the_limit_are_counted():
    missing = tuple(Missing("baseline", "m", "b", f"x,{number}\n") for number in range(25))
    lines = list(github_annotations(SimpleNamespace(ordered_rows=(), missing=missing)))
    assert (len(lines), lines[0]) == (10, "::warning title=vanished::b/x,0%0A/m\n")
    assert lines[-1] == "::warning title=perfjudge::and 16 more\n"
