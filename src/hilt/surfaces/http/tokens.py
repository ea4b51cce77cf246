"""Tokens of HTTP servers: created once, stored in the state directory, readable by the owner only."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.handles import put_file

TOKEN_MIN = 20  # characters
PERSON_FILE = "serve-token"
AGENTS_FILE = "serve-agent-token"


class StoredToken(NamedTuple):
    """A token, the file that it is stored in, and whether it was created now."""

    text: str
    path: str
    is_new: bool = False


def person_token(state: str) -> str:
    """Return the person's token of `hilt serve`: HILT_TOKEN, or the stored one."""
    return _from_environment("HILT_TOKEN") or stored_token(state, PERSON_FILE).text


def agents_token(state: str) -> str:
    """Return the agents' token of `hilt serve`: HILT_AGENT_TOKEN, or the stored one."""
    return _from_environment("HILT_AGENT_TOKEN") or stored_token(state, AGENTS_FILE).text


def _from_environment(variable: str) -> str | None:
    token = os.environ.get(variable)
    if token and (len(token) < TOKEN_MIN or not token.isascii() or not token.isprintable() or " " in token):
        advice = f"Use at least {TOKEN_MIN} letters and digits, or unset it."
        raise ToolError("invalid_args", f"{variable} is not a valid token.", suggestion=advice)
    return token or None


def stored_token(state: str, name: str) -> StoredToken:
    """Return the token in a file of the state directory; create it if there is none."""
    path = os.path.join(state, name)
    with suppress(FileNotFoundError):
        return StoredToken(_read(path), path)
    token = secrets.token_urlsafe(32)
    if not put_file(path, f"{token}\n".encode("ascii"), only_new=True):
        return StoredToken(_read(path), path)  # another process was faster
    return StoredToken(token, path, is_new=True)


def _read(path: str) -> str:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), encoding="ascii", errors="replace") as file:
        status = os.fstat(file.fileno())
        token = file.read(1000).strip()
    if status.st_mode & 0o077 or status.st_uid != os.geteuid() or len(token) < TOKEN_MIN:
        raise ToolError(
            "permission_denied",
            f"{path} does not contain a token, or others can read it.",
            suggestion="Delete it; the next start creates a new one.",
        )
    return token
