"""Folder tools with `warm: true`: their script stays running, and answers one line of JSON by another.

It is started by the first call, just as for a single one, with the same environment and confined in the same way. Each
line on its standard input is one call, with the fields that a script of a single call is given. It answers with one
line, a JSON object, written out at once; other lines are noise. It works on one call at a time: calls at the same time
have a process each, so a script must not count on being the only one. It ends after ten idle minutes, when a call takes
too long, when its files change, and with hilt.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, NamedTuple

from hilt.custom.answers import parsed
from hilt.custom.workers import Confine, Recipe, Workers
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.formats.times import is_settled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.context import Context
    from hilt.custom.definition import Definition
    from hilt.custom.launching import Launch

WATCHED_FILES = 500  # of a tool's folder
_NOT_WATCHED = ("node_modules", ".git", "__pycache__", ".venv")


class WarmReply(NamedTuple):
    """The answer of a script, and whether it printed other things before."""

    value: dict[str, Any]
    is_noisy: bool


def ask(
    workers: Workers, definition: Definition, launch: Launch, request: dict[str, Any], ctx: Context, confine: Confine
) -> WarmReply:
    """Return what the script answers; `confine` holds how a process of it is confined while it runs."""
    noise = threading.Event()
    place = [definition.origin, ctx.workspace.root]
    if definition.sandbox is not None:
        # a sandbox is that of a session, and as strict as its mode
        place += [ctx.session, ctx.mode]
    recipe = Recipe(
        _key(definition, launch, place),
        json.dumps(place),
        definition.origin,
        definition.name,
        launch.argv,
        launch.cwd,
        launch.env,
        confine=confine,
        decode=_decoded,
    )
    try:
        value = workers.ask(recipe, request, seconds=definition.details["seconds"], fence=ctx.fence, on_noise=noise.set)
    except ToolError as error:
        if error.code != "timeout":
            raise
        raise ToolError(
            "timeout",
            error.message,
            suggestion="Ask for less at once, or give the tool a longer timeout. A warm tool must answer every line it "
            "reads with one line of JSON, and write it out at once.",
        ) from None
    return WarmReply(value, noise.is_set())


def _decoded(line: bytes) -> dict[str, Any] | None:
    value = parsed(line.decode("utf-8", "replace")) if line.lstrip().startswith(b"{") else None
    return value if isinstance(value, dict) else None


def _key(definition: Definition, launch: Launch, place: list[str]) -> str:
    """Return what is another when a running process is not the one that would be started now."""
    stamps = _stamps(definition.folder)
    env = sorted(launch.env.items())
    told = [definition.content_hash, launch.argv, launch.cwd, env, definition.sandbox, stamps, place]
    digest = sha256(json.dumps(told).encode()).hex()
    newest = max((max(stamp[1:3]) for stamp in stamps), default=0)
    return digest if is_settled(newest, time.time_ns()) else f"{digest} {os.urandom(8).hex()}"


def _stamps(folder: str) -> list[tuple[str, int, int, int, int]]:
    """Return what changes when the files of a tool do."""
    found: list[tuple[str, int, int, int, int]] = []
    for inner, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_WATCHED]
        for name in files:
            path = os.path.join(inner, name)
            try:
                status = os.stat(path)
            except OSError:
                continue
            found.append((path, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino))
        if len(found) > WATCHED_FILES:
            break
    return sorted(found)
