"""Programs that behave badly, ended in every way: nothing of them is left, and what they print is bounded."""

import json
import signal
import subprocess
import sys
from itertools import combinations

import pandas as pd
import pytest
import yaml

from data.measure.groups import why_no_groups
from tests.system.conftest import wait_until
from tests.system.measuring import ROOT, collected, kept, own_groups, running

#: A program that does all that its arguments name, and says in a file that it has begun to.
BAD = """
import os, signal, subprocess, sys, time
token, ready, *does = sys.argv[1:]
sleeper = [sys.executable, "-S", "-c", "import time; time.sleep(300)", token]
if "ignores SIGTERM" in does:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "setsid child" in does:
    subprocess.Popen(sleeper, start_new_session=True)
if "double fork" in does and os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp(sleeper[0], sleeper)
    os._exit(0)
if "closed child" in does:
    subprocess.Popen(sleeper, start_new_session=True, env={}, stdin=-3, stdout=-3, stderr=-3)
open(ready, "w").close()
end = time.monotonic() + (300 if "hangs" in does else 0.1)
line = b"x" * 65536
while time.monotonic() < end:
    if "prints" in does:
        os.write(1, line)
    else:
        time.sleep(0.01)
"""
#: Runs bad programs one after the other in a process that is told to end by a signal, and says what it found.
MEASURING = """
import os, sys, threading, time
from itertools import combinations
from pathlib import Path
from data.measure import child, groups
from data.measure.child import TimedOutError, end_in_good_order, execute
from tests.system.measuring import running

bad, scratch, groups_there, ending, *everything = sys.argv[1:]
child.GRACE = 0.2
if groups_there == "without":
    groups.why_no_groups = lambda: "none here"
else:
    assert not groups.why_no_groups()
end_in_good_order()

def interrupt(ready):
    while not ready.exists():
        time.sleep(0.005)
    os.kill(os.getpid(), int(ending))

for many in (0, 1, len(everything)):
    for number, does in enumerate(combinations(everything, many)):
        ready, how = Path(scratch, f"ready-{many}-{number}"), "ended"
        hangs = [] if ending == "normal" else ["hangs"]
        if ending.isdecimal():
            threading.Thread(target=interrupt, args=[ready]).start()
        command = [sys.executable, "-S", bad, f"token-{os.getpid()}", str(ready), *hangs, *does]
        try:
            execute(command, "x", Path(scratch), 0.3 if ending == "time-out" else None)
        except TimedOutError as exc:
            how = str(exc)
        except KeyboardInterrupt:
            how = "interrupted"
        left, size = running(f"token-{os.getpid()}"), Path(scratch, "output").stat().st_size
        print(how, len(left), size, *does, sep="|")
"""
DOES = ["prints", "ignores SIGTERM", "setsid child", "double fork", "closed child"]
ENDINGS = {
    "normal": "ended",
    "time-out": "x: ran for longer than 0.3 seconds",
    str(int(signal.SIGINT)): "interrupted",
    str(int(signal.SIGTERM)): "interrupted",
}
#: As many bytes as are kept of what a program prints, with the line between.
MOST = 2 * 65536 + 100


@pytest.fixture(params=["with", "without"])
def groups(request):
    if request.param == "with" and why_no_groups():
        pytest.skip("there are no control groups")
    return request.param


@pytest.mark.parametrize(("ending", "told"), ENDINGS.items())
def test_no_process_of_a_bad_program_survives(tmp_path, groups, ending, told):
    (tmp_path / "bad.py").write_text(BAD)
    paths = [str(tmp_path / "bad.py"), str(tmp_path)]
    command = [sys.executable, "-c", MEASURING, *paths, groups, ending, *DOES]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE) as measuring:
        lines = [line.rstrip("\n").split("|") for line in measuring.stdout]
    assert measuring.returncode == 0
    assert [does for _, _, _, *does in lines] == [
        [*does] for size in (0, 1, len(DOES)) for does in combinations(DOES, size)
    ]
    for how, left, size, *does in lines:
        assert (how, left) == (told, "0"), does
        assert int(size) <= MOST, does
    assert own_groups(measuring.pid) == []


def test_a_killed_measurement_also_ends_its_program(tmp_path, groups):
    # without control groups nobody ends what the program has started
    does = [*DOES[1:]] if groups == "with" else ["ignores SIGTERM"]
    ready, token = tmp_path / "ready", f"token-{tmp_path.name}"
    program = [sys.executable, "-S", "-c", BAD, token, str(ready), "hangs", *does]
    without = "groups.why_no_groups = lambda: 'none here'; " if groups == "without" else ""
    measure = f"from data.measure import child, groups; {without}child.execute({program!r}, 'x')"
    with subprocess.Popen([sys.executable, "-c", measure], cwd=ROOT) as measuring:
        wait_until(ready.exists)
        assert running(token)
        measuring.kill()
    wait_until(lambda: not running(token) and not own_groups(measuring.pid))


SUITE = {
    "kind": "comparisons", "name": "tiny", "seed": 3, "passes": 4, "history": 1, "same": 1, "changes": 1,
    "injected": [], "seconds": 0.004, "samples": [3, 3], "pairs": [8, 8], "timeout": 1,
}  # fmt: skip
#: Prints the seconds of its work; the samples from the tenth to the twelfth don't end.
SOMETIMES = """
count=$(($(cat {0}/count) + 1)); echo $count > {0}/count
[ $count -ge 10 -a $count -le 12 ] && sleep 300
echo 0.01
"""


def test_a_hanging_run_is_invalid_and_measuring_continues(tmp_path):
    path, out, script = tmp_path / "suite.yaml", tmp_path / "out", tmp_path / "sometimes.sh"
    script.write_text(SOMETIMES.format(tmp_path))
    (tmp_path / "count").write_text("0")
    operation = {"name": "nap", "group": "x", "command": f"sh {script} {{work}}", "work": 1}
    path.write_text(yaml.safe_dump(SUITE | {"operations": [operation]}))
    told = collected(path, out)
    settings = json.loads((out / "settings.json").read_text())
    problem = 'operation "nap": ran for longer than 1 seconds'
    assert [one["problem"] for one in settings["invalid"]] == [problem] * len(settings["invalid"])
    assert 1 <= len(settings["invalid"]) < 4
    assert f"invalid: nap unchanged (run): {problem}" in told
    lines = kept(out)
    # what is invalid is not measured again, unless it may take longer
    collected(path, out)
    assert kept(out) == lines
    path.write_text(yaml.safe_dump(SUITE | {"operations": [operation], "timeout": 20}))
    collected(path, out)
    assert json.loads((out / "settings.json").read_text())["invalid"] == []
    results = pd.read_parquet(out / "results.parquet")
    assert sorted(results["order"].unique()) == [0, 1, 2, 3]
