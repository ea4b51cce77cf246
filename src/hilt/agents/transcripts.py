"""Transcripts: the messages and calls of each session, one JSON record per line, in append-only files.

    {"type": "session", "id": …, "workspace": …, "model": …, "title": …, "word": …}    first line
    {"type": "user", "content": text or list}            a message of the user; images are {"image": type, "data": …}
    {"type": "answer", "parts": [{"text": …}, {"call": tool, "id": …, "args": …}], "usage": …, "cost": …}
    {"type": "result", "id": …, "tool": …, "outcome": …, "content": …}                 of one call
    {"type": "compacted", "records": [user, answer and result records]}               replaces everything before it
    {"type": "ended", "status": …, "error_code": …}                                    the end of a run

A record is written with one `write`, so a process that is killed loses at most the record it was writing; a partial
last line is removed when the transcript is opened again. One process at a time has a transcript open for writing.
Reading needs no library.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from hilt.call import AGENT
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.handles import put_file
from hilt.output.redaction import Redactor
from hilt.places import command
from hilt.state.directory import Writing

VERSION = 1
TITLE_CHARACTERS = 80
_HEAD_BYTES = 64 * 1024  # the first line is shorter
_SUFFIX = ".jsonl"
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

Record = dict[str, Any]


class SessionFile(NamedTuple):
    """A transcript on disk: its first record, its size, and when it was last written."""

    path: str
    head: Record
    size: int
    changed: float

    @property
    def id(self) -> str:
        """The id of the session."""
        return str(self.head["id"])


def new_id() -> str:
    """Return the id of a new session; ids sort by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"


class Transcripts:
    """The transcripts of one workspace."""

    def __init__(self, state: str, workspace: str, redactor: Redactor) -> None:
        """`workspace` is the id of the workspace."""
        self._folder = os.path.join(state, "transcripts")
        self._workspace = workspace
        self._redactor = redactor

    def create(self, session: str, **facts: Any) -> Transcript:
        """Start the transcript of a new session."""
        path = self.path(session)
        transcript = Transcript(path, self._redactor, create=True)
        transcript.append("session", version=VERSION, id=session, **facts)
        return transcript

    def open(self, session: str) -> Transcript:
        """Open the transcript of a session to continue it."""
        return Transcript(self.find(session).path, self._redactor)

    def restore(self, session: str, records: Iterable[Record]) -> None:
        """Replace the transcript of a session by these records, which another machine may have written."""
        path, records = self.path(session), list(records)
        if not records:
            with suppress(FileNotFoundError):
                os.unlink(path)
            return
        with Writing(os.path.dirname(path)):
            put_file(path, b"".join(map(_line, records)))

    def path(self, session: str) -> str:
        """Return the path of a session's transcript, which may not exist."""
        name = session if _SAFE.fullmatch(session) else "~" + sha256(session.encode("utf-8", "surrogateescape")).hex()
        return os.path.join(self._folder, self._workspace, name + _SUFFIX)

    def exists(self, session: str) -> bool:
        """Whether a session has a transcript."""
        return os.path.exists(self.path(session))

    def find(self, session: str) -> SessionFile:
        """Return the transcript of a session, by its id or an unambiguous prefix of it."""
        exact = _read_head(self.path(session))
        if exact is not None:
            return exact
        matches = [file for file in self.list() if file.id.startswith(session)]
        if len(matches) == 1:
            return matches[0]
        advice = f"To list the sessions of this folder: {command('sessions')}"
        if matches:
            ids = ", ".join(file.id for file in matches[:5])
            raise ToolError("ambiguous_id", f"{session!r} is a prefix of {len(matches)} sessions: {ids}.")
        raise ToolError("not_found", f"There is no session {session[:100]!r} in this folder.", suggestion=advice)

    def newest(self) -> SessionFile:
        """Return the transcript that was written last."""
        files = [file for file in self.list() if not file.id.startswith(AGENT)]  # those of agents only by their id
        if not files:
            advice = f"Start one: {command('run')} 'your task'"
            raise ToolError("not_found", "There is no session in this folder yet.", suggestion=advice)
        return files[0]

    def list(self) -> list[SessionFile]:
        """Return the transcripts of the workspace, the one written last first."""
        folder = os.path.join(self._folder, self._workspace)
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return []
        files = (_read_head(os.path.join(folder, name)) for name in names if name.endswith(_SUFFIX))
        return sorted((file for file in files if file is not None), key=lambda file: file.changed, reverse=True)

    def delete(self, session: str) -> str:
        """Delete the transcript of a session that no process is using; return its id."""
        file = self.find(session)
        Transcript(file.path, self._redactor).close()  # raises while another process writes it
        os.unlink(file.path)
        return file.id

    def prune(self, *, days: int, megabytes: int) -> None:
        """Remove old transcripts of all workspaces beyond the limits, except those in use."""
        files = []
        for folder, _, names in os.walk(self._folder):
            for name in names:
                with suppress(OSError):
                    status = os.lstat(path := os.path.join(folder, name))
                    files.append((status.st_mtime, status.st_size, path))
        oldest, total = time.time() - days * 86_400, 0
        for changed, size, path in sorted(files, reverse=True):
            total += size
            if changed < oldest or total > megabytes * 1024 * 1024:
                with suppress(OSError, ToolError):
                    Transcript(path, self._redactor).close()
                    os.unlink(path)


