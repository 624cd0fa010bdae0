"""What takes seconds to compute, and is computed while pages show what there was before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Generic, TypeVar

from data.errors import InputError

LOG = logging.getLogger("perfjudge")
T = TypeVar("T")


@dataclass
class Background(Generic[T]):
    """A value that a thread computes, once for each state of what it depends on.

    Attributes
    ----------
    name : str
        What is computed, for the log.
    value : object or None
        What was computed last; None until then.
    trouble : str
        Why the last computing failed; empty if it did not.
    state : hashable or None
        What the value, or the trouble, belongs to.
    """

    name: str
    value: T | None = None
    trouble: str = ""
    state: Hashable = None
    _thread: Thread | None = None
    _lock: Lock = field(default_factory=Lock)

    def of(self, state: Hashable, compute: Callable[[], T]) -> T | None:
        """Return what was computed last; unless that is of this state, compute it anew meanwhile."""
        with self._lock:
            if self.state != state and self._thread is None:
                self._thread = Thread(target=self._run, args=(state, compute), name=self.name, daemon=True)
                self._thread.start()
        return self.value

    def wait(self, seconds: float) -> None:
        """Wait for what is being computed, if anything is."""
        if (thread := self._thread) is not None:
            thread.join(seconds)

    def _run(self, state: Hashable, compute: Callable[[], T]) -> None:
        trouble = ""
        try:
            self.value = compute()
        except InputError as exc:
            trouble = str(exc)
        except Exception as exc:
            LOG.exception("%s failed", self.name)
            trouble = f"{self.name} failed ({type(exc).__name__}); the server's log says more"
        self.trouble, self.state, self._thread = trouble, state, None
