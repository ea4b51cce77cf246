"""Which backend works on this system: cached until something changes, or a sandbox cannot be set up."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress

from hilt.handles import put_file
from hilt.sandbox import backend
from hilt.sandbox.backend import Availability, Backend, FindProgram

_FORMAT = 8
_RECORD = "sandbox.json"


def _nowhere(name: str) -> None:
    return None


def find(state: str, find_program: FindProgram = _nowhere) -> Availability:
    """Return which backend works here, from the cache if it is still valid.

    That none works is not cached: the cause may be a setting of the kernel, which no file shows.
    """
    path = os.path.join(state, _RECORD)
    with suppress(OSError, ValueError, TypeError, KeyError):
        with open(path, "rb") as file:
            record = json.load(file)
        fields = record["availability"]
        if record["key"] == _key(fields["backend"], find_program):
            return Availability(**{**fields, **{name: tuple(fields[name]) for name in ("missing", "features")}})
    return find_afresh(state, find_program)


def find_afresh(state: str, find_program: FindProgram = _nowhere) -> Availability:
    """Probe which backend works here, and cache it."""
    forget(state)
    available = probe(state, find_program)
    if available.works:
        _remember(os.path.join(state, _RECORD), available, find_program)
    return available


def forget(state: str) -> None:
    """Remove the cached result: the next process probes again."""
    with suppress(OSError):
        os.unlink(os.path.join(state, _RECORD))


def probe(state: str, find_program: FindProgram = _nowhere, backends: Iterable[Backend] | None = None) -> Availability:
    """Return the first backend that works here, by default of this system; its facts say why those before do not."""
    problems: list[str] = []
    remedy = ""
    for candidate in map(backend.load, _names()) if backends is None else backends:
        found = candidate.probe(state, find_program)
        problems.append(found.facts)
        remedy = remedy or found.remedy
        if found.works:
            return found._replace(facts=" ".join(problems), remedy=remedy)
    if not problems:
        return Availability("", f"Sandboxing is not supported on {sys.platform}.")
    return Availability("", " ".join(problems), ("files", "network", "processes"), remedy)


def _names() -> tuple[str, ...]:
    return backend.BACKENDS.get(sys.platform, ())


def _key(works: str, find_program: FindProgram) -> list[object]:
    """Return everything that made a backend the first that works, or none if its name is empty."""
    system = os.uname()
    names = _names()
    probed = names[: names.index(works) + 1] if works else names
    fingerprints = [[name, backend.load(name).fingerprint(find_program)] for name in probed]
    return [_FORMAT, system.release, system.version, system.machine, os.geteuid(), fingerprints]


def _remember(path: str, available: Availability, find_program: FindProgram = _nowhere) -> None:
    """Cache the result for the next process, which otherwise probes again."""
    with suppress(OSError):
        key = _key(available.backend, find_program)
        put_file(path, json.dumps({"key": key, "availability": available._asdict()}).encode())
