"""Find the user's notes, skills, agents and commands related to a subject."""

import time
from collections.abc import Callable
from contextlib import suppress
from stat import S_ISREG
from typing import Annotated, Any, Literal

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import tool
from hilt.errors import ToolError
from hilt.files.workspace import Workspace
from hilt.formats.times import rfc3339
from hilt.knowledge.folders import DEPTH_MAX, FILES_MAX, SKILL, Stamp, Survey, settled
from hilt.knowledge.index import RankedDocument
from hilt.knowledge.locations import CLIENTS, PROJECT, kind_of_folder
from hilt.output import views
from hilt.params import Bounds, Items
from hilt.places import utf8_path
from hilt.schema import fields

Kind = Literal["kb", "skill", "agent", "command"]

_PROJECT = "workspace:"  # prefix of the keys of shelves in the workspace


_RESULT = fields(
    "type:type name:string title:string description:string path:string score:number matched:[string] readable:boolean "
    "source?:string",
    type={"type": "string", "enum": ["kb", "skill", "agent", "command"]},
)
_INDEX = fields(
    "entry_count:integer rebuilt:boolean refreshed:integer build_time:string|null source_count:integer client:string"
)
_ANSWER = fields("results:[result] index:index warnings?:[string]", result=_RESULT, index=_INDEX)


@tool(effects="read", output=_ANSWER)
def related_context(
    ctx: Context,
    query: str,
    types: Annotated[list[Kind], Items(maximum=4)] | None = None,
    limit: Annotated[int, Bounds(minimum=1, maximum=20, clamp=True)] = 5,
    client: Literal["claude", "codex", "pi", "all"] | None = None,
    rebuild: bool = False,
) -> Output:
    """Find the user's notes, skills, agents and commands related to a prompt or failure, best first.

    Returns paths, not contents: use load_skill for skills, read_file if readable.

    Details:
    Searches the user's own folders (shared, per client, configured) and the skills, agents and commands of the
    workspace. Returns JSON: results with type, name, title, description, path, score from 0 to 1 and the words
    that matched; index; warnings. results is empty if nothing matches. The client all searches the folders of every
    client.

    Args:
        query: Prompt, task or error output.
        types: Kinds to search. Default: all.
        limit: Maximum results, up to 20.
        client: Whose skills. Default: the caller's.
        rebuild: Rebuild the index first.
    """
    if not query.strip():
        raise ToolError("invalid_args", "query is empty.", suggestion="Send the prompt or the error output as query.")
    chosen, warnings = _client(ctx, client)
    answer = ctx.knowledge.related(
        query,
        client=chosen,
        kinds=types or (),
        limit=limit,
        rebuild=rebuild,
        project=[_WorkspaceShelf(ctx.workspace, folder) for folder in PROJECT],
        check=ctx.fence.check,
    )
    results = [_result(ctx, entry) for entry in answer.entries]
    refresh = answer.refresh
    data: dict[str, Any] = {
        "results": results,
        "index": {
            "entry_count": refresh.entries,
            "rebuilt": rebuild or (refresh.read > 0 and refresh.read == refresh.entries),
            "refreshed": refresh.read,
            "build_time": rfc3339(refresh.at) if refresh.at else None,
            "source_count": answer.shelves,
            "client": chosen,
        },
    }
    if warnings or answer.warnings:
        data["warnings"] = [*warnings, *answer.warnings]
    return Output(data=data, view=_view(results))


def _client(ctx: Context, client: str | None) -> tuple[str, list[str]]:
    if client is not None:
        return client, []
    declared = (ctx.client or "").strip().lower()
    if declared in CLIENTS:
        return declared, []
    problem = f"unknown client {declared[:40]!r}" if declared else "client not provided"
    return "none", [f"{problem}; pass top-level client=claude|codex|pi to include client-specific skills"]


def _result(ctx: Context, entry: RankedDocument) -> dict[str, Any]:
    path = utf8_path(entry.path)
    result = {
        "type": entry.kind,
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "path": path,
        "score": entry.score,
        "matched": list(entry.matched),
        "readable": ctx.workspace.is_readable(entry.path),
    }
    return {**result, "source": entry.source} if entry.source else result


def _view(results: list[dict[str, Any]]) -> dict[str, Any]:
    if not results:
        return views.none("no related entries")
    return views.table({name: name.capitalize() for name in ("type", "name", "title", "score", "path")}, results)


class _WorkspaceShelf:
    """The skills, agents or commands of the workspace, read with its access checks."""

    def __init__(self, workspace: Workspace, folder: str) -> None:
        self._workspace = workspace
        self._folder = folder
        self._kind = kind_of_folder(folder)
        self.key = f"{_PROJECT}{workspace.root}/{self._folder}"

    def kind_of(self, path: str) -> str:
        return "skill" if path.endswith("/" + SKILL) else self._kind

    def survey(self, check: Callable[[], None]) -> Survey:
        files: dict[str, Stamp] = {}
        try:
            for count, (path, entry) in enumerate(self._workspace.walk(self._folder, depth=DEPTH_MAX)):
                if count >= FILES_MAX:
                    return Survey(files, full=True)
                if self._is_entry(path):
                    with suppress(OSError):  # deleted in the meantime
                        status = entry.stat(follow_symlinks=False)
                        if S_ISREG(status.st_mode):
                            files[path] = (status.st_size, status.st_mtime_ns)
        except ToolError:
            check()  # the folder is missing, or may not be read
        return Survey(files)

    def read(self, path: str, limit: int) -> tuple[bytes, Stamp] | None:
        now = time.time_ns()
        try:
            with self._workspace.stream(path, remember=False) as stream:
                data = next(iter(stream), b"")[:limit]
                return data, (stream.status.st_size, settled(stream.status.st_mtime_ns, now))
        except (ToolError, OSError):
            return None

    def _is_entry(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        if name == SKILL:
            return True
        if not name.lower().endswith(".md") or name.lower() == "readme.md":
            return False
        return self._kind != "skill" or folder == self._folder
