"""Suites of measurements: a wrong one is refused in one line, and its kind chooses its collector."""

import pytest
import yaml

from data.collect import find_collector
from data.comparisons import suite as comparisons
from data.corun import run as corun
from data.errors import InputError
from data.families import FAMILIES
from data.fingerprints import collect as fingerprints
from data.matrices import suite as matrices
from tests.code.suites import CASES, COMPARISONS, CONSTRAINED, CORUN, FINGERPRINT, MATRIX, SORT
from tests.imports import ROOT

TASK = {"name": "x", "group": "cpu"}
WRONG = [
    (comparisons, COMPARISONS, {"passes": 0}, "passes=0 is not a number of at least 1"),
    (comparisons, COMPARISONS, {"sedds": 1}, 'sedds is unknown; did you mean "seed"?'),
    (comparisons, COMPARISONS, {"history": 6}, "the file: passes=6 must be above history=6"),
    (comparisons, COMPARISONS, {"history": 0}, "history=0 is not a number of at least 1"),
    (comparisons, COMPARISONS, {"operations": [SORT | {"comand": "x"}]},
     'operations[0].comand is unknown; did you mean "command"?'),
    (comparisons, COMPARISONS, {"operations": [True]},
     "operations[0]=true is not an object"),
    (comparisons, COMPARISONS, {"operations": [SORT | {"also": ["fast"]}]},
     "operation \"sort\": also='fast': expected seed"),
    (comparisons, COMPARISONS, {"operations": [SORT] * 2}, 'operation "sort": occurs twice'),
    *((comparisons, COMPARISONS, {"operations": [SORT | wrong]}, f'operation "sort": {problem}')
      for wrong, problem in [
          ({"command": "{nosuch} {work}"}, "'nosuch' is not a setting; expected {python}, {programs}"),
          ({"build": "cc {sorce}"}, "'sorce' is not a setting"),
          ({"command": "sort {work"}, "expected '}' before end of string"),
          ({"command": "{n}", "settings": {"n": 1}, "changes": {"a": {"n": "'"}}}, "No closing quotation"),
      ]),
    (corun, CORUN, {"together": 1}, "together=1 is not a number of at least 2"),
    (corun, CORUN, {"tasks": [TASK | {"comand": ["true"]}]},
     'tasks[0].comand is unknown; did you mean "command"?'),
    (corun, CORUN, {"events": []}, "events is empty; expected at least one"),
    (corun, CORUN, {"tasks": [CORUN["tasks"][0]] * 2}, 'task "sort": occurs twice'),
    (corun, CORUN, {"tasks": [TASK]}, 'task "x": names a stressor, a workload or a command, one of them'),
    (corun, CORUN, {"tasks": [TASK | {"name": "a+b", "command": ["true"]}]},
     'task "a+b": must be without "+", which joins names'),
    (fingerprints, FINGERPRINT, {"seconds": 0}, "seconds=0 is not a number of at least 1"),
    (fingerprints, FINGERPRINT, {"threads": ["some"]}, 'threads[0]="some" is not "one" or "all"'),
    (fingerprints, FINGERPRINT, {"stressors": ["cpu", "cpu"]}, 'stressor "cpu": occurs twice'),
    (fingerprints, FINGERPRINT, {"colour": "red"},
     "colour is unknown; there are kind, name, seed, timeout, foreign, attempts, seconds, repetitions"),
    (fingerprints, CONSTRAINED, {"threads": ["all"]}, "threads=['all']: expected [one] under constraints"),
    (fingerprints, CONSTRAINED, {"constraints": []}, "programs need constraints to run under"),
    (fingerprints, CONSTRAINED, {"constraints": [CONSTRAINED["constraints"][0]] * 2},
     'constraint "a 1": occurs twice'),
    (fingerprints, CONSTRAINED, {"constraints": [{"name": "a", "kind": "k", "traced": 99}]},
     "constraints[0].traced=99"),
    (matrices, MATRIX, {"sizes": []}, "sizes is empty; expected at least one"),
    (matrices, MATRIX, {"abnormal": 1.5}, "abnormal=1.5 is not a number below 1"),
    (matrices, MATRIX, {"causes": ["extra-wrok"]},
     'cause "extra-wrok" is unknown; did you mean "extra-work"?'),
    (matrices, MATRIX, {"causes": ["rust"]}, 'cause "rust" is unknown; there are extra-work, quota'),
    (matrices, MATRIX, {"invalid_kinds": []}, "invalid_kinds=[]: expected at least one"),
    (matrices, MATRIX, {"cases": [CASES[0] | {"workload": "rust"}]}, 'workload "rust" is unknown'),
    (matrices, MATRIX, {"cases": [CASES[0] | {"second": "rust"}]}, 'workload "rust" is unknown'),
    (matrices, MATRIX, {"cases": [CASES[0]] * 2}, 'case "sort": occurs twice'),
    (matrices, MATRIX, {"cases": []}, "cases=[]: expected at least one, or a mixture"),
]  # fmt: skip


@pytest.mark.parametrize(("family", "suite", "change", "message"), WRONG)
def test_a_wrong_suite_is_refused_in_one_line(tmp_path, family, suite, change, message):
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(suite | change))
    with pytest.raises(InputError) as error:
        family.load_suite(path)
    assert str(error.value).replace(f"{path}: ", f"{path} ").startswith(f"{path} {message}")
    assert "\n" not in str(error.value)


def test_the_kind_of_a_suite_selects_its_collector(tmp_path):
    for family in FAMILIES:
        suite = ROOT / f"data/suites/{family.replace('fingerprints', 'fingerprint')}.yaml"
        assert find_collector(suite).__module__ == f"data.{family}.collect"
    path = tmp_path / "suite.yaml"
    path.write_text("kind: weather\n")
    with pytest.raises(InputError, match=r"suite\.yaml: kind='weather': expected comparisons or matrix"):
        find_collector(path)
