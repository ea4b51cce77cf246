"""The watches of running confined programs, and records of them that survive a crash.

Each program is recorded in the state directory before it starts: if hilt is killed, the next start finishes the checks.
A lock on the record shows whether the process that wrote it is alive. Nothing is synced: a crash of the machine ends
the program too, and what it left is checked if its record survived.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic, thread_time, time_ns
from typing import Any, NamedTuple

from hilt.errors import ToolError
from hilt.sandbox.disarming import MAX_NOTES, GitWatch, Guard, StateBefore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.inotify import RepositoryEvents
    from hilt.sandbox.profile import Profile
    from hilt.sandbox.sensitive import Findings, Search

_DEATH_SECONDS = 10.0  # programs of a killed hilt have ended by then
_SILENT_SECONDS = 900.0  # longer than a program runs without a check: it did not make later changes
_READ_SHARE = 20  # checks of changes may take 1/20 of the time of one CPU ...
_READ_AHEAD_SECONDS = 1.0  # ... and the share of this long at once
_MAX_ROUNDS = 4  # of checks, for repositories in which folders keep appearing
_DEAD = ".dead"


class RunningWatch(NamedTuple):
    """What the caller of a watched program uses: notes, checks while it runs, and what it wrote again.

    `check` checks everything, `check_changes` only what has just changed, once the descriptor of `changes` is
    readable; it should not be polled before the given time.
    """

    notes: Callable[[], tuple[str, ...]]
    check: Callable[[], None]
    repeated: Callable[[], str]
    changes: Callable[[], tuple[int, float]]
    check_changes: Callable[[], None]


class Watches:
    """The watches of one process, and the records of all. Safe to use from many threads."""

    def __init__(self, records: str, search: Search) -> None:
        self._records = records
        self._search = search
        self._lock = threading.RLock()
        self._running: dict[GitWatch, _Record] = {}
        self._pending: list[str] = []
        self._events: RepositoryEvents | None = None
        self._listening: set[GitWatch] = set()  # whose callers poll for events
        self._paid_until = 0.0  # when the CPU budget covers what checks of changes have used

    @contextmanager
    def hold(self, profile: Profile, findings: Findings, guard: Guard) -> Iterator[RunningWatch]:
        """Watch the workspace while a program runs in it, and check what it has left when it has ended."""
        if not profile.writable:
            yield RunningWatch(lambda: (), lambda: None, lambda: "", lambda: (-1, inf), lambda: None)
            return
        with self._lock:
            watch = GitWatch.begin(profile, findings, guard)
            self._running[watch] = record = _Record(self._records, watch.before)

        try:
            yield RunningWatch(
                notes=lambda: watch.notes,
                check=lambda: self._check(watch, profile.is_sensitive),
                repeated=lambda: watch.repeated,
                changes=lambda: self._changes(watch),
                check_changes=lambda: self._check_changes(profile.is_sensitive),
            )
        finally:
            with self._lock:
                del self._running[watch]
                self._add_notes(watch.settle(self._search, profile.is_sensitive))
                self._listening.discard(watch)
                if self._events is not None and not self._listening:
                    self._events.close()
                    self._events = None
            record.remove()

    def catch_up(self, is_sensitive: Callable[[str], bool]) -> None:
        """Check running jobs, and recover from killed processes, before the next sandbox is planned."""
        self.recover(is_sensitive)
        with self._lock:
            for watch, record in self._running.items():
                if watch.is_lasting:
                    self._check(watch, is_sensitive)
                record.touch()

    def recover(self, is_sensitive: Callable[[str], bool]) -> None:
        """Finish the checks of processes that were killed."""
        with self._lock:
            for name in _list(self._records):
                with _locked(os.path.join(self._records, name)) as fd:
                    if fd is not None:
                        self._finish(name, fd, is_sensitive)

    def take_notes(self) -> tuple[str, ...]:
        """Return the pending notes, and clear them."""
        with self._lock:
            notes, self._pending = tuple(self._pending), []
        return notes

    def _check(self, watch: GitWatch, is_sensitive: Callable[[str], bool]) -> None:
        with self._lock:
            if watch in self._running:
                watch.is_lasting = True
                self._running[watch].touch()
                self._add_notes(watch.settle(self._search, is_sensitive, is_over=False))
                self._check_again(watch)

    def _check_again(self, watch: GitWatch) -> None:
        """Check repositories that may have changed between their check and the first event."""
        for _ in range(_MAX_ROUNDS):
            added = set() if self._events is None else self._events.add_git_folders(watch.git_folders)
            if not added:
                break
            self._add_notes(watch.check(added))

    def _changes(self, watch: GitWatch) -> tuple[int, float]:
        if watch not in self._listening:
            with self._lock:
                if watch in self._running:
                    self._listening.add(watch)
                    self._listen(watch)
        events = self._events
        return -1 if events is None else events.fd, self._paid_until - _READ_AHEAD_SECONDS

    def _listen(self, watch: GitWatch) -> None:
        """Subscribe to changes in the workspace, where supported; the next check covers what exists."""
        if sys.platform != "linux":
            return
        if self._events is None:
            from hilt.sandbox.inotify import RepositoryEvents

            try:
                self._events = RepositoryEvents()
            except OSError:
                return  # too many are open
        self._events.add_absent(watch.before.absent)
        for root in watch.before.roots:
            self._events.add_tree(root, watch.before.skipped)

    def _check_changes(self, is_sensitive: Callable[[str], bool]) -> None:
        """Check what has changed since the last time."""
        began = thread_time()
        with self._lock:
            if self._events is None:
                return
            changed = self._events.read()
            for watch in self._listening if changed or changed is None else ():
                if changed is None:  # events were lost
                    self._listen(watch)
                    self._check(watch, is_sensitive)
                else:
                    self._add_notes(watch.check(changed))
                    self._check_again(watch)
            self._paid_until = max(self._paid_until, monotonic()) + _READ_SHARE * (thread_time() - began)

    def _add_notes(self, notes: tuple[str, ...]) -> None:
        self._pending = [*self._pending, *notes][-MAX_NOTES:]

    def _finish(self, name: str, fd: int, is_sensitive: Callable[[str], bool]) -> None:
        """Check what a dead process watched; again when its programs must have ended."""
        path = os.path.join(self._records, name)
        status = os.fstat(fd)
        try:
            until = status.st_mtime_ns + _SILENT_SECONDS * 1e9
            watch = GitWatch(_parse(os.read(fd, status.st_size)), until)
            self._add_notes(watch.settle(self._search, is_sensitive))
        except ValueError:
            pass  # killed while writing the record, before the program started
        with suppress(OSError):
            if not name.endswith(_DEAD):
                os.utime(fd, ns=(time_ns(), status.st_mtime_ns))
                os.rename(path, path + _DEAD)
            elif time_ns() - status.st_atime_ns > _DEATH_SECONDS * 1e9:
                os.unlink(path)


class _Record:
    """The record of a running program, locked while its process lives, and touched regularly."""

    def __init__(self, folder: str, before: StateBefore) -> None:
        try:
            self._open(folder)
            data = json.dumps(before._asdict()).encode()
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise ToolError(
                "sandbox_unavailable",
                f"Cannot record the running command in {folder}: {error.strerror}.",
                suggestion="Free disk space, or make that folder writable.",
                path=folder,
            ) from error

    def touch(self) -> None:
        """Record that the process is alive."""
        with suppress(OSError):
            os.utime(self._fd)

    def remove(self) -> None:
        """Remove the record: nothing is left to check."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        os.close(self._fd)

    def _open(self, folder: str) -> None:
        os.makedirs(folder, 0o700, exist_ok=True)
        while True:
            self._path = os.path.join(folder, os.urandom(8).hex())
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            # a recovering process may have taken it for a dead one before it was locked
            if os.fstat(self._fd).st_nlink and os.path.exists(self._path):
                return
            os.close(self._fd)


def _list(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


@contextmanager
def _locked(path: str) -> Iterator[int | None]:
    """Yield the descriptor of a record, locked; None when the process that wrote it is alive."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield None
    else:
        yield fd
    finally:
        os.close(fd)


def _parse(data: bytes) -> StateBefore:
    fields: dict[str, Any] = json.loads(data)
    fields["stamps"] = {path: tuple(stamp) for path, stamp in fields["stamps"].items()}
    return StateBefore(**fields)
