"""The project files that a person has reviewed and trusts, by path and exact content."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.places import SKILL_FOLDERS, command
from hilt.state.tables import open_state

MAX_BYTES = 1024 * 1024

# project files that can loosen policy or run something: path in the project, and kind
PROJECT_FILES = {
    ".hilt/config.toml": "config",
    ".hilt/permissions.yaml": "rules",
    ".jcli/permissions.yaml": "rules",
    ".hilt/hooks.yaml": "hooks",
    ".mcp.json": "servers",
    "AGENTS.md": "instructions",
    "CLAUDE.md": "instructions",
    "AGENT.md": "instructions",
    ".hilt/AGENTS.md": "instructions",
    "agents.config.json": "config",
}

# folders in which every file is part of a tool
TOOL_FOLDERS = (".hilt/tools", ".nanocoder/tools")

# folders in which every Markdown file is a command
COMMAND_FOLDERS = (".hilt/commands", ".claude/commands")

# folders in which every Markdown file defines an agent
AGENT_FOLDERS = (".hilt/agents", ".claude/agents", ".nanocoder/agents")

# in these folders every file needs trust, as a file of this kind
_FOLDERS = {
    **dict.fromkeys(TOOL_FOLDERS, "tool"),
    **dict.fromkeys(SKILL_FOLDERS, "skill"),
    **dict.fromkeys(COMMAND_FOLDERS, "command"),
    **dict.fromkeys(AGENT_FOLDERS, "agent"),
}


class Trusted(NamedTuple):
    """A file as a person trusted it."""

    kind: str
    path: str
    hash: bytes
    at: int  # nanoseconds since the epoch


def kind_of(path: str) -> str:
    """Return the kind of a project file by its path; "file" for any other file."""
    for folder, kind in _FOLDERS.items():
        if f"/{folder}/" in path:
            return kind
    for name, kind in PROJECT_FILES.items():
        if path.endswith("/" + name):
            return kind
    return "hooks" if "/.hilt/hooks/" in path else "file"


def trusts_all(environ: Mapping[str, str]) -> bool:
    """Whether HILT_TRUST=all makes this run trust every project file."""
    value = environ.get("HILT_TRUST") or ""
    if value not in ("", "all"):
        raise ToolError(
            "invalid_args",
            f"HILT_TRUST is {value!r}; the only valid value is all.",
            suggestion=f"Set HILT_TRUST to all, or unset it and trust single files with {command('trust')}.",
        )
    return value == "all"


class Trust:
    """The trusted files. Paths are resolved to real paths."""

    def __init__(self, directory: str, *, everything: bool = False) -> None:
        self._db = open_state(directory)
        self._everything = everything

    def is_trusted(self, kind: str, path: str, sha256: bytes) -> bool:
        """Whether the file with exactly this content is trusted as a file of this kind."""
        if self._everything:
            return True
        if not self._db.exists():
            return False
        query = "SELECT 1 FROM trusted WHERE path=? AND kind=? AND hash=?"
        return self._db.read(lambda db: db.execute(query, (_real(path), kind, sha256)).fetchone()) is not None

    def trust(self, kind: str, path: str, content: bytes) -> Trusted:
        """Trust this content at this path, replacing any trusted before."""
        if len(content) > MAX_BYTES:
            raise ToolError(
                "file_too_large",
                f"{path} has {len(content):,} bytes; the limit for a trusted file is {MAX_BYTES:,}.",
                suggestion="Shorten the file, so that a person can review it.",
            )
        new = Trusted(kind, os.path.realpath(path), sha256(content), time.time_ns())
        row = (_real(path), kind, new.hash, content, new.at)
        self._db.write(lambda db: db.execute("INSERT OR REPLACE INTO trusted VALUES (?,?,?,?,?)", row))
        return new

    def revoke(self, path: str) -> bool:
        """Stop trusting the file; return whether it was trusted."""
        if not self._db.exists():
            return False
        query = "DELETE FROM trusted WHERE path=?"
        return self._db.write(lambda db: db.execute(query, (_real(path),)).rowcount) > 0

    def list(self) -> list[Trusted]:
        """Return all trusted files, by path."""
        if not self._db.exists():
            return []
        query = "SELECT kind, path, hash, at FROM trusted ORDER BY path, kind"
        rows = self._db.read(lambda db: db.execute(query).fetchall())
        return [Trusted(kind, os.fsdecode(path), hash, at) for kind, path, hash, at in rows]

    def trusted_content(self, path: str) -> bytes | None:
        """Return the content that was last trusted at this path, or None."""
        if not self._db.exists():
            return None
        query = "SELECT content FROM trusted WHERE path=? ORDER BY at DESC LIMIT 1"
        row = self._db.read(lambda db: db.execute(query, (_real(path),)).fetchone())
        return None if row is None else row[0]

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        self._db.close()


def _real(path: str) -> bytes:
    # bytes: a path may not be valid UTF-8
    return os.fsencode(os.path.realpath(path))
