"""The files that a person has reviewed and trusts, by project, path in it, kind and exact content."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.loaders import MAX_BYTES, ProjectFile
from hilt.places import command
from hilt.state.tables import open_state


class Trusted(NamedTuple):
    """A file as a person trusted it."""

    file: ProjectFile
    hash: bytes
    at: int  # nanoseconds since the epoch


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
    """The trusted files: of one project each, under their own path in it, with their exact content."""

    def __init__(self, directory: str, *, everything: bool = False) -> None:
        self._db = open_state(directory)
        self.close = self._db.close
        self._everything = everything

    def is_trusted(self, file: ProjectFile, sha256: bytes) -> bool:
        """Whether the file is trusted with exactly this content."""
        query = "SELECT 1 FROM trusted_files WHERE kind=? AND root=? AND path=? AND hash=?"
        return self._everything or bool(self._db.rows(query, (*_row(file), sha256)))

    def trust(self, file: ProjectFile, content: bytes) -> Trusted:
        """Trust this content of a file, replacing any trusted before."""
        if len(content) > MAX_BYTES:
            raise ToolError(
                "file_too_large",
                f"{file.full} has {len(content):,} bytes; the limit for a trusted file is {MAX_BYTES:,}.",
                suggestion="Shorten the file, so that a person can review it.",
            )
        new = Trusted(file, sha256(content), time.time_ns())
        row = (*_row(file), new.hash, content, new.at)
        self._db.write(lambda db: db.execute("INSERT OR REPLACE INTO trusted_files VALUES (?,?,?,?,?,?)", row))
        return new

    def revoke(self, file: ProjectFile) -> bool:
        """Stop trusting the file; return whether it was trusted."""
        query = "DELETE FROM trusted_files WHERE kind=? AND root=? AND path=?"
        return self._db.change(query, _row(file))

    def list(self) -> list[Trusted]:
        """Return all trusted files, by path."""
        query = "SELECT kind, root, path, hash, at FROM trusted_files ORDER BY root, path, kind"
        return [
            Trusted(ProjectFile(kind, os.fsdecode(root), os.fsdecode(path)), hash, at)
            for kind, root, path, hash, at in self._db.rows(query)
        ]

    def trusted_content(self, file: ProjectFile) -> bytes | None:
        """Return the content that was last trusted of a file, or None."""
        query = "SELECT content FROM trusted_files WHERE kind=? AND root=? AND path=?"
        return next((content for (content,) in self._db.rows(query, _row(file))), None)


def _row(file: ProjectFile) -> tuple[str, bytes, bytes]:
    # bytes: a path may not be valid UTF-8
    return file.kind, os.fsencode(file.root), os.fsencode(file.path)


def trusts_file(state: str, environ: Mapping[str, str], file: ProjectFile, data: bytes) -> bool:
    """Whether the user trusts a project's file with this content."""
    with closing(Trust(state, everything=trusts_all(environ))) as trust:
        return trust.is_trusted(file, sha256(data))
