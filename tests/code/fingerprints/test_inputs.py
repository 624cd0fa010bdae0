"""Requests whose data can all be used become a profile's input without tables, with equal results."""

import copy

import numpy as np
import pytest

from data.fingerprints.params import Fingerprints
from data.tables.problems import Problems
from serving.fingerprints.inputs import complete_application, requested_application, tables_of
from serving.fingerprints.schemas import IrupRequest
from tests.system.fingerprints.inputs import fingerprints, request

MISSING = Fingerprints().checks.max_missing_fraction


def changed(change, per_cpu=2):
    body = copy.deepcopy(request(fingerprints(12, per_cpu), "cached", without=("m3", "m10")))
    change(body["machines"], body["application"]["values"])
    return IrupRequest.model_validate(body)


def repeat_values(machines, values):
    values |= {"m1": [3.0, 1.0, 2.0], "m11": [50.0]}


def leave_gaps(machines, values):
    machines[3]["rates"] |= {"zero": None}
    del machines[9]["rates"]["cache"], machines[1]["rates"]["vm"]


def add_rates_on_all_threads(machines, values):
    for number, machine in enumerate(machines):
        machine["rates"] |= {"cpu@all": 7.0 + number, "cp": 3.0 + number % 5}
    machines[4]["rates"] |= {"cpu@all": None}


def leave_cpus_unknown(machines, values):
    machines.reverse()
    for machine in machines:
        machine |= {"cpu": None, "stress_ng": "0.17"}


USABLE = [lambda *_: None, repeat_values, leave_gaps, add_rates_on_all_threads, leave_cpus_unknown]


@pytest.mark.parametrize("change", USABLE)
def test_complete_requests_give_the_same_input_without_tables(change):
    body = changed(change)
    quick, problems = complete_application(body, MISSING), Problems()
    thorough = requested_application(tables_of(body, problems), Fingerprints())
    for field in ("x", "y", "machines", "cpus", "application", "metric", "better", "columns"):
        np.testing.assert_array_equal(getattr(quick.measured, field), getattr(thorough.measured, field))
    for field in ("unmeasured", "unmeasured_rates"):
        np.testing.assert_array_equal(getattr(quick, field), getattr(thorough, field))
    assert quick.warning_lines() == thorough.warning_lines()
    assert quick.warning_lines(3) == thorough.warning_lines(3)
    assert sorted(quick.unmeasured) == ["m10", "m3"]
    assert len(quick.warning_lines()) == {leave_gaps: 3, add_rates_on_all_threads: 1}.get(change, 0)


DOUBTED = {
    "repetitions": lambda machines, _: machines[0]["rates"].update(cpu=[1.0, 2.0]),
    "a repeated machine": lambda machines, _: machines.append(machines[0]),
    "a machine with too many gaps": lambda machines, _: machines[0]["rates"].update(cpu=None, vm=None),
    "a stressor with too many gaps": lambda machines, _: [m["rates"].pop("vm") for m in machines[:4]],
    "a constant stressor": lambda machines, _: [m["rates"].update(vm=3.0) for m in machines],
    "a stressor without a name": lambda machines, _: [
        m["rates"].update({"@all": float(n)}) for n, m in enumerate(machines, 1)
    ],
    "a blank CPU model": lambda machines, _: machines[0].update(cpu=" "),
    "two versions of stress-ng": lambda machines, _: machines[0].update(stress_ng="0.18"),
    "an unknown machine": lambda _, values: values.update(m99=1.0),
    "two units": lambda _, values: values.update(m1=1e9),
    "equal values": lambda _, values: values.update(dict.fromkeys(values, 1.0)),
    "two values": lambda _, values: [values.popitem() for _ in range(8)],
    "two machines": lambda machines, values: [machines.pop() for _ in range(10)] + [values.pop("m2")],
}


@pytest.mark.parametrize("change", DOUBTED.values(), ids=DOUBTED)
def test_requests_with_doubtful_data_are_left_to_the_tables(change):
    assert complete_application(changed(change), MISSING) is None
