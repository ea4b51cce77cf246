"""One display, opened on first use and used by one call at a time, in all processes."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from hilt.desktop.displays import IS_MAC, find_display, lock_name
from hilt.desktop.interface import AccessibleElements, ElementTree, Pause, ScreenBackend, ScreenWindow
from hilt.desktop.privacy import Privacy
from hilt.errors import ToolError

POLL_SECONDS = 0.02


class SharedDisplay:
    """The display that the settings name. Safe to use from many threads."""

    def __init__(self, environ: Mapping[str, str], *, display: str | None, private: Sequence[str], state: str) -> None:
        """`display` and `private` are settings; `state` is the state directory, which has the lock."""
        self._environ = environ
        self._chosen = display
        self._privacy = Privacy(private)
        self._state = state
        self._lock = threading.Lock()
        self._screen: ScreenBackend | None = None
        self._elements: AccessibleElements | None = None

    @contextmanager
    def reserved(self, check: Callable[[], None]) -> Iterator[ScreenBackend]:
        """Wait until no other call uses the display, and yield it; `check` raises if the call was stopped."""
        display = find_display(self._environ, self._chosen)
        while not self._lock.acquire(timeout=POLL_SECONDS):
            check()
        try:
            path = os.path.join(self._state, f"desktop-{lock_name(display)}.lock")
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                while not _try_lock(descriptor):
                    check()
                    time.sleep(POLL_SECONDS)
                screen = self._open(display)
                try:
                    yield screen
                except screen.failures as error:
                    raise ToolError(
                        "tool_failed",
                        f"The display {display} reported an error: {type(error).__name__} {error}.",
                        suggestion="Take a new screenshot, then try again.",
                    ) from error
            finally:
                os.close(descriptor)
        finally:
            self._lock.release()

    def _open(self, display: str) -> ScreenBackend:
        if self._screen is not None and not self._screen.is_alive():
            self.close()
        if self._screen is None:
            if IS_MAC:
                from hilt.desktop.macos import MacScreen

                self._screen = MacScreen(self._privacy)
            else:
                self._screen = _open_x11(display, self._privacy)
        return self._screen

    def tree(self, windows: Sequence[ScreenWindow], pause: Pause) -> ElementTree:
        """Return the elements in these windows; without an accessibility interface, only a note."""
        try:
            return self.elements().tree(windows, pause)
        except OSError as error:
            self._drop_elements()
            return ElementTree((), (f"There is no accessibility tree: {error}. Use coordinates.",))

    def elements(self) -> AccessibleElements:
        """Return the accessibility interface; raise OSError if there is none."""
        if self._elements is None:
            if IS_MAC:
                from hilt.desktop.macos import MacElements

                self._elements = MacElements(self._privacy)
            else:
                from hilt.desktop.accessibility import Accessibility, session_bus

                self._elements = Accessibility(session_bus(self._environ), self._privacy)
        return self._elements

    def _drop_elements(self) -> None:
        if self._elements is not None:
            self._elements.close()
            self._elements = None

    def close(self) -> None:
        """Release all pressed keys and buttons, and disconnect."""
        self._drop_elements()
        if self._screen is not None:
            self._screen.close()
            self._screen = None


def _open_x11(display: str, privacy: Privacy) -> ScreenBackend:
    try:
        from hilt.desktop.x11.display import XDisplay
    except OSError as error:  # importing the package loads a system library
        raise ToolError(
            "runtime_missing",
            f"Desktop control needs the system library libxcb, which cannot be loaded: {error}",
            suggestion="Ask the user to install it; on Debian: apt-get install libxcb1",
        ) from error
    return XDisplay(display, privacy)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
