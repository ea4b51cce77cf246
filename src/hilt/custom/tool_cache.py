"""A cache of loaded tools, keyed by path, size and times, in memory and on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hilt import __version__
from hilt.custom.definition import Definition, Example, Loaded
from hilt.handles import put_file
from hilt.loaders import Source
from hilt.processes.declared_sandbox import DeclaredSandbox

VERSION = f"3, hilt {__version__}"  # of the file format; entries of another version are discarded
RETRY_SECONDS = 30.0  # an unchanged file that failed may load later, for example once its runtime is installed
SLOW_SECONDS = 1.0  # a file that took longer to fail is not retried: every call would wait for it

Signature = list[list[Any]]  # of the files of a tool: name, size, mtime, ctime, inode


class RememberedTool:
    """A tool as it was last read; its bytes are dropped once it is loaded."""

    __slots__ = (
        *("files", "folder_stamp", "hashes", "load_seconds", "loaded", "loaded_at", "settled", "signature", "source"),
    )

    def __init__(
        self,
        source: Source,
        signature: Signature,
        hashes: Mapping[str, bytes],
        *,
        settled: bool,
        files: Mapping[str, bytes] | None = None,
        loaded: Loaded | None = None,
    ) -> None:
        self.source = source
        self.signature = signature
        self.hashes = hashes
        self.settled = settled
        self.files = files
        self.loaded = loaded
        self.loaded_at = time.monotonic()
        self.load_seconds = 0.0
        self.folder_stamp: object = None  # of its folder, when it was loaded

    def fits(self, source: Source, signature: Signature) -> bool:
        """Whether the tool is unchanged."""
        return self.settled and self.signature == signature and self.source == source

    def is_retry_due(self, folder_stamp: Callable[[], object]) -> bool:
        """Whether the load failed and should be retried: the folder has changed, or enough time has passed."""
        if self.loaded is None or not self.loaded.problems or self.load_seconds > SLOW_SECONDS:
            return False
        return time.monotonic() - self.loaded_at > RETRY_SECONDS or folder_stamp() != self.folder_stamp

    def row(self) -> list[Any] | None:
        """Return the entry as stored on disk; None if it may be stale or did not load."""
        if not self.settled or self.loaded is None or self.loaded.problems:
            return None
        hashes = [[name, digest.hex()] for name, digest in self.hashes.items()]
        return [self.source, self.signature, hashes, [_row(definition) for definition in self.loaded.definitions]]


class Cache:
    """The cache file below the state directory; losing it costs only time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._saved: dict[str, Any] = {}

    def load(self) -> dict[str, RememberedTool]:
        """Return the saved entries; none if the file is missing or invalid."""
        try:
            with open(self._path, encoding="utf-8") as file:
                saved = json.load(file)
            if saved["version"] != VERSION:
                return {}
            entries = {path: _entry(row) for path, row in saved["tools"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}
        self._saved = {path: row[1] for path, row in saved["tools"].items()}
        return entries

    def save(self, entries: Mapping[str, RememberedTool]) -> None:
        """Save the entries if they differ from the saved ones."""
        signatures = {
            path: entry.signature
            for path, entry in entries.items()
            if entry.settled and entry.loaded is not None and not entry.loaded.problems
        }
        if signatures == self._saved:
            return
        rows = {path: row for path, entry in entries.items() if (row := entry.row()) is not None}
        with suppress(OSError, TypeError, ValueError):  # a cache is optional
            text = json.dumps({"version": VERSION, "tools": rows}, separators=(",", ":"))
            put_file(self._path, text.encode())
        self._saved = signatures


def _row(definition: Definition) -> dict[str, Any]:
    row = {
        name: value
        for name, value in definition._asdict().items()
        if name not in Definition._field_defaults or value != Definition._field_defaults[name]
    }
    if definition.effects is not None:
        row["effects"] = sorted(definition.effects)
    row["details"] = dict(definition.details)
    return row


def _entry(row: Sequence[Any]) -> RememberedTool:
    source, signature, hashes, definitions = row
    digests = {name: bytes.fromhex(digest) for name, digest in hashes}
    return RememberedTool(source, signature, digests, settled=True, loaded=Loaded(tuple(map(_definition, definitions))))


def _definition(row: dict[str, Any]) -> Definition:
    if "sandbox" in row:
        network, write, read, undo = row["sandbox"]
        row["sandbox"] = DeclaredSandbox(network, tuple(write), tuple(read), undo)
    if "examples" in row:
        row["examples"] = tuple(Example(*item) for item in row["examples"])
    if "effects" in row:
        row["effects"] = frozenset(row["effects"])
    if "notes" in row:
        row["notes"] = tuple(row["notes"])
    return Definition(**row)
