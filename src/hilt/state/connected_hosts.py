"""The connected MCP hosts, each with a file that its process locks while it lives."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Literal, NamedTuple

from hilt.formats.times import Moment
from hilt.state.events import NewEvent
from hilt.state.locks import ProcessMark, living_marks

_FOLDER = "hosts"

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


def mark_host(
    state: str, name: str, version: str, *, workspace: str, session: str, transport: Transport
) -> ProcessMark:
    """Mark a host as connected, until the mark is closed or this process ends."""
    now = Moment(time.time_ns())
    host = ConnectedHost(os.urandom(6).hex(), name, version, workspace, session, transport, now)
    return ProcessMark(os.path.join(state, _FOLDER), host.id, json.dumps(host._asdict()).encode())


def connected_hosts(state: str) -> list[ConnectedHost]:
    """Return the connected hosts, newest first."""
    hosts: list[ConnectedHost] = []
    for mark in living_marks(os.path.join(state, _FOLDER)):
        with suppress(ValueError, TypeError):  # of another version
            host = ConnectedHost(**json.loads(mark))
            hosts.append(host._replace(since=Moment(host.since)))
    return sorted(hosts, key=lambda host: (host.since, host.id), reverse=True)


class HostObserver:
    """Reports hosts that connect and disconnect. Not safe to use from several threads."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._hosts: dict[str, ConnectedHost] | None = None

    def poll(self) -> list[NewEvent]:
        """Return the changes since the last call; none on the first call."""
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
