"""List a folder."""

from typing import Annotated, Any

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.output import views
from hilt.params import Bounds, Count, ReadPath
from hilt.places import utf8_path
from hilt.schema import STRING, fields

_DETAILED = fields(
    "name:string type:type size:integer modified:string|null",
    type={"type": "string", "enum": ["file", "directory", "special"]},
)
_ANSWER = fields(
    "entries:[entry] truncated:boolean total_count:integer next?:next", entry={"anyOf": [STRING, _DETAILED]}
)


@tool(effects="read", output=_ANSWER, traits=Traits(profile="minimal"))
def list_dir(
    ctx: Context,
    path: ReadPath = ".",
    depth: Annotated[int, Bounds(1, 10, clamp=True)] = 3,
    max_entries: Annotated[int, Bounds(1, 10_000, clamp=True)] = 500,
    changed_since: float = 0,
    offset: Count = 0,
    hidden: bool = False,
    details: bool = False,
) -> Output:
    """List a folder recursively, sorted; folders end with a slash.

    Details:
    Returns JSON: entries, truncated, total_count; when truncated, next is the call for the next page. With details,
    each entry is an object with name, type, size and modified. Sensitive names never appear.

    Args:
        path: Folder to list.
        depth: Levels, up to 10.
        max_entries: Maximum entries.
        changed_since: Only entries modified after this Unix time.
        offset: Entries to skip.
        hidden: Include dotfiles.
        details: Add type, size and modification time.
    """
    entries: list[Any] = []
    total = 0
    end = offset + max_entries
    for name, entry in ctx.workspace.walk(path, depth=depth, hidden=hidden):
        if changed_since:
            try:
                if entry.stat(follow_symlinks=False).st_mtime <= changed_since:
                    continue
            except OSError:
                continue
        total += 1
        if offset < total <= end:
            entries.append(_detailed(name, entry) if details else name if name.isascii() else utf8_path(name))
    position = offset + len(entries)
    data: dict[str, Any] = {"entries": entries, "truncated": position < total, "total_count": total}
    if position < total and entries:
        args: dict[str, Any] = {"path": path, "depth": depth, "max_entries": max_entries, "offset": position}
        extra = {"changed_since": changed_since, "hidden": hidden, "details": details}
        data["next"] = {"tool": "list_dir", "args": {**args, **{key: value for key, value in extra.items() if value}}}
    files = [views.File(item["name"] if details else item) for item in entries[: views.FILES]]
    folder, _ = ctx.workspace.status(path)
    return Output(data=data, view=views.file_list(files, total=total), meta={"path": folder})


def _detailed(name: str, entry: Any) -> dict[str, Any]:
    from hilt.formats.times import rfc3339

    is_folder = entry.is_dir(follow_symlinks=False)
    kind = "directory" if is_folder else "file" if entry.is_file(follow_symlinks=False) else "special"
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return {"name": utf8_path(name), "type": kind, "size": 0, "modified": None}
    return {"name": utf8_path(name), "type": kind, "size": status.st_size, "modified": rfc3339(status.st_mtime_ns)}
