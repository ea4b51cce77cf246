"""Processes that publish calls, each with a file that it locks while it lives, and the calls of killed processes."""

from __future__ import annotations

import json
import os
import re
import time

from hilt.call import Json
from hilt.state.events import EventStore, NewEvent
from hilt.state.locks import ProcessMark, read_mark

INTERRUPTED = "interrupted"  # the outcome of a call whose process was killed

_FOLDER = "callers"
_ID = re.compile("[0-9a-f]{16}")


def mark_caller(state: str) -> tuple[str, ProcessMark]:
    """Mark the calls of this process as running, until it ends; return its id and its mark."""
    id = os.urandom(8).hex()
    return id, ProcessMark(os.path.join(state, _FOLDER), id)


def start_key(id: str) -> str:
    """Return the key of the event for the start of a call."""
    return f"start {id}"


def end_key(id: str) -> str:
    """Return the key of the event for the end of a call."""
    return f"end {id}"


class CallObserver:
    """Reports the end of calls whose process was killed. Not safe to use from several threads."""

    def __init__(self, state: str, events: EventStore) -> None:
        self._folder = os.path.join(state, _FOLDER)
        self._events = events
        self._position = 0
        self._running: dict[str, tuple[int, dict[str, Json]]] = {}  # start time and fields of each call

    def poll(self) -> list[NewEvent]:
        """Return an end event for each call whose process was killed since the last time."""
        last = self._events.last()
        if last != self._position:
            for at, data in self._events.of_type("call_started", self._position, last):
                fields = json.loads(data)
                if _ID.fullmatch(str(fields.get("process"))):  # otherwise its process is unknown
                    self._running[str(fields["id"])] = at, fields
            self._position = last
        if not self._running:
            return []
        processes = {str(fields["process"]) for _, fields in self._running.values()}
        # check processes first: each stores the end of its calls before it exits
        dead = {process for process in processes if not self._is_alive(process)}
        for id in [id for id in self._running if self._events.has_key(end_key(id))]:
            del self._running[id]
        interrupted = [id for id, (_, fields) in self._running.items() if fields["process"] in dead]
        return [self._interrupted(id, *self._running.pop(id)) for id in interrupted]

    def _is_alive(self, process: str) -> bool:
        try:
            return read_mark(self._folder, process) is not None
        except OSError:
            return True  # unknown, such as when this process has too many files open

    def _interrupted(self, id: str, at: int, started: dict[str, Json]) -> NewEvent:
        fields = {name: value for name, value in started.items() if name not in ("process", "cut")}
        fields |= {
            "verdict": "",
            "reason": "its process was killed",
            "approver": "",
            "outcome": INTERRUPTED,
            "ms": (time.time_ns() - at) / 1_000_000,
            "change": None,
            "votes": [],
        }
        return NewEvent("call", fields, kept="args" in started, key=end_key(id))
