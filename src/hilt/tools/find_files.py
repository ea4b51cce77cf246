"""Find files by name."""

from typing import Annotated, Any, Literal

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.output import views
from hilt.params import Bounds, ReadPath
from hilt.schema import fields
from hilt.search.selection import Selection
from hilt.search.tree import open_tree

FEW_FILES = 3  # with fewer results than this, report how many files the ignore rules hide
OFFSET_MAX = 1_000_000


_ANSWER = fields(
    "files:[string] truncated:boolean total_count:integer limit_used:integer backend:string total_is_minimum?:boolean "
    "dropped?:integer ignored?:integer hint?:string next?:next"
)


@tool(effects="read", output=_ANSWER, traits=Traits(profile="minimal"))
def find_files(
    ctx: Context,
    pattern: str,
    path: ReadPath = ".",
    limit: Annotated[int, Bounds(1, 10_000, clamp=True)] = 1000,
    offset: Annotated[int, Bounds(0, OFFSET_MAX, clamp=True)] = 0,
    sort: Literal["name", "mtime"] = "name",
    exclude: str | None = None,
    hidden: bool = False,
    no_ignore: bool = False,
) -> Output:
    """Find files by a glob: `*.go` at any depth; with a slash, `src/**/*.{js,ts}`, from path on.

    Skips .git, node_modules, vendor, dist, build and caches.

    Details:
    Skips files that .gitignore hides, and always the folders .git, node_modules, vendor, `__pycache__`, .cache, dist
    and build. Sensitive files never appear. Returns JSON: files, truncated, total_count, limit_used, backend; when
    truncated, next is the call for the next page. Files that changed during the search are omitted and counted in
    dropped.

    Args:
        pattern: Glob to match.
        path: Folder to search.
        limit: Maximum files.
        offset: Files to skip.
        sort: mtime is newest first.
        exclude: Skip files that match this glob.
        hidden: Include dotfiles.
        no_ignore: Include files that .gitignore excludes.
    """
    with open_tree(ctx, path) as tree:
        if tree.is_file:
            raise ToolError(
                "invalid_args", f"{tree.path} is not a folder.", suggestion="Use stat_file or read_file for a file."
            )
        selection = Selection(
            include=[tree.below(pattern)],
            exclude=[] if exclude is None else [exclude],
            hidden=hidden,
            no_ignore=no_ignore,
            argument="pattern",
        )
        matches = tree.files(selection, keep=offset + limit, skip=offset, newest=sort == "mtime")
        files = tree.display_paths(matches.paths[offset:])
        ignored = tree.hidden(selection, matches.total) if matches.total < FEW_FILES and not matches.is_minimum else 0
    end = offset + len(files)
    data: dict[str, Any] = {
        "files": files,
        "truncated": end < matches.total or matches.is_minimum,
        "total_count": matches.total,
        "limit_used": limit,
        "backend": "ripgrep",
    }
    if matches.is_minimum:
        data["total_is_minimum"] = True
    if matches.dropped:
        data["dropped"] = matches.dropped
        data["hint"] = f"{matches.dropped} omitted: changed during the search."
    if ignored:
        data["ignored"] = ignored
        data["hint"] = f"Ignore rules hide {ignored} more; send no_ignore: true to include them."
    elif not matches.total and pattern.startswith("/"):
        data["hint"] = "A glob is relative to path, even with a leading slash."
    if files and end < matches.total and end <= OFFSET_MAX:
        args: dict[str, Any] = {"pattern": pattern, "path": path, "limit": limit, "offset": end}
        extra = {"sort": sort if sort != "name" else "", "exclude": exclude, "hidden": hidden, "no_ignore": no_ignore}
        data["next"] = {"tool": "find_files", "args": {**args, **{key: value for key, value in extra.items() if value}}}
    meta = {"unreadable": matches.unreadable} if matches.unreadable else {}
    return Output(data=data, view=views.file_list([views.File(name) for name in files], total=matches.total), meta=meta)
