"""The watches of running confined programs, and records of them that survive a crash.

Each program is recorded in the state directory before it starts: if hilt is killed, the next start finishes the checks.
A lock on the record shows whether the process that wrote it is alive. Nothing is synced: a crash of the machine ends
the program too, and what it left is checked if its record survived.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, time_ns
from typing import Any

from hilt.errors import ToolError
from hilt.handles import Closing
from hilt.sandbox.backend import Report
from hilt.sandbox.disarming import MAX_NOTES, GitWatch, Guard, StateBefore
from hilt.sandbox.layers import keep_known
from hilt.sandbox.repositories import Waypoint
from hilt.sandbox.sensitive import join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.profile import Profile
    from hilt.sandbox.sensitive import Findings, NameRules, Search

_DEATH_SECONDS = 10.0  # programs of a killed hilt have ended by then
_SILENT_SECONDS = 900.0  # longer than a program runs without a check: it did not make later changes
_DEAD = ".dead"
_SETS = ("gitdirs", "guarded", "inodes", "dangers")  # which JSON stores as lists
_CHECK_SECONDS = 0.5  # between two checks of a running program
_CHECK_SHARE = 40  # the pause is at least this many times as long as the check


class RunningWatch(Report):
    """The report of a watched program."""

    def __init__(self, watches: Watches, watch: GitWatch, names: NameRules) -> None:
        self._watches = watches
        self._watch = watch
        self._names = names
        self._due = monotonic() + _CHECK_SECONDS

    def notes(self) -> tuple[str, ...]:
        return (*self._watch.notes, *self.more)

    def due(self) -> float:
        return self._due

    def check(self, *, lasting: bool = True) -> None:
        began = monotonic()
        count = self._watches.check(self._watch, self._names, lasting=lasting)
        # all running programs share the time
        self._due = monotonic() + count * max(_CHECK_SECONDS, _CHECK_SHARE * (monotonic() - began))

    def repeated(self) -> str:
        return self._watch.repeated


class Watches:
    """The watches of one process, and the records of all. Safe to use from many threads."""

    def __init__(self, records: str, search: Search) -> None:
        self._records = records
        self._search = search
        self._lock = threading.RLock()
        self._running: dict[GitWatch, _Record] = {}
        self._pending: list[str] = []

    @contextmanager
    def hold(
        self,
        profile: Profile,
        guard: Guard,
        findings: Findings | None = None,
        *,
        layer: int | None = None,
        known: Iterable[str] = (),
    ) -> Iterator[Report]:
        """Watch the workspace while a program runs in it, and check what it has left when it has ended.

        `findings` is what a walk has just found; without it, the workspace is searched, including sensitive folders.
        What exists is stored in the folder of a `layer`, and is `known` when that is restored.
        """
        if not profile.writable:
            yield Report()
            return
        if findings is None:
            skipped = frozenset(profile.closed)
            findings = join([self._search.find_all(root, profile.judge(root), skipped) for root in profile.roots])
        with self._lock:
            watch = GitWatch.begin(profile, findings, guard, known)
            if layer is not None:
                keep_known(layer, watch.before.dangers)
            self._running[watch] = record = _Record(self._records, watch.before)
        try:
            yield RunningWatch(self, watch, profile.names)
        finally:
            with self._lock:
                del self._running[watch]
                self._add_notes(watch.settle(self._search, profile.names))
            record.remove()

    def catch_up(self, names: NameRules) -> None:
        """Check running jobs, and recover from killed processes, before the next sandbox is planned."""
        self.recover(names)
        with self._lock:
            for watch, record in self._running.items():
                if watch.is_lasting:
                    self.check(watch, names)
                record.touch()

    def recover(self, names: NameRules) -> None:
        """Finish the checks of processes that were killed."""
        with self._lock:
            for name in _list(self._records):
                with _locked(os.path.join(self._records, name)) as fd:
                    if fd is not None:
                        self._finish(name, fd, names)

    def check(self, watch: GitWatch, names: NameRules, *, lasting: bool = True) -> int:
        """Disarm what a running program has left so far; return how many programs run."""
        with self._lock:
            if watch in self._running:
                watch.is_lasting |= lasting
                self._running[watch].touch()
                self._add_notes(watch.settle(self._search, names, is_over=False))
            return len(self._running)

    def take_notes(self) -> tuple[str, ...]:
        """Return the pending notes, and clear them."""
        with self._lock:
            notes, self._pending = tuple(self._pending), []
        return notes

    def _add_notes(self, notes: tuple[str, ...]) -> None:
        self._pending = [*self._pending, *notes][-MAX_NOTES:]

    def _finish(self, name: str, fd: int, names: NameRules) -> None:
        """Check what a dead process watched; again when its programs must have ended."""
        path = os.path.join(self._records, name)
        status = os.fstat(fd)
        try:
            until = status.st_mtime_ns + _SILENT_SECONDS * 1e9
            watch = GitWatch(_parse(os.read(fd, status.st_size)), until)
            self._add_notes(watch.settle(self._search, names))
        except (TypeError, ValueError):
            pass  # killed while writing the record, before the program started; or from another version
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
            data = json.dumps(before._asdict(), default=list).encode()
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
    with Closing(fd):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield fd


def _parse(data: bytes) -> StateBefore:
    fields: dict[str, Any] = json.loads(data)
    fields["above"] = [Waypoint(*place) for place in fields["above"]]
    fields["inodes"] = map(tuple, fields["inodes"])
    return StateBefore(**{**fields, **{name: set(fields[name]) for name in _SETS}})
