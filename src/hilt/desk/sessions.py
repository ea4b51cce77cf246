"""The sessions of a workspace: their calls and transcripts, what their models cost, and their end."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hilt import handles
from hilt.agents.starting import transcripts_of
from hilt.agents.transcript_views import as_markdown, as_messages
from hilt.agents.transcripts import SessionFile, read
from hilt.authority.authority import MODE
from hilt.authority.principal import Values
from hilt.formats.times import Moment
from hilt.policy.modes import MODES, find_mode

if TYPE_CHECKING:
    from hilt.runtime import Runtime

__all__ = ["MODES", "find_mode"]

_MESSAGES_MAX = 2_000  # the newest of a transcript


class StoredTranscript(NamedTuple):
    """The transcript of a session, without its messages."""

    id: str
    started: Moment
    changed: Moment
    model: str | None
    title: str | None
    bytes: int
    path: str


class ListedSession(NamedTuple):
    """A session with a recent call or a transcript."""

    id: str
    started: Moment
    changed: Moment
    model: str | None
    title: str | None
    transcript: bool


class LongOutput(NamedTuple):
    """Output of a session that was too long for its reply."""

    name: str
    size: int


def transcripts(runtime: Runtime) -> list[StoredTranscript]:
    """Return the transcripts, the one written last first."""
    return list(map(_stored, transcripts_of(runtime).list()))


def sessions(runtime: Runtime) -> list[ListedSession]:
    """Return the sessions, the one used last first."""
    rows = {
        id: ListedSession(
            id, Moment(started * 1_000_000_000), Moment(used * 1_000_000_000), None, None, transcript=False
        )
        for id, started, used in runtime.parts.trail.sessions(runtime.parts.id)
    }
    for stored in transcripts(runtime):
        id, started, changed, model, title = stored[:5]
        rows[id] = ListedSession(id, started, changed, model, title, transcript=True)
    return sorted(rows.values(), key=lambda row: (row.changed, row.id), reverse=True)


def long_outputs(runtime: Runtime, session: str, limit: int) -> list[LongOutput]:
    """Return the newest long outputs of a session first."""
    try:
        with os.scandir(_outputs_folder(runtime, session)) as entries:
            files = [(entry, entry.stat(follow_symlinks=False)) for entry in entries]
    except OSError:
        return []
    newest = sorted(files, key=lambda file: file[1].st_mtime_ns, reverse=True)
    return [LongOutput(entry.name, status.st_size) for entry, status in newest if stat.S_ISREG(status.st_mode)][:limit]


def long_output(runtime: Runtime, session: str, name: str, limit: int) -> bytes | None:
    """Return the first bytes of a long output of a session; None if it has none with this name."""
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        return None
    opened: list[int] = []
    try:
        opened.append(os.open(_outputs_folder(runtime, session), handles.LISTED))
        opened.append(os.open(name, handles.FILE, dir_fd=opened[0]))
        return handles.read_regular(opened[1], limit)
    except OSError:
        return None
    finally:
        for handle in opened:
            os.close(handle)


def full_id(runtime: Runtime, prefix: str) -> str:
    """Return the id of the only session with a transcript whose id starts with this; raise if there is none."""
    return transcripts_of(runtime).find(prefix).id


def records(runtime: Runtime, prefix: str) -> list[dict[str, Any]]:
    """Return the transcript of a session, by a prefix of its id."""
    return list(read(transcripts_of(runtime).find(prefix).path))


def markdown(runtime: Runtime, prefix: str) -> str:
    """Return the transcript of a session as Markdown, by a prefix of its id."""
    return as_markdown(records(runtime, prefix))


def messages(runtime: Runtime, id: str) -> list[dict[str, Any]]:
    """Return the newest messages of a session; none if it has no transcript."""
    try:
        return as_messages(read(transcripts_of(runtime).path(id)))[-_MESSAGES_MAX:]
    except FileNotFoundError:
        return []


def delete_transcript(runtime: Runtime, prefix: str) -> str:
    """Delete the transcript of a session, and return its id."""
    return transcripts_of(runtime).delete(prefix)


def set_mode(runtime: Runtime, mode: str) -> None:
    """Change the mode of the runtime's session."""
    Values(runtime.parts.authority, runtime.session).set(MODE, mode)


def cost(runtime: Runtime, id: str) -> float | None:
    """Return the cost of the model's answers in a session, in dollars; None if it is unknown."""
    path = transcripts_of(runtime).path(id)
    try:
        status = os.stat(path)
    except OSError:
        return None
    return _cost_of(path, status.st_size, status.st_mtime_ns)


@lru_cache(1000)
def _cost_of(path: str, size: int, mtime_ns: int) -> float | None:
    """Return the sum of the costs in a transcript; the size and modification time are part of the cache key."""
    with suppress(OSError):
        costs = [record["cost"] for record in read(path) if "cost" in record]
        return sum(costs) if costs else None
    return None


def _outputs_folder(runtime: Runtime, session: str) -> str:
    return runtime.parts.session(session).overflow.directory


def _stored(file: SessionFile) -> StoredTranscript:
    head = file.head
    started, changed = Moment(head.get("time", 0) * 1e9), Moment(file.changed * 1e9)
    return StoredTranscript(file.id, started, changed, head.get("model"), head.get("title"), file.size, file.path)