class Transcript:
    """One transcript, open for writing; locked until it is closed."""

    def __init__(self, path: str, redactor: Redactor, *, create: bool = False) -> None:
        self.path = path
        self._redactor = redactor
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with Writing(os.path.dirname(path)):
            if create:
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                flags |= os.O_CREAT | os.O_EXCL
            try:
                self._descriptor = os.open(path, flags, 0o600)
            except FileExistsError:
                raise ToolError(
                    "already_exists",
                    "There is already a transcript of a session with this id.",
                    suggestion=f"Continue it with {command('run', '--continue')} ID, or choose another id.",
                ) from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise ToolError("busy", "Another process is using this session.") from None
        self._end_line()

    def _end_line(self) -> None:
        """Remove a partial last line, left by a process that was killed."""
        size = os.fstat(self._descriptor).st_size
        end, block = size, 1 << 16
        while end:
            start = max(0, end - block)
            data = os.pread(self._descriptor, end - start, start)
            newline = data.rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end != size:
            os.ftruncate(self._descriptor, end)

    def append(self, kind: str, /, **fields: Any) -> None:
        """Write one record, without secrets."""
        self.write(self.record(kind, **fields))

    def record(self, kind: str, /, **fields: Any) -> Record:
        """Return a record without secrets, to be written."""
        record: Record = self._redactor.json({"type": kind, "time": round(time.time(), 3), **fields})
        return record

    def write(self, record: Record) -> None:
        """Write one record."""
        line = _line(record)
        with Writing(os.path.dirname(self.path)):
            written = os.write(self._descriptor, line)
            if written != len(line):  # a full disk
                self._end_line()
                raise OSError(28, "No space left on device")

    def records(self) -> list[Record]:
        """Return all records."""
        return list(read(self.path))

    def close(self) -> None:
        """Close the file and release its lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _line(record: Record) -> bytes:
    return (json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n").encode("utf-8", "backslashreplace")


def read(path: str) -> Iterator[Record]:
    """Yield the records of a transcript; damaged lines are skipped."""
    with open(path, "rb") as file:
        for line in file:
            with suppress(ValueError):
                record = json.loads(line) if line.endswith(b"\n") else None
                if isinstance(record, dict):
                    yield record


def current(records: Iterable[Record]) -> list[Record]:
    """Return the user, answer and result records that the model still sees: those since the last compaction."""
    visible: list[Record] = []
    for record in records:
        match record.get("type"):
            case "compacted":
                visible = list(record["records"])
            case "user" | "answer" | "result":
                visible.append(record)
    return visible


def _read_head(path: str) -> SessionFile | None:
    """Return a transcript with its first record; None if it is missing or invalid."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            head = json.loads(file.readline(_HEAD_BYTES))
    except (OSError, ValueError):
        return None
    if not isinstance(head, dict) or head.get("type") != "session" or "id" not in head:
        return None
    return SessionFile(path, head, status.st_size, status.st_mtime)
