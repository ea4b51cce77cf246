"""The connected MCP hosts, each with a file that its process locks while it lives."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from typing import Literal, NamedTuple

from hilt.formats.times import Moment
from hilt.state.events import NewEvent

CHECK_SECONDS = 1.0  # between two checks for hosts whose process was killed

_FOLDER = "hosts"
_NEW = "."  # prefix of a file that is not locked yet
_NEW_SECONDS = 60.0  # after which such a file is an orphan
_FILE_BYTES = 16_384


Transport = Literal["stdio", "http"]


class ConnectedHost(NamedTuple):
    """A host, with the name and version that it reports."""

    id: str
    name: str
    version: str
    workspace: str  # its folder
    session: str
    transport: Transport
    since: Moment


class HostMark:
    """Marks a host as connected, until it is closed or its process ends."""

    def __init__(
        self, state: str, name: str, version: str, *, workspace: str, session: str, transport: Transport
    ) -> None:
        host = ConnectedHost(os.urandom(6).hex(), name, version, workspace, session, transport, Moment(time.time_ns()))
        folder = os.path.join(state, _FOLDER)
        self._path = os.path.join(folder, host.id)
        new = os.path.join(folder, _NEW + host.id)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            os.write(self._descriptor, json.dumps(host._asdict()).encode())
            os.rename(new, self._path)
        except OSError:
            os.close(self._descriptor)
            raise

    def close(self) -> None:
        """Remove the mark."""
        with suppress(OSError):
            os.unlink(self._path)
        os.close(self._descriptor)


def connected_hosts(state: str) -> list[ConnectedHost]:
    """Return the connected hosts, newest first; remove the files of killed processes."""
    folder = os.path.join(state, _FOLDER)
    hosts: list[ConnectedHost] = []
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            with suppress(OSError, ValueError, TypeError):  # it has just disconnected
                host = _read(os.path.join(folder, name), is_new=name.startswith(_NEW))
                if host is not None:
                    hosts.append(host)
    return sorted(hosts, key=lambda host: (host.since, host.id), reverse=True)


def _read(path: str, *, is_new: bool) -> ConnectedHost | None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if is_new and time.time() - os.fstat(descriptor).st_mtime < _NEW_SECONDS:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if is_new:
            return None
        host = ConnectedHost(**json.loads(os.read(descriptor, _FILE_BYTES)))
        return host._replace(since=Moment(host.since))
    else:
        os.unlink(path)
        return None
    finally:
        os.close(descriptor)


class HostObserver:
    """Reports hosts that connect and disconnect. Not safe to use from several threads."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._folder = os.path.join(state, _FOLDER)
        self._stamp = -1
        self._checked_at = 0.0
        self._hosts: dict[str, ConnectedHost] | None = None

    def poll(self) -> list[NewEvent]:
        """Return the changes since the last call; none on the first call."""
        stamp = 0
        with suppress(FileNotFoundError):
            stamp = os.stat(self._folder).st_mtime_ns
        now = time.monotonic()
        if stamp == self._stamp and now - self._checked_at < CHECK_SECONDS:
            return []
        self._stamp, self._checked_at = stamp, now
        before, hosts = self._hosts, {host.id: host for host in connected_hosts(self._state)}
        self._hosts = hosts
        if before is None:
            return []
        disconnected = [_event(host, "disconnected") for id, host in before.items() if id not in hosts]
        return [*disconnected, *(_event(host, "connected") for id, host in hosts.items() if id not in before)]


def _event(host: ConnectedHost, status: str) -> NewEvent:
    facts = {"id": host.id, "workspace": host.workspace, "status": status}
    names = {"name": host.name, "version": host.version, "session": host.session}
    return NewEvent("host", {**facts, **names}, key=f"host {host.id} {status}")
