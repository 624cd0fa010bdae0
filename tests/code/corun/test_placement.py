"""Placements: exact for pairs, no worse than chance for more, and never more than there is room for."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from data.errors import InputError
from training.corun.placement import Room, best_placement, pairwise_cost, random_totals, worst_placement

#: Tasks 0 and 1 hurt each other, as do 2 and 3; all others get along.
TWO_FEUDS = np.array([[0, 5, 0, 0], [3, 0, 0, 0], [0, 0, 0, 4], [0, 0, 4, 0]], np.float64)


def every_total(slowdown: np.ndarray, slots: int) -> list[float]:
    """Return the total of every placement on full machines, by trying them all."""
    cost, tasks = pairwise_cost(slowdown), len(slowdown)
    return [
        float(cost([order[n : n + slots] for n in range(0, tasks, slots)]).sum())
        for order in permutations(range(tasks))
    ]


def test_tasks_that_hurt_each_other_are_separated() -> None:
    found = best_placement(4, Room(machines=2, slots=2), pairwise_cost(TWO_FEUDS))
    assert found.total == 0
    assert found.exact
    assert not {(0, 1), (2, 3)} & set(found.groups)


def test_the_worst_placement_joins_mutually_harmful_tasks() -> None:
    found = worst_placement(4, Room(machines=2, slots=2), pairwise_cost(TWO_FEUDS))
    assert found.groups == ((0, 1), (2, 3))
    assert found.total == 5 + 3 + 4 + 4


@pytest.mark.parametrize(("tasks", "slots"), [(6, 2), (6, 3), (8, 4)])
def test_best_and_worst_placements_match_an_exhaustive_search(tasks: int, slots: int) -> None:
    slowdown = np.random.default_rng(tasks).random((tasks, tasks))
    room, cost = Room(tasks // slots, slots), pairwise_cost(slowdown)
    totals = every_total(slowdown, slots)
    assert best_placement(tasks, room, cost).total == pytest.approx(min(totals))
    assert worst_placement(tasks, room, cost).total == pytest.approx(max(totals))


def test_an_aggressive_task_is_placed_alone_if_best() -> None:
    slowdown = np.array([[0, 1, 9], [1, 0, 9], [9, 9, 0]], np.float64)
    found = best_placement(3, Room(machines=2, slots=2), pairwise_cost(slowdown))
    assert found.groups == ((0, 1), (2,))
    assert found.total == 2


def test_tasks_with_mutual_gain_share_a_machine() -> None:
    slowdown = -np.ones((4, 4))
    assert best_placement(4, Room(machines=3, slots=2), pairwise_cost(slowdown)).total == -4


def test_random_placements_lie_between_best_and_worst() -> None:
    slowdown = np.random.default_rng(3).random((9, 9))
    room, cost = Room(3, 3), pairwise_cost(slowdown)
    totals = random_totals(9, room, cost, draws=50, seed=1)
    assert totals.min() >= best_placement(9, room, cost).total - 1e-9
    assert totals.max() <= worst_placement(9, room, cost).total + 1e-9
    assert totals.std() > 0


def test_more_tasks_than_slots_are_refused() -> None:
    with pytest.raises(
        InputError, match="5 tasks don't fit on 2 machines with 2 slots each; expected at most 4"
    ):
        best_placement(5, Room(2, 2), pairwise_cost(np.zeros((5, 5))))
