"""Large libraries, imported when one of their attributes is first used: many commands use none."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["pd", "special"]


class _DeferredModule(ModuleType):
    """A stand-in for the module of its name.

    Unlike ``importlib.util.LazyLoader`` before Python 3.12.3, it is safe if several threads use it first.
    """

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import pandas as pd
    from scipy import special
else:
    pd, special = _DeferredModule("pandas"), _DeferredModule("scipy.special")
