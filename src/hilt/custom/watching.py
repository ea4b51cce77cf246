"""Tells when the custom tools have changed: the folders are watched, and looked at when something happens in them.

Only the folders of tools are watched, and those above them in which one may come to be, none of these with what is
below. Where the system can watch no more, the folders are looked at once a second instead. What counts is what a look
finds, so that a tool which the person does not trust is no change.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from hilt.custom.candidates import ToolPlace, is_passed_over
from hilt.custom.discovery import Discovery
from hilt.custom.layers import CustomTools
from hilt.errors import ToolError

POLL_SECONDS = 1.0
REST_SECONDS = 10.0  # what lies behind a link, or on another machine, is not watched
STEP_MS = 100  # a change is waited for that follows another so soon
GROUP_MS = 400  # but no longer than this
TICK_MS = 200
CLOSE_SECONDS = 5.0
FOLDERS = 4000  # that are watched, at most


class ToolWatch:
    """Looks at the tool folders in a thread of its own, from the first listener to the last."""

    def __init__(self, discovery: Discovery, *, native: bool = True) -> None:
        self._discovery = discovery
        self._native = native
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        discovery.listen(self._hear)

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called after every change from now on; what is returned ends that."""
        self._discovery.current(look=True)
        with self._lock:
            self._callbacks.append(callback)
            if self._thread is None:
                self._changed.clear()
                self._stop = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._stop,), name="hilt-tools-watch", daemon=True
                )
                self._thread.start()

        def remove() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)
                is_last = not self._callbacks
            if is_last:
                self.close()

        return remove

    def close(self) -> None:
        """End the thread; no callback is called after."""
        with self._lock:
            self._callbacks.clear()
            thread, self._thread = self._thread, None
            self._stop.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)

    def _hear(self, found: CustomTools) -> None:
        self._changed.set()

    def _run(self, stop: threading.Event) -> None:
        for _ in self._occasions(stop):
            with suppress(OSError, ToolError):  # what cannot be looked at now is looked at again
                self._discovery.current(look=True)
            self._tell()

    def _tell(self) -> None:
        # a call may have looked before us, so what was heard counts, not our own look
        if not self._changed.is_set():
            return
        self._changed.clear()
        with self._lock:
            callbacks = list(self._callbacks)
        for callback in callbacks:
            with suppress(Exception):  # one whose listener is gone must not keep the others from hearing
                callback()

    def _occasions(self, stop: threading.Event) -> Iterator[None]:
        """Yield when it is time to look."""
        if self._native:
            with suppress(ImportError, OSError, RuntimeError):  # there are limits to how much one may watch
                yield from self._events(stop)
        while not stop.wait(POLL_SECONDS):
            yield

    def _events(self, stop: threading.Event) -> Iterator[None]:
        from watchfiles import watch

        places = self._discovery.places
        state, looked = self._state(), time.monotonic()
        while not stop.is_set():
            folders = set(watched(places))
            fresh = True
            try:
                for changes in watch(
                    *folders,
                    watch_filter=None,  # or what does not concern us would keep us from looking at the rest
                    debounce=GROUP_MS,
                    step=STEP_MS,
                    rust_timeout=TICK_MS,
                    yield_on_timeout=True,
                    stop_event=stop,
                    raise_interrupt=False,
                    recursive=False,
                    ignore_permission_denied=True,
                ):
                    self._tell()
                    is_ours = any(_concerns(path, places) for _, path in changes)
                    # what is trusted may have changed; that file changes often, for other reasons
                    waited = time.monotonic() - looked
                    is_due = waited > REST_SECONDS or (waited > POLL_SECONDS and state != self._state())
                    if fresh or is_ours or is_due:
                        state, looked, fresh = self._state(), time.monotonic(), False
                        yield
                        if is_ours and set(watched(places)) != folders:
                            break
            except FileNotFoundError:
                stop.wait(TICK_MS / 1000)  # a folder went just before it was watched

    def _state(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._discovery.also]


def watched(places: Iterable[ToolPlace]) -> list[str]:
    """Return the folders to watch: those of tools, what is in them, and the two above, where they are or may be."""
    found: dict[str, None] = {}
    for place in places:
        above = os.path.dirname(place.path)
        nearest = place.path
        while not os.path.isdir(nearest):
            nearest = os.path.dirname(nearest)
        around = [folder for folder in (above, os.path.dirname(above)) if os.path.isdir(folder)]
        found |= dict.fromkeys([nearest, *around])
        if nearest == place.path:
            found |= dict.fromkeys(_below(place.path, deep=place.source == "project"))
    return list(found)[:FOLDERS]


def _below(folder: str, *, deep: bool) -> Iterator[str]:
    """Yield the folders of tools; of one that is the user's own only what is at its top counts."""
    waiting = [folder]
    for outer in waiting:
        with suppress(OSError), os.scandir(outer) as listing:
            for entry in listing:
                if len(waiting) < FOLDERS and entry.is_dir() and not is_passed_over(entry.name):
                    yield entry.path
                    if deep and not entry.is_symlink():
                        waiting.append(entry.path)


def _concerns(path: str, places: Iterable[ToolPlace]) -> bool:
    """Whether a change of this path may change the tools: it is in their folder, or their folder is in it."""
    return any(f"{path}/".startswith(f"{place.path}/") or f"{place.path}/".startswith(f"{path}/") for place in places)


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
