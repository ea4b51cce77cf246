"""Processes that publish calls: a file for each, locked for as long as it lives; and the calls of killed ones."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from contextlib import suppress

from hilt.call import Json
from hilt.state.events import EventStore, NewEvent

INTERRUPTED = "interrupted"  # the outcome of a call whose process was killed

_FOLDER = "callers"
_ID = re.compile("[0-9a-f]{16}")


class CallerMark:
    """Marks that the calls of this process still run, until it is closed or the process ends."""

    def __init__(self, state: str) -> None:
        self.id = os.urandom(8).hex()
        os.makedirs(os.path.join(state, _FOLDER), mode=0o700, exist_ok=True)
        self._path = os.path.join(state, _FOLDER, self.id)
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove the mark."""
        with suppress(OSError):
            os.unlink(self._path)
        os.close(self._descriptor)


def start_key(id: str) -> str:
    """Return the key of the event that a call has started."""
    return f"start {id}"


def end_key(id: str) -> str:
    """Return the key of the event that such a call has ended."""
    return f"end {id}"


class CallObserver:
    """Ends calls whose process was killed. Not safe to use from several threads."""

    def __init__(self, state: str, events: EventStore) -> None:
        self._folder = os.path.join(state, _FOLDER)
        self._events = events
        self._position = 0
        self._running: dict[str, tuple[int, dict[str, Json]]] = {}  # when they started, and their facts

    def look(self) -> list[NewEvent]:
        """Return the ends of calls whose process was killed since the last time."""
        last = self._events.last()
        if last != self._position:
            for at, data in self._events.of_type("call_started", self._position, last):
                facts = json.loads(data)
                if _ID.fullmatch(str(facts.get("process"))):  # otherwise nobody knows whether it still runs
                    self._running[str(facts["id"])] = at, facts
            self._position = last
        if not self._running:
            return []
        processes = {str(facts["process"]) for _, facts in self._running.values()}
        # first: a process stores the end of a call before its own
        dead = {process for process in processes if not self._is_alive(process)}
        for id in [id for id in self._running if self._events.has_key(end_key(id))]:
            del self._running[id]
        ended = [id for id, (_, facts) in self._running.items() if facts["process"] in dead]
        return [self._interrupted(id, *self._running.pop(id)) for id in ended]

    def _is_alive(self, process: str) -> bool:
        path = os.path.join(self._folder, process)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # nobody knows, such as when this process has too many files open
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            with suppress(OSError):
                os.unlink(path)
            return False
        finally:
            os.close(descriptor)

    def _interrupted(self, id: str, at: int, started: dict[str, Json]) -> NewEvent:
        facts = {name: value for name, value in started.items() if name not in ("process", "cut")}
        facts |= {
            "verdict": "",
            "reason": "its process ended before the call did",
            "approver": "",
            "outcome": INTERRUPTED,
            "ms": (time.time_ns() - at) / 1_000_000,
            "change": None,
            "votes": [],
        }
        return NewEvent("call", facts, kept="args" in started, key=end_key(id))
