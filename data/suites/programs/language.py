"""Programs that measure the interpreter: calls, attributes, numbers, strings, containers."""

import random


def fibonacci(n=14):
    """Return a function that computes the Fibonacci number `n` recursively."""

    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return lambda: fib(n)


def attributes(slots=1, size=400):
    """Return a function that makes `size` objects, with slots if `slots`, and adds up their x * y."""

    class Slotted:
        __slots__ = ("x", "y")

        def __init__(self, x, y):
            self.x, self.y = x, y

    class Plain:
        def __init__(self, x, y):
            self.x, self.y = x, y

    kind = Slotted if slots else Plain

    def unit():
        points = [kind(i, i + 1) for i in range(size)]
        return sum(point.x * point.y for point in points)

    return unit


def counting(size=3000, words=211):
    """Return a function that counts `size` words, of up to `words` kinds, in a dict, and returns it."""
    text = [f"word{i * i % words}" for i in range(size)]

    def unit():
        counts = {}
        for word in text:
            counts[word] = counts.get(word, 0) + 1
        return counts

    return unit


def sorting(size=2000, shape="random", key=0):
    """Return a function that sorts `size` numbers, which are "random" or "nearly" sorted (`shape`)."""
    numbers = random.Random(1).sample(range(10**6), size)
    if shape == "nearly":
        numbers.sort()
        for i in range(0, size, 20):
            numbers[i] = i
    by = (lambda number: -number) if key else None
    return lambda: sorted(numbers, key=by)


def strings(size=400, how="join"):
    """Return a function that builds a string of `size` parts by `how`: "join", "add" or "format"."""

    def join():
        return "".join(f"{i}:{i * i}," for i in range(size))

    def add():
        text = ""
        for i in range(size):
            text += "%d:%d," % (i, i * i)
        return text

    def form():
        return ",".join("{}:{}".format(i, i * i) for i in range(size))

    return {"join": join, "add": add, "format": form}[how]


def exceptions(size=500, every=2):
    """Return a function that raises and catches an error in every `every`-th of `size` steps."""

    def unit():
        caught = 0
        for i in range(size):
            try:
                if i % every == 0:
                    raise KeyError(i)
            except KeyError:
                caught += 1
        return caught

    return unit


def generators(size=1500, how="generator"):
    """Return a function that sums numbers below `size` by chained generators, or by lists."""

    def lazy():
        return sum(x + 1 for x in (y * 2 for y in range(size) if y % 3))

    def eager():
        return sum([x + 1 for x in [y * 2 for y in range(size) if y % 3]])

    return lazy if how == "generator" else eager


def big_numbers(bits=6000):
    """Return a function that multiplies two integers of `bits` bits and computes a remainder."""
    left, right = (random.Random(seed).getrandbits(bits) for seed in (1, 2))
    return lambda: left * right % (right + 12345)


def sieve(limit=8000, kind="bytearray"):
    """Return a function that finds the primes below `limit`, in a bytearray or a list."""

    def unit():
        alive = bytearray([1]) * limit if kind == "bytearray" else [1] * limit
        for i in range(2, int(limit**0.5) + 1):
            if alive[i]:
                for j in range(i * i, limit, i):
                    alive[j] = 0
        return sum(alive)

    return unit


def nbody(steps=40):
    """Return a function that moves five bodies by `steps` steps from their last positions."""
    bodies = [[float(i), i * 0.5, i * 0.25, 0.0, 0.1, 0.2, 1.0 + i] for i in range(5)]

    def unit():
        for _ in range(steps):
            for i, body in enumerate(bodies):
                for other in bodies[i + 1 :]:
                    dx, dy, dz = body[0] - other[0], body[1] - other[1], body[2] - other[2]
                    pull = 0.001 / (dx * dx + dy * dy + dz * dz + 0.01) ** 1.5
                    body[3] -= dx * pull
                    body[4] -= dy * pull
                    body[5] -= dz * pull
            for body in bodies:
                body[0] += 0.001 * body[3]
                body[1] += 0.001 * body[4]
                body[2] += 0.001 * body[5]

    return unit


def memory(size=60000, kind="list"):
    """Return a function that makes and keeps a `kind` of `size` objects, at the first call only."""
    containers = []
    make = {
        "list": lambda: [(i, str(i)) for i in range(size)],
        "dict": lambda: {i: str(i) for i in range(size)},
        "objects": lambda: [{"id": i, "name": str(i)} for i in range(size)],
        "set": lambda: {str(i) for i in range(size)},
    }[kind]

    def unit():
        if not containers:
            containers.append(make())

    return unit
