"""Programs that measure NumPy."""

import numpy as np

RANDOM = np.random.default_rng(1)


def product(size=120, kind="float64", order="C"):
    """Return a function that multiplies a matrix by itself, or by its transpose (`order` "T")."""
    left = np.asarray(RANDOM.random((size, size)), dtype=kind)
    right = left.T if order == "T" else left
    return lambda: left @ right


def fourier(size=16384, kind="complex"):
    """Return a function that transforms `size` real numbers by `fft`, or by `rfft`."""
    signal = RANDOM.random(size)
    return (lambda: np.fft.fft(signal)) if kind == "complex" else (lambda: np.fft.rfft(signal))


def sort(size=20000, kind="quicksort", shape="random"):
    """Return a function that sorts `size` numbers ("random" or "sorted") by the algorithm `kind`."""
    values = RANDOM.random(size)
    if shape == "sorted":
        values.sort()
    return lambda: np.sort(values, kind=kind)


def decompose(size=60, vectors=1):
    """Return a function that computes singular values of a matrix, and vectors if `vectors`."""
    matrix = RANDOM.random((size, size))
    return lambda: np.linalg.svd(matrix, compute_uv=bool(vectors))


def elementwise(size=50000, kind="float64", place=0):
    """Return a function that computes 2 sqrt(x) + x of `size` numbers; in place (`place`), 2 sqrt(x)."""
    values = RANDOM.random(size).astype(kind)
    out = np.empty_like(values)
    if place:
        return lambda: np.multiply(np.sqrt(values, out=out), 2, out=out)
    return lambda: np.sqrt(values) * 2 + values


def gather(size=200000, shape="random"):
    """Return a function that sums `size` numbers by index, in random or ascending order."""
    values, index = RANDOM.random(size), np.arange(size)
    if shape == "random":
        RANDOM.shuffle(index)
    return lambda: values[index].sum()


def memory(size=2000000, kind="float64", copies=2):
    """Return a function that makes and keeps `copies` arrays of `size` ones, at the first call only."""
    arrays = []

    def unit():
        if not arrays:
            arrays.extend(np.ones(size, kind) for _ in range(copies))

    return unit
