"""Programs that measure NumPy."""

import numpy as np

RANDOM = np.random.default_rng(1)


def product(size=120, kind="float64", order="C"):
    """Multiply matrices."""
    left = np.asarray(RANDOM.random((size, size)), dtype=kind)
    right = left.T if order == "T" else left
    return lambda: left @ right


def fourier(size=16384, kind="complex"):
    """Transform a signal."""
    signal = RANDOM.random(size)
    return (lambda: np.fft.fft(signal)) if kind == "complex" else (lambda: np.fft.rfft(signal))


def sort(size=20000, kind="quicksort", shape="random"):
    """Sort an array."""
    values = RANDOM.random(size)
    if shape == "sorted":
        values.sort()
    return lambda: np.sort(values, kind=kind)


def decompose(size=60, vectors=1):
    """Compute singular values."""
    matrix = RANDOM.random((size, size))
    return lambda: np.linalg.svd(matrix, compute_uv=bool(vectors))


def elementwise(size=50000, kind="float64", place=0):
    """Compute element by element."""
    values = RANDOM.random(size).astype(kind)
    out = np.empty_like(values)
    if place:
        return lambda: np.multiply(np.sqrt(values, out=out), 2, out=out)
    return lambda: np.sqrt(values) * 2 + values


def gather(size=200000, shape="random"):
    """Take elements by index."""
    values, index = RANDOM.random(size), np.arange(size)
    if shape == "random":
        RANDOM.shuffle(index)
    return lambda: values[index].sum()


def memory(size=2000000, kind="float64", copies=2):
    """Hold copies of an array; measured by its peak memory."""
    arrays = []

    def unit():
        if not arrays:
            arrays.extend(np.ones(size, kind) for _ in range(copies))

    return unit
