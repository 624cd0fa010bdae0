"""The stressors of seed 003, table 1, and their categories.

The table says 42, and lists ``vm-rw`` twice: 41 names. The paper's own data has two more, ``null`` and
``opcode``; both are here, with the classes that stress-ng gives them.
"""

from __future__ import annotations

CPU, CACHE, MEMORY, VM = "CPU", "Cache", "Mem", "VM"
_NAMES = {
    (CPU,): "af-alg brk cpu crypt longjmp nop opcode",
    (CACHE,): "cache icache",
    (MEMORY,): "full memcpy mincore null oom-pipe resources rmap zero",
    (VM,): "bigheap mmap mremap msync shm shm-sysv vm-splice",
    (CPU, CACHE): "vecmath",
    (CPU, MEMORY): "atomic numa stream",
    (CACHE, MEMORY): "lockbus",
    (MEMORY, VM): "remap stack stackmmap vm vm-rw",
    (CPU, CACHE, MEMORY): "bsearch heapsort hsearch lsearch matrix qsort str tsearch",
    (CACHE, MEMORY, VM): "malloc",
}
#: Categories by stressor, in the order of the table.
CATEGORIES: dict[str, tuple[str, ...]] = dict(
    sorted((name, kinds) for kinds, names in _NAMES.items() for name in names.split())
)
