"""Read NumPy archives from outside, and check the kind and shape of every array."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.errors import InputError

#: Maximum unpacked size of an archive.
MAX_BYTES = 2**30
_WORDS = {"f": "numbers", "i": "whole numbers", "b": "truth values", "U": "text"}
#: Exceptions of NumPy and zipfile for invalid files.
_UNREADABLE = (
    *(OSError, EOFError, ValueError, TypeError, RuntimeError, MemoryError, OverflowError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
)


class ArraySpec(NamedTuple):
    """The expected kind and shape of an array.

    ``kind`` is "f" for floats, "i" for integers, "b" for truth values, "U" for text. A name in ``shape`` is a
    size of at least 1, equal wherever the name is used. ``finite`` is whether floats must be finite.
    """

    kind: str
    shape: tuple[int | str, ...]
    finite: bool = True


def read_arrays(
    path: Path, specs: Mapping[str, ArraySpec], optional: Collection[str] = ()
) -> dict[str, NDArray[Any]]:
    """Return the arrays of `specs` by name from a NumPy archive, read without pickle.

    Those in `optional` may be absent; arrays without a spec are ignored. InputError if the file is missing,
    is not a NumPy archive, would unpack to more than `MAX_BYTES` (1 GiB), or if an array is missing, is
    empty, or differs from its spec.
    """
    try:
        with zipfile.ZipFile(path) as packed:
            size = sum(member.file_size for member in packed.infolist())
        if size > MAX_BYTES:
            raise InputError(f"unpacks to {size >> 20} MB; expected {MAX_BYTES >> 20} at most", file=path)
        with np.load(path, allow_pickle=False) as archive:
            names = list(archive.files)
            arrays = {name: archive[name] for name in specs if name in names}
    except FileNotFoundError as exc:
        raise InputError("no such file", file=path) from exc
    except _UNREADABLE as exc:
        raise InputError(f"is not a readable NumPy archive ({exc})", file=path) from exc
    missing = [name for name in specs if name not in arrays and name not in optional]
    if missing:
        raise InputError(f'has no array "{missing[0]}"; found {", ".join(names)[:200]}', file=path)
    sizes: dict[str, int] = {}
    for name, array in arrays.items():
        difference = _spec_difference(array, specs[name], sizes)
        if difference:
            raise InputError(difference, file=path, place=f'array "{name}"')
    return arrays


def _spec_difference(array: NDArray[Any], spec: ArraySpec, sizes: dict[str, int]) -> str:
    """Return the difference of an array from its spec, empty if none; add the named sizes to `sizes`."""
    # members that are not arrays are read as bytes
    shape, dtype = np.shape(array), np.asarray(array).dtype
    if len(shape) == len(spec.shape):
        for length, name in zip(shape, spec.shape, strict=True):
            if isinstance(name, str):
                sizes.setdefault(name, length)
    expected = tuple(sizes.get(size, 1) if isinstance(size, str) else size for size in spec.shape)
    if dtype.kind != spec.kind or shape != expected:
        return f"holds {dtype} of shape {shape}; expected {_WORDS[spec.kind]} of shape {expected}"
    if 0 in shape:
        return "is empty"
    if spec.finite and spec.kind == "f" and not np.isfinite(array).all():
        return f"holds {array[~np.isfinite(array)][0]}; expected finite numbers"
    return ""
