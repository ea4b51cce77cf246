"""A part that is opened on first use, and closed only if it was opened."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Part = TypeVar("Part")


class Lazy(Generic[Part]):
    """Opens a part on the first call. Safe to use from many threads."""

    __slots__ = ("_lock", "_open", "part")

    def __init__(self, open: Callable[[], Part]) -> None:
        self._open = open
        self._lock = threading.RLock()
        self.part: Part | None = None

    def __call__(self) -> Part:
        """Return the part, and open it first if needed."""
        if self.part is None:
            with self._lock:
                if self.part is None:
                    self.part = self._open()
        return self.part

    def close(self) -> None:
        """Close the part if it was opened."""
        part: Any = self.part
        if part is not None:
            part.close()
