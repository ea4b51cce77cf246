"""Which definitions of a server's tools were accepted: one file per server in the state directory, and what differs.

A file is for a server of one origin with one entry: when the person changes the entry, or trusts a changed one, the
server is another, and what it says at its next start is accepted once more. What a running server says that differs is
kept beside it, so that people can look at it before they accept it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hilt.formats.digests import sha256
from hilt.servers.configured import Server
from hilt.servers.definitions import AcceptedTool, Raw, digest, usable

FOLDER = "servers"
FILE_BYTES = 64 << 20

_VERSION = 1


Pinned = dict[str, AcceptedTool]  # the accepted definitions of a server, by the server's own names


class Pins:
    """The files of one server."""

    def __init__(self, state: str, server: Server) -> None:
        whole = f"{server.origin}\0{server.name}\0{server.digest}"
        key = sha256(whole.encode("utf-8", "surrogateescape")).hex()
        self._path = os.path.join(state, FOLDER, f"{server.name}-{key[:16]}.json")
        self._last: tuple[tuple[int, ...] | None, Pinned | None] = None, None

    @property
    def log(self) -> str:
        """The file for what the server writes to its standard error."""
        return self._path.removesuffix(".json") + ".log"

    @property
    def _offer(self) -> str:
        return self._path.removesuffix(".json") + ".offered.json"

    @property
    def _noted(self) -> str:
        return self._path.removesuffix(".json") + ".notes.json"

    def read(self) -> Pinned | None:
        """Return what was accepted; None when nothing was yet."""
        stamp = _stamp(self._path)
        last = self._last
        if stamp != last[0]:
            # a file that cannot be understood accepts nothing; both at once, as many threads read
            self._last = last = stamp, None if stamp is None else _kept(_load(self._path, "tools") or [])
        return last[1]

    def pin(self, kept: Sequence[AcceptedTool]) -> Pinned:
        """Accept the first definitions; when another process was quicker, what it accepted counts."""
        fresh = self._write({"version": _VERSION, "tools": [[one.shown, one.raw] for one in kept]})
        try:
            os.link(fresh, self._path)
        except FileExistsError:
            pass
        finally:
            os.unlink(fresh)
        return self.read() or {}

    def accept(self, kept: Sequence[AcceptedTool]) -> None:
        """Accept definitions in place of those before."""
        os.replace(self._write({"version": _VERSION, "tools": [[one.shown, one.raw] for one in kept]}), self._path)
        self.offer(None)

    def offered(self) -> list[Raw] | None:
        """Return what the server said last, when that differs from what was accepted."""
        rows = _load(self._offer, "definitions")
        return None if rows is None else usable(rows)[0]

    def offer(self, definitions: Sequence[Raw] | None) -> None:
        """Keep what a server says that was not accepted; None when it says what was."""
        with suppress(OSError):  # only people look at it
            if definitions is not None:
                os.replace(self._write({"version": _VERSION, "definitions": list(definitions)}), self._offer)
            else:
                os.unlink(self._offer)

    def notes(self) -> tuple[str, ...]:
        """Return what there was to say of the server's last list of tools."""
        return tuple(note for note in _load(self._noted, "notes") or () if isinstance(note, str))

    def note(self, notes: Sequence[str]) -> None:
        """Keep what there is to say of the server's list of tools."""
        with suppress(OSError):  # only people look at it
            if notes:
                os.replace(self._write({"version": _VERSION, "notes": list(notes)}), self._noted)
            else:
                os.unlink(self._noted)

    def _write(self, value: Any) -> str:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        fresh = f"{self._path}.{os.urandom(6).hex()}"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(json.dumps(value).encode())
            file.flush()
            os.fsync(file.fileno())
        return fresh


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _load(path: str, key: str) -> list[Any] | None:
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read(FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    rows = value.get(key) if isinstance(value, dict) and value.get("version") == _VERSION else None
    return rows if isinstance(rows, list) else None


def _kept(rows: list[Any]) -> Pinned:
    try:
        return {raw["name"]: AcceptedTool(raw, shown, digest(raw)) for shown, raw in rows}
    except (KeyError, TypeError, ValueError):
        return {}
