"""One name for each event, whatever vendors, kernels and perf's modifiers call it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from data.tables.problems import nearest

#: Other names of events, by the one that perf lists first. Of raw codes, those that a kernel has no name for.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "instructions": (
        *("inst_retired.any", "inst_retired.any_p", "inst_retired", "instr_retired", "retired_instructions"),
        *("ex_ret_instr", "fixed_instruction_retired", "pm_inst_cmpl"),
    ),
    "cpu-cycles": (
        *("cycles", "cpu_clk_unhalted.thread", "cpu_clk_unhalted.thread_p", "cpu_clk_unhalted.core"),
        *("ls_not_halted_cyc", "core_cycles", "fixed_cycle", "pm_cyc"),
    ),
    "ref-cycles": ("cpu_clk_unhalted.ref_tsc", "cpu_clk_unhalted.ref", "ls_not_halted_p0_cyc"),
    "bus-cycles": (),
    "branch-instructions": (
        *("branches", "br_inst_retired.all_branches", "ex_ret_brn", "br_retired", "branch-loads"),
        "pm_br_cmpl",
    ),
    "branch-misses": (
        *("br_misp_retired.all_branches", "ex_ret_brn_misp", "br_mis_pred_retired", "br_mis_pred"),
        *("branch-load-misses", "pm_br_mpred_cmpl"),
    ),
    "cache-references": ("longest_lat_cache.reference", "ll_cache", "l3_cache"),
    "cache-misses": ("longest_lat_cache.miss", "ll_cache_miss", "l3_cache_refill"),
    "LLC-loads": ("ll_cache_rd", "mem_load_retired.l2_miss"),
    "LLC-load-misses": ("ll_cache_miss_rd", "mem_load_retired.l3_miss", "llc-misses"),
    "LLC-stores": (),
    "LLC-store-misses": (),
    "L1-dcache-loads": (
        *("mem_inst_retired.all_loads", "mem_uops_retired.all_loads", "ls_dispatch.ld_dispatch"),
        *("l1d_cache_rd", "l1d_cache", "l1-dcache-accesses"),
    ),
    "L1-dcache-load-misses": (
        *("l1d.replacement", "mem_load_retired.l1_miss", "l1d_cache_refill", "l1d_cache_refill_rd"),
        *("l1-dcache-misses", "l1d-misses"),
    ),
    "L1-dcache-stores": (
        *("mem_inst_retired.all_stores", "mem_uops_retired.all_stores", "ls_dispatch.store_dispatch"),
        "l1d_cache_wr",
    ),
    "L1-dcache-store-misses": ("l1d_cache_refill_wr",),
    "L1-icache-loads": ("l1i_cache", "l1-icache-accesses"),
    "L1-icache-load-misses": ("l1i_cache_refill", "icache_misses", "icache.misses", "l1-icache-misses"),
    "dTLB-loads": ("l1d_tlb_rd", "l1d_tlb"),
    "dTLB-load-misses": (
        *("dtlb_load_misses.walk_completed", "dtlb_load_misses.miss_causes_a_walk", "l1d_tlb_refill_rd"),
        *("l1d_tlb_refill", "dtlb_walk", "dtlb-misses"),
    ),
    "dTLB-stores": ("l1d_tlb_wr",),
    "dTLB-store-misses": ("dtlb_store_misses.walk_completed", "l1d_tlb_refill_wr"),
    "iTLB-loads": ("l1i_tlb",),
    "iTLB-load-misses": ("itlb_misses.walk_completed", "l1i_tlb_refill", "itlb_walk", "itlb-misses"),
    "node-loads": (),
    "node-load-misses": (),
    "node-stores": (),
    "node-store-misses": (),
    "stalled-cycles-frontend": ("idle-cycles-frontend", "stall_frontend"),
    "stalled-cycles-backend": (
        *("idle-cycles-backend", "stall_backend", "cycle_activity.stalls_total"),
        *("cycle_activity.stalls_mem_any", "exe_activity.bound_on_loads"),
    ),
    "task-clock": (),
    "cpu-clock": (),
    "context-switches": ("cs",),
    "cpu-migrations": ("migrations",),
    "page-faults": ("faults",),
    "minor-faults": ("min-faults", "page-faults-min"),
    "major-faults": ("maj-faults", "page-faults-maj"),
    "alignment-faults": (),
    "emulation-faults": (),
    "cgroup-switches": (),
    "duration_time": (),
    "user_time": (),
    "system_time": (),
}
#: ``cpu_core/instructions/u``: where, what, and modifiers.
_WITHIN = re.compile(r"(?P<pmu>[\w.-]+)/(?P<event>[^/]+)/(?P<modes>\w*)")
_MODES = re.compile(r"(?P<event>.+?)(?::(?P<modes>[a-zA-Z]+))?")
#: Modifiers of privilege; those of precision change no count.
_PRIVILEGES = "ukh"


def _spelt(name: str) -> str:
    return name.casefold().replace("_", "-")


_KNOWN = {_spelt(other): name for name, others in SYNONYMS.items() for other in (name, *others)}


@dataclass(frozen=True)
class EventName:
    """An event by our name, if it has one, else as it was written.

    ``pmu`` is the kind of processor that counts it, empty for all; ``privileges`` are ``u`` or ``k`` where
    only these were counted, empty for all.
    """

    event: str
    pmu: str
    privileges: str

    @classmethod
    def of(cls, written: str) -> EventName:
        """Take a name apart."""
        within = _WITHIN.fullmatch(written) or _MODES.fullmatch(written)
        if within is None:
            return cls(written, "", "")
        told = within.groupdict()
        kept = "".join(sorted({*(told["modes"] or "")} & {*_PRIVILEGES}))
        event = _KNOWN.get(_spelt(told["event"]), told["event"])
        return cls(event, told.get("pmu") or "", "" if "u" in kept and "k" in kept else kept)


@dataclass(frozen=True)
class Canonical:
    """Samples under our names of events, and the ``privileges`` of those that were counted for some only."""

    table: pd.DataFrame
    privileges: dict[str, str]


def canonical(table: pd.DataFrame, time: str, kept: Collection[str] = ()) -> Canonical:
    """Return samples with one name for each event.

    The counts of several kinds of processor of one machine are added up, and those of user and kernel mode
    where nothing has both. Of two names of one event the first counts.

    Parameters
    ----------
    time : str
        The column that is no event.
    kept : collection of str
        Names that stay as they are.
    """
    written: dict[str, dict[str, dict[str, str]]] = {}
    for name in map(str, table.columns.drop(time)):
        named = EventName(name, "", "") if name in kept else EventName.of(name)
        written.setdefault(named.event, {}).setdefault(named.privileges, {}).setdefault(named.pmu, name)
    columns, privileges = {time: table[time]}, {}
    for event, by_privilege in written.items():
        parts = {"": by_privilege[""]} if "" in by_privilege else by_privilege
        names = [name for pmus in parts.values() for name in pmus.values()]
        columns[event] = table[names].sum(axis="columns", min_count=1) if names[1:] else table[names[0]]
        if parts.keys() != {""} and parts.keys() != {"u", "k"}:
            privileges[event] = "".join(sorted(parts))
    return Canonical(pd.DataFrame(columns), privileges)


def unknown(names: Iterable[str], further: Collection[str] = ()) -> dict[str, str | None]:
    """Return the events that neither the table nor `further` knows, each with the nearest known name."""
    known = {*SYNONYMS, *further}
    everyone = known | {other for others in SYNONYMS.values() for other in others}
    return {name: nearest(name, everyone) for name in names if name not in known}
