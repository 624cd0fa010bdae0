"""Generate an input: ``python inputs.py KIND FILE``; every line can be read on its own."""

import random
import sys

DRAWN = random.Random(1)


def log(number):
    """Return a line of a log with random host, page and duration; `number` gives the day."""
    host, page = DRAWN.randrange(97), DRAWN.randrange(1000)
    return f"2026-05-{number % 28 + 1:02d} host{host} GET /page/{page} took {DRAWN.randrange(9999)} ms"


def numbers(number):
    """Return a line with a random integer, `number` and a random fraction."""
    return f"{DRAWN.randrange(10**6)} {number} {DRAWN.random():.6f}"


def in_order(number):
    """Return the text ``<number + 100000> <number> 0.5``."""
    return f"{number + 10**5} {number} 0.5"


def functions(number):
    """Return the C function ``f<number>`` in one line."""
    loop = f"for (int i = 0; i < x; i++) {{ if (i % {number % 9 + 2}) s += i * y; else s ^= x >> 1; }}"
    return f"int f{number}(int x, int y) {{ int s = {number}; {loop} return s; }}"


def documents(number):
    """Return a JSON object as text: ``id`` (`number`), ``name``, ``value`` (random) and ``tags``."""
    fields = f'"id": {number}, "name": "row {number}", "value": {DRAWN.random():.4f}'
    return f'{{{fields}, "tags": ["a", "b{number % 7}"]}}'


def mixed(number):
    """Return a line with `number`, 160 random bits in hexadecimal, and fixed words."""
    return f"{number} {DRAWN.getrandbits(160):x} some words that come again and again"


if __name__ == "__main__":
    kind, path = sys.argv[1:]
    count = {"functions": 60000, "documents": 100000}.get(kind, 400000)
    with open(path, "w") as output:
        output.writelines(globals()[kind](number) + "\n" for number in range(count))
