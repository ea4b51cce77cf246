"""Reports changes of custom tools, skills and commands: watches their folders, and rescans when something changes.

Only these folders are watched, and the folders above them where one may be created, none of them recursively. When
the system's limit on watches is reached, the folders are polled once a second. A change counts only if a scan finds
different contents, so a new untrusted tool is not a change.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from hilt.custom.candidates import is_skipped
from hilt.errors import ToolError
from hilt.loaders import LoadedFolder, Scanner

POLL_SECONDS = 1.0
REST_SECONDS = 10.0  # between scans for changes that cannot be watched: behind links, on network file systems
STEP_MS = 100  # to wait for a further change
GROUP_MS = 400  # to wait for further changes at most
TICK_MS = 200
CLOSE_SECONDS = 5.0
FOLDERS = 4000  # watched at most


class FolderWatch:
    """Watches folders in a separate thread for as long as there are listeners."""

    def __init__(self, discovery: Scanner[Any], *, native: bool = True) -> None:
        self._discovery = discovery
        self._native = native
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        discovery.listen(self._note_change)

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after every later change; return a function that removes it."""
        self._discovery.current(rescan=True)
        with self._lock:
            self._callbacks.append(callback)
            if self._thread is None:
                self._changed.clear()
                self._stop = threading.Event()
                self._thread = threading.Thread(target=self._run, args=(self._stop,), name="hilt-watch", daemon=True)
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
        """Stop the thread; no callback is called afterwards."""
        with self._lock:
            self._callbacks.clear()
            thread, self._thread = self._thread, None
            self._stop.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)

    def _note_change(self, contents: object) -> None:
        self._changed.set()

    def _run(self, stop: threading.Event) -> None:
        for _ in self._scan_times(stop):
            with suppress(OSError, ToolError):  # the next scan tries again
                self._discovery.current(rescan=True)
            self._notify()

    def _notify(self) -> None:
        # a call may have scanned before us, so rely on the reported change, not on our own scan
        if not self._changed.is_set():
            return
        self._changed.clear()
        with self._lock:
            callbacks = list(self._callbacks)
        for callback in callbacks:
            with suppress(Exception):  # a failing callback must not keep the others from being called
                callback()

    def _scan_times(self, stop: threading.Event) -> Iterator[None]:
        """Yield when it is time to scan."""
        if self._native:
            with suppress(ImportError, OSError, RuntimeError):  # the system limits the number of watches
                yield from self._events(stop)
        while not stop.wait(POLL_SECONDS):
            yield

    def _events(self, stop: threading.Event) -> Iterator[None]:
        from watchfiles import watch

        places = self._discovery.places
        state, scanned_at = self._state(), time.monotonic()
        while not stop.is_set():
            folders = set(watched(places))
            is_first = True
            try:
                for changes in watch(
                    *folders,
                    watch_filter=None,  # filtered changes yield nothing, so a scan that is due would be delayed
                    debounce=GROUP_MS,
                    step=STEP_MS,
                    rust_timeout=TICK_MS,
                    yield_on_timeout=True,
                    stop_event=stop,
                    raise_interrupt=False,
                    recursive=False,
                    ignore_permission_denied=True,
                ):
                    self._notify()
                    is_ours = any(_concerns(path, places) for _, path in changes)
                    # trust may have changed; its database changes often, for other reasons
                    waited = time.monotonic() - scanned_at
                    is_due = waited > REST_SECONDS or (waited > POLL_SECONDS and state != self._state())
                    if is_first or is_ours or is_due:
                        state, scanned_at, is_first = self._state(), time.monotonic(), False
                        yield
                        if is_ours and set(watched(places)) != folders:
                            break
            except FileNotFoundError:
                stop.wait(TICK_MS / 1000)  # a folder was deleted just before it was watched

    def _state(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._discovery.also]


def watched(places: Iterable[LoadedFolder]) -> list[str]:
    """Return the folders to watch: the places and their subfolders, and the two levels above."""
    folders: dict[str, None] = {}
    for place in places:
        parent = os.path.dirname(place.path)
        nearest = place.path
        while not os.path.isdir(nearest):
            nearest = os.path.dirname(nearest)
        parents = [folder for folder in (parent, os.path.dirname(parent)) if os.path.isdir(folder)]
        folders |= dict.fromkeys([nearest, *parents])
        if nearest == place.path:
            folders |= dict.fromkeys(_below(place.path, deep=place.source == "project"))
    return list(folders)[:FOLDERS]


def _below(folder: str, *, deep: bool) -> Iterator[str]:
    """Yield the subfolders of a folder; unless `deep`, only the top level."""
    pending = [folder]
    for parent in pending:
        with suppress(OSError), os.scandir(parent) as listing:
            for entry in listing:
                if len(pending) < FOLDERS and entry.is_dir() and not is_skipped(entry.name):
                    yield entry.path
                    if deep and not entry.is_symlink():
                        pending.append(entry.path)


def _concerns(path: str, places: Iterable[LoadedFolder]) -> bool:
    """Whether a change of this path may change the tools: it is in their folder, or their folder is in it."""
    return any(f"{path}/".startswith(f"{place.path}/") or f"{place.path}/".startswith(f"{path}/") for place in places)


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
