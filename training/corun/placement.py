"""Placement of tasks on machines so that they slow one another down least.

With two tasks per machine it is a minimum-weight matching, solved exactly by the blossom algorithm
(rustworkx). With more it is hard in general: a greedy start, then exchanges of two tasks until none improves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError

Floats = NDArray[np.float64]
#: The tasks of one machine, ascending.
Group = tuple[int, ...]
#: ``cost(groups)`` returns the slow-down of every group, summed over its tasks, shape (n_groups,).
Cost = Callable[[list[Group]], Floats]
#: Costs are scaled to whole numbers up to this one for the matching.
_STEPS = 2**40
#: Number of starts of the local search: the given order of the tasks, then random ones.
_STARTS = 4
#: Maximal number of slots of all machines; random placements draw from all of them.
MOST_SLOTS = 100_000
#: Smaller improvements are rounding errors.
_GAIN = 1e-12


@dataclass(frozen=True)
class Placement:
    """A placement of tasks on machines.

    `groups` are task numbers per machine, without empty machines; `total` is the slow-down (impact - 1)
    summed over tasks; `exact`: whether it is known that no placement has a smaller total (for
    `worst_placement`: a larger one).
    """

    groups: tuple[Group, ...]
    total: float
    exact: bool


@dataclass(frozen=True)
class Room:
    """The number of machines, and the number of tasks that each takes."""

    machines: int
    slots: int

    def require_space(self, tasks: int) -> None:
        """Raise InputError if `tasks` do not fit, a number is below 1, or there are over 100,000 slots."""
        if tasks < 1:
            raise InputError(f"{tasks} tasks to place: expected at least 1")
        if self.machines < 1 or self.slots < 1:
            raise InputError(f"machines={self.machines}, slots={self.slots}: expected at least 1 of each")
        if tasks > self.machines * self.slots:
            raise InputError(
                f"{tasks} tasks don't fit on {self.machines} machines with {self.slots} slots each; "
                f"expected at most {self.machines * self.slots}"
            )
        if self.machines * self.slots > MOST_SLOTS:
            problem = f"are {self.machines * self.slots} slots in all; expected at most {MOST_SLOTS}"
            raise InputError(f"machines={self.machines}, slots={self.slots}: {problem}")


#: Number of slow-downs that are added up at a time, which bounds memory.
_AT_ONCE = 2**20


def pairwise_cost(slowdown: Floats) -> Cost:
    """Return a function that computes the slow-down of groups of tasks, summed over their tasks.

    It takes a list of groups, each a tuple of any number of task numbers, from 0, and returns shape
    (n_groups,), 0 without a pair. The slow-down of a task is the sum of ``slowdown[i, j]`` over its
    co-runners, of which only the largest speed-up counts. `slowdown`: shape (n_tasks, n_tasks); [i, j] is
    impact - 1 of task i with co-runner j.
    """

    def sum_over_tasks(groups: list[Group]) -> Floats:
        sums, sizes = np.zeros(len(groups)), np.array([len(group) for group in groups], np.intp)
        for size in np.unique(sizes[sizes > 1]).tolist():
            of_size = np.flatnonzero(sizes == size)
            for rows in np.array_split(of_size, -(-len(of_size) * size**2 // _AT_ONCE)):
                tasks = np.array([groups[row] for row in rows])
                beside = slowdown[tasks[:, :, None], tasks[:, None, :]]
                beside[:, range(size), range(size)] = 0.0
                by_task = np.minimum(beside.min(axis=2), 0) + np.maximum(beside, 0).sum(axis=2)
                sums[rows] = by_task.sum(axis=1)
        return sums

    return sum_over_tasks


def best_placement(tasks: int, room: Room, cost: Cost, seed: int = 0) -> Placement:
    """Return the placement with the smallest total slow-down; exact for one or two slots per machine.

    With more slots it is the best result of a local search, seeded by `seed`, with ``exact=False``. `tasks`
    is the number of tasks; `cost` takes groups of task numbers, from 0, and returns slow-downs, each the sum
    over the tasks of a group, shape (n_groups,), 0 for one task or none. InputError as by
    `Room.require_space`.
    """
    room.require_space(tasks)
    # further machines stay empty
    room = Room(min(room.machines, tasks), room.slots)
    if room.slots == 1:
        return _make_placement([(task,) for task in range(tasks)], cost, exact=True)
    if room.slots == 2:  # noqa: PLR2004 - a pair
        return _match_tasks(tasks, room, cost)
    generator = np.random.default_rng(seed)
    orders = [np.arange(tasks), *(generator.permutation(tasks) for _ in range(_STARTS - 1))]
    improved = [_improve_groups(_place_greedily(order.tolist(), room, cost), room, cost) for order in orders]
    return _make_placement(min(improved, key=lambda groups: total_slowdown(groups, cost)), cost, exact=False)


def worst_placement(tasks: int, room: Room, cost: Cost, seed: int = 0) -> Placement:
    """Return a placement with a large total on the fewest machines that hold `tasks`, or on more.

    More are used only if a pair is quicker together than alone. For one or two slots per machine it is the
    worst placement on these machines (``exact=True``); else the worst that a local search, seeded by `seed`,
    finds (``exact=False``). Arguments and errors are those of `best_placement`.
    """
    room.require_space(tasks)
    filled = Room(-(-tasks // room.slots), room.slots)
    has_quicker_pair = (cost(list(combinations(range(tasks), 2))) < 0).any()
    opposites = [
        best_placement(tasks, used, lambda groups: -cost(groups), seed)
        for used in dict.fromkeys([filled, room] if has_quicker_pair else [filled])
    ]
    opposite = min(opposites, key=lambda placed: placed.total)
    return _make_placement(list(opposite.groups), cost, exact=opposite.exact)


def random_totals(tasks: int, room: Room, cost: Cost, draws: int, seed: int) -> Floats:
    """Return the total slow-downs of the placements of `random_placements`, shape (draws,); same errors."""
    placements = random_placements(tasks, room, cost, draws, seed)
    return np.array([placement.total for placement in placements], np.float64)


def random_placements(tasks: int, room: Room, cost: Cost, draws: int, seed: int) -> list[Placement]:
    """Return `draws` random placements of `tasks` tasks on the machines of `room`, each with its total.

    Each puts the tasks into slots drawn without replacement; placements may repeat, and ``exact`` is False.
    `cost` and errors are as of `best_placement`.
    """
    room.require_space(tasks)
    generator = np.random.default_rng(seed)
    slots = (generator.permutation(room.machines * room.slots)[:tasks] for _ in range(draws))
    return [
        _make_placement(_group_by_machine(task_slots // room.slots), cost, exact=False)
        for task_slots in slots
    ]


def _match_tasks(tasks: int, room: Room, cost: Cost) -> Placement:
    """Return the exact optimum; slots that may stay empty are partners with zero cost."""
    import rustworkx

    edges = list(combinations(range(tasks), 2))
    costs = cost([(i, j) for i, j in edges])
    alone = 2 * room.machines - tasks
    empties = min(alone, tasks) + (tasks + min(alone, tasks)) % 2
    pairs = [*edges, *((i, tasks + k) for i in range(tasks) for k in range(empties))]
    pairs += list(combinations(range(tasks, tasks + empties), 2))
    weights = np.concatenate([costs, np.zeros(len(pairs) - len(edges))])
    steps = np.rint((weights.max() - weights) / max(float(np.ptp(weights)), _GAIN) * _STEPS).astype(np.int64)
    graph = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(tasks + empties))
    graph.add_edges_from([(i, j, step) for (i, j), step in zip(pairs, steps.tolist(), strict=True)])
    matching = rustworkx.max_weight_matching(graph, max_cardinality=True, weight_fn=int)
    # the matching is a set in random order
    groups = sorted(tuple(sorted(task for task in pair if task < tasks)) for pair in matching)
    return _make_placement([group for group in groups if group], cost, exact=True)


def _place_greedily(order: Iterable[int], room: Room, cost: Cost) -> list[Group]:
    groups: list[Group] = [()] * room.machines
    costs = np.zeros(room.machines)
    for task in order:
        open_ = [n for n, group in enumerate(groups) if len(group) < room.slots]
        grown = [_replace_tasks(groups[n], (), task) for n in open_]
        new = cost(grown)
        least = int(np.argmin(new - costs[open_]))
        groups[open_[least]], costs[open_[least]] = grown[least], new[least]
    return groups


def _improve_groups(groups: list[Group], room: Room, cost: Cost) -> list[Group]:
    costs = cost(groups)
    better = True
    while better:
        better = False
        for first, second in combinations(range(len(groups)), 2):
            changed = _exchange_tasks(groups[first], groups[second], room.slots)
            if not changed:
                continue
            pair_costs = cost([group for pair in changed for group in pair]).reshape(-1, 2)
            least = int(np.argmin(pair_costs.sum(axis=1)))
            if pair_costs[least].sum() < costs[first] + costs[second] - _GAIN:
                groups[first], groups[second] = changed[least]
                costs[first], costs[second] = pair_costs[least]
                better = True
    return [group for group in groups if group]


def _exchange_tasks(first: Group, second: Group, slots: int) -> list[tuple[Group, Group]]:
    """Return both groups after each exchange of two tasks, and after each move into a free slot."""
    changed = [
        (_replace_tasks(first, {out}, into), _replace_tasks(second, {into}, out))
        for out in first
        for into in second
    ]
    if len(second) < slots:
        changed += [(_replace_tasks(first, {out}), _replace_tasks(second, (), out)) for out in first]
    if len(first) < slots:
        changed += [(_replace_tasks(first, (), out), _replace_tasks(second, {out})) for out in second]
    return changed


def _replace_tasks(group: Group, gone: Collection[int], *come: int) -> Group:
    return tuple(sorted([*(task for task in group if task not in gone), *come]))


def _group_by_machine(machines: NDArray[np.intp]) -> list[Group]:
    order = np.argsort(machines, kind="stable")
    cuts = np.flatnonzero(np.diff(machines[order])) + 1
    return [tuple(sorted(part.tolist())) for part in np.split(order, cuts)]


def total_slowdown(groups: list[Group], cost: Cost) -> float:
    """Return the slow-down summed over groups of task numbers; a group of one task counts 0.

    `cost` is called once, with the groups of several tasks, perhaps none; not at all if `groups` is empty.
    """
    return float(cost([group for group in groups if len(group) > 1]).sum()) if groups else 0.0


def _make_placement(groups: list[Group], cost: Cost, *, exact: bool) -> Placement:
    return Placement(tuple(sorted(groups)), total_slowdown(groups, cost), exact)
