"""The files that `hilt init` and `hilt mcp install` wrote in any project, so that all of them can be taken back."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import NamedTuple

from hilt import places
from hilt.desk.personal_files import SettingsChange, read_bytes
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.handles import put_file
from hilt.state.directory import Writing

_RECORD = "installed.json"


class InstalledFile(NamedTuple):
    """A file that was written for a workspace; `created` is the digest of its content if it was new."""

    path: str
    workspace: str
    created: str = ""


def write(change: SettingsChange, mode: int, workspace: str) -> None:
    """Record a change, and write it."""
    files = {file.path: file for file in installed()}
    earlier = files.pop(change.real, None)
    is_new = change.before is None or (earlier is not None and earlier.created == _digest(change.before))
    files[change.real] = InstalledFile(change.real, workspace, _digest(change.after or b"") if is_new else "")
    state = places.state_dir(os.environ)
    with Writing(state):
        places.make_state_dir(state)
        put_file(os.path.join(state, _RECORD), json.dumps([*files.values()]).encode())
    change.write(mode)


def installed() -> list[InstalledFile]:
    """Return the recorded files, the oldest first."""
    with suppress(OSError, ValueError, TypeError), open(os.path.join(places.state_dir(os.environ), _RECORD)) as file:
        return [InstalledFile(*fields) for fields in json.load(file)]
    return []


def removals() -> list[SettingsChange]:
    """Return the changes that delete what hilt created and nobody changed since."""
    changes = []
    for file in installed():
        with suppress(ToolError):
            content = read_bytes(file.path)
            if content is not None and file.created == _digest(content):
                changes.append(SettingsChange(file.path, file.path, content, None))
    return changes


def _digest(content: bytes) -> str:
    return sha256(content).hex()
