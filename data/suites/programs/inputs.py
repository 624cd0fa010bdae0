"""Make an input: ``python inputs.py KIND FILE``; every line of it is whole by itself."""

import random
import sys

DRAWN = random.Random(1)


def log(number):
    """Return a line of a log."""
    host, page = DRAWN.randrange(97), DRAWN.randrange(1000)
    return f"2026-05-{number % 28 + 1:02d} host{host} GET /page/{page} took {DRAWN.randrange(9999)} ms"


def numbers(number):
    """Return a line of numbers."""
    return f"{DRAWN.randrange(10**6)} {number} {DRAWN.random():.6f}"


def in_order(number):
    """Return a line of numbers that ascend."""
    return f"{number + 10**5} {number} 0.5"


def functions(number):
    """Return a function in C."""
    loop = f"for (int i = 0; i < x; i++) {{ if (i % {number % 9 + 2}) s += i * y; else s ^= x >> 1; }}"
    return f"int f{number}(int x, int y) {{ int s = {number}; {loop} return s; }}"


def documents(number):
    """Return a document in JSON."""
    known = f'"id": {number}, "name": "row {number}", "value": {DRAWN.random():.4f}'
    return f'{{{known}, "tags": ["a", "b{number % 7}"]}}'


def mixed(number):
    """Return a line that compresses in part."""
    return f"{number} {DRAWN.getrandbits(160):x} some words that come again and again"


if __name__ == "__main__":
    kind, path = sys.argv[1:]
    with open(path, "w") as made:
        made.writelines(
            globals()[kind](number) + "\n"
            for number in range({"functions": 60000, "documents": 100000}.get(kind, 400000))
        )
