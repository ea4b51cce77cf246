"""Folder tools with `warm: true`: their script keeps running, and answers each line of JSON with a line of JSON.

The first call starts it with the environment and sandbox of a tool that is not warm. Each line on its standard input is
one call, with the fields that such a script receives. It answers with one line, a JSON object, and flushes it; other
lines are noise. It handles one call at a time: concurrent calls run in separate processes, so a script must not assume
that it is the only one. It is stopped after ten idle minutes, when a call times out, when its files change, and when
hilt exits.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, NamedTuple

from hilt.custom.answers import parse
from hilt.custom.workers import Confine, Recipe, Workers
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.formats.times import is_settled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.context import Context
    from hilt.custom.definition import Definition
    from hilt.custom.launching import ScriptStart

WATCHED_FILES = 500  # of a tool's folder
_NOT_WATCHED = ("node_modules", ".git", "__pycache__", ".venv")


class WarmReply(NamedTuple):
    """The answer of a script, and whether it printed other lines before."""

    value: dict[str, Any]
    is_noisy: bool


def ask(
    workers: Workers,
    definition: Definition,
    launch: ScriptStart,
    request: dict[str, Any],
    ctx: Context,
    confine: Confine,
) -> WarmReply:
    """Return the answer of the script; `confine` provides the sandbox of its process."""
    noise = threading.Event()
    place = [definition.origin, ctx.workspace.root]
    if definition.sandbox is not None:
        # a sandbox depends on the session and its mode
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
            suggestion="Request less at once, or increase the tool's timeout. A warm tool must answer every line it "
            "reads with one line of JSON, and flush it.",
        ) from None
    return WarmReply(value, noise.is_set())


def _decoded(line: bytes) -> dict[str, Any] | None:
    value = parse(line.decode("utf-8", "replace")) if line.lstrip().startswith(b"{") else None
    return value if isinstance(value, dict) else None


def _key(definition: Definition, launch: ScriptStart, place: list[str]) -> str:
    """Return a key that changes when the running process is out of date."""
    stamps = _stamps(definition.folder)
    env = sorted(launch.env.items())
    facts = [definition.content_hash, launch.argv, launch.cwd, env, definition.sandbox, stamps, place]
    digest = sha256(json.dumps(facts).encode()).hex()
    newest = max((max(stamp[1:3]) for stamp in stamps), default=0)
    return digest if is_settled(newest, time.time_ns()) else f"{digest} {os.urandom(8).hex()}"


def _stamps(folder: str) -> list[tuple[str, int, int, int, int]]:
    """Return the metadata that changes when the files of a tool do."""
    stamps: list[tuple[str, int, int, int, int]] = []
    for inner, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_WATCHED]
        for name in files:
            path = os.path.join(inner, name)
            try:
                status = os.stat(path)
            except OSError:
                continue
            stamps.append((path, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino))
        if len(stamps) > WATCHED_FILES:
            break
    return sorted(stamps)
