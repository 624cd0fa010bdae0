"""Placements: exact for pairs, no worse than chance for more, and never more than there is room for."""

from functools import cache, partial
from itertools import permutations

import numpy as np
import pytest

from serving.corun.static import add_slowdowns
from tests.data.refusals import refusal
from training.corun.placement import Room, best_placement, pairwise_cost, random_totals, worst_placement


def every_total(slowdown, room):
    """Return the total of every placement, by trying all orders of the tasks and of the empty slots."""
    cost, tasks = pairwise_cost(slowdown), len(slowdown)

    @cache
    def of_machine(machine):
        return float(cost([[task for task in machine if task < tasks]])[0])

    slots = room.machines * room.slots
    machines = [slice(begin, begin + room.slots) for begin in range(0, slots, room.slots)]
    return [sum(of_machine(order[machine]) for machine in machines) for order in permutations(range(slots))]


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
def test_slowdowns_of_a_group_add_up_as_those_of_several_co_runners(slots):
    slowdown = np.random.default_rng(slots).random((6, 6)) - 0.5
    group = (5, 0, 3, 1, 4)[:slots]
    impacts = [[1 + slowdown[task, other] for other in group if other != task] for task in group]
    expected = sum(add_slowdowns(np.array(of_task)) - 1 for of_task in impacts) if slots > 1 else 0.0
    assert pairwise_cost(slowdown)([(), group, (2,)]).tolist() == [0.0, pytest.approx(float(expected)), 0.0]


@pytest.mark.parametrize(
    ("tasks", "machines", "slots"), [(6, 3, 2), (6, 2, 3), (8, 2, 4), (3, 2, 2), (4, 3, 2), (5, 2, 3)]
)
def test_best_and_worst_placements_match_an_exhaustive_search(tasks, machines, slots):
    # some tasks are quicker beside others
    slowdown = np.random.default_rng(tasks).random((tasks, tasks)) - 0.3
    room, cost = Room(machines, slots), pairwise_cost(slowdown)
    totals = every_total(slowdown, room)
    best = best_placement(tasks, room, cost)
    assert (best.total, best.exact) == (pytest.approx(min(totals)), slots <= 2)
    assert worst_placement(tasks, room, cost).total == pytest.approx(max(totals))


@pytest.mark.parametrize(
    ("tasks", "room", "message"),
    [
        (5, Room(2, 2), "5 tasks don't fit on 2 machines with 2 slots each; expected at most 4"),
        *((0, Room(2, slots), "0 tasks to place: expected at least 1") for slots in (1, 2, 3)),
        (2, Room(10**9, 10**9), "slots in all; expected at most 100000"),
        (2, Room(1, 100_001), "100001 slots in all; expected at most 100000"),
    ],
)
@pytest.mark.parametrize("place", [best_placement, worst_placement, partial(random_totals, draws=2, seed=0)])
def test_impossible_numbers_of_tasks_or_slots_are_refused(place, tasks, room, message):
    assert refusal(place, tasks, room, pairwise_cost(np.ones((tasks, tasks)))).endswith(message)


@pytest.mark.parametrize("slots", [2, 3])
@pytest.mark.parametrize("machines", [2, 3, 5])
def test_random_placements_lie_between_best_and_worst(machines, slots):
    slowdown = np.random.default_rng(machines).random((4, 4)) - 0.8
    room, cost = Room(machines, slots), pairwise_cost(slowdown)
    totals = random_totals(4, room, cost, draws=200, seed=1)
    assert totals.max() <= worst_placement(4, room, cost).total + 1e-9
    assert totals.min() >= best_placement(4, room, cost).total - 1e-9
    assert totals.std() > 0


@pytest.mark.parametrize("room", [Room(50_000, 2), Room(33_333, 3), Room(1, 100_000)])
def test_most_slots_do_not_slow_down_a_placement(room):
    cost = pairwise_cost(np.random.default_rng(1).random((5, 5)))
    expected = cost([range(5)])[0] if room.machines == 1 else 0
    assert best_placement(5, room, cost).total == pytest.approx(expected)
