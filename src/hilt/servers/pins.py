"""The accepted definitions of a server's tools, in one file per server in the state directory (ADR 0018).

A file belongs to one entry of one origin: when the user changes the entry, or trusts a changed one, it counts as a new
server, and the definitions of its next start are accepted. Later definitions that differ are stored beside the file for
review.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hilt.formats.digests import sha256
from hilt.handles import put_file
from hilt.servers.configured import Server
from hilt.servers.definitions import AcceptedTool, Raw, digest, usable

FOLDER = "servers"
FILE_BYTES = 64 << 20

_VERSION = 1


Pinned = dict[str, AcceptedTool]  # the accepted definitions of a server, by the server's own names


class Pins:
    """The files of one server."""

    def __init__(self, state: str, server: Server) -> None:
        identity = f"{server.origin}\0{server.name}\0{server.digest}"
        key = sha256(identity.encode("utf-8", "surrogateescape")).hex()
        self._path = os.path.join(state, FOLDER, f"{server.name}-{key[:16]}.json")
        self._last: tuple[tuple[int, ...] | None, Pinned | None] = None, None

    @property
    def log(self) -> str:
        """The log of the server's standard error."""
        return self._path.removesuffix(".json") + ".log"

    @property
    def _last_path(self) -> str:
        return self._path.removesuffix(".json") + ".last.json"

    def read(self) -> Pinned | None:
        """Return the accepted definitions; None if none were accepted yet."""
        stamp = _stamp(self._path)
        last = self._last
        if stamp != last[0]:
            # an invalid file accepts nothing; assign both at once, because many threads read
            self._last = last = stamp, None if stamp is None else _pinned(_load(self._path, "tools") or [])
        return last[1]

    def pin(self, tools: Sequence[AcceptedTool]) -> Pinned:
        """Accept the first definitions; if another process was faster, keep its definitions."""
        put_file(self._path, _tools(tools), only_new=True, synced=True)
        return self.read() or {}

    def accept(self, tools: Sequence[AcceptedTool]) -> None:
        """Replace the accepted definitions."""
        put_file(self._path, _tools(tools), synced=True)
        self.offer(None)

    def offered(self) -> list[Raw] | None:
        """Return the server's last definitions, if they differ from the accepted ones."""
        rows = _load(self._last_path, "definitions")
        return None if rows is None else usable(rows)[0]

    def notes(self) -> tuple[str, ...]:
        """Return the notes on the server's last list of tools."""
        return tuple(note for note in _load(self._last_path, "notes") or () if isinstance(note, str))

    def offer(self, definitions: Sequence[Raw] | None, notes: Sequence[str] | None = None) -> None:
        """Store definitions that were not accepted, None if they match the accepted ones, and new notes on the list."""
        notes = self.notes() if notes is None else notes
        value = {"version": _VERSION, "definitions": definitions, "notes": notes}
        with suppress(OSError):  # for display only
            if definitions is not None or notes:
                put_file(self._last_path, json.dumps(value).encode())
            else:
                os.unlink(self._last_path)


def _tools(tools: Sequence[AcceptedTool]) -> bytes:
    return json.dumps({"version": _VERSION, "tools": [[tool.listed_name, tool.raw] for tool in tools]}).encode()


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _load(path: str, key: str) -> list[Any] | None:
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read(FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    rows = value.get(key) if isinstance(value, dict) and value.get("version") == _VERSION else None
    return rows if isinstance(rows, list) else None


def _pinned(rows: list[Any]) -> Pinned:
    try:
        return {raw["name"]: AcceptedTool(raw, shown, digest(raw)) for shown, raw in rows}
    except (KeyError, TypeError, ValueError):
        return {}
