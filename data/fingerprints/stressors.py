"""The stressors of seed 003, table 1, and their categories.

The table says 42, and lists ``vm-rw`` twice: 41 names. The paper's own data has two more, ``null`` and
``opcode``; both are here, with the classes that stress-ng gives them.
"""

from __future__ import annotations

CPU, CACHE, MEMORY, VM = "CPU", "Cache", "Mem", "VM"
ALL_BUT_VM = (CPU, CACHE, MEMORY)
#: Categories by stressor, in the order of the table.
CATEGORIES: dict[str, tuple[str, ...]] = {
    "af-alg": (CPU,),
    "atomic": (CPU, MEMORY),
    "bigheap": (VM,),
    "brk": (CPU,),
    "bsearch": ALL_BUT_VM,
    "cache": (CACHE,),
    "cpu": (CPU,),
    "crypt": (CPU,),
    "full": (MEMORY,),
    "heapsort": ALL_BUT_VM,
    "hsearch": ALL_BUT_VM,
    "icache": (CACHE,),
    "lockbus": (CACHE, MEMORY),
    "longjmp": (CPU,),
    "lsearch": ALL_BUT_VM,
    "malloc": (CACHE, MEMORY, VM),
    "matrix": ALL_BUT_VM,
    "memcpy": (MEMORY,),
    "mincore": (MEMORY,),
    "mmap": (VM,),
    "mremap": (VM,),
    "msync": (VM,),
    "nop": (CPU,),
    "null": (MEMORY,),
    "numa": (CPU, MEMORY),
    "oom-pipe": (MEMORY,),
    "opcode": (CPU,),
    "qsort": ALL_BUT_VM,
    "remap": (MEMORY, VM),
    "resources": (MEMORY,),
    "rmap": (MEMORY,),
    "shm": (VM,),
    "shm-sysv": (VM,),
    "stack": (MEMORY, VM),
    "stackmmap": (MEMORY, VM),
    "str": ALL_BUT_VM,
    "stream": (CPU, MEMORY),
    "tsearch": ALL_BUT_VM,
    "vecmath": (CPU, CACHE),
    "vm": (MEMORY, VM),
    "vm-rw": (MEMORY, VM),
    "vm-splice": (VM,),
    "zero": (MEMORY,),
}
