"""Detect what kind of project a folder is."""

from collections.abc import Iterator
from typing import Any

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import tool
from hilt.errors import ToolError
from hilt.knowledge import projects
from hilt.knowledge.projects import Project
from hilt.output import views
from hilt.params import ReadPath
from hilt.places import utf8_path
from hilt.schema import fields

DEPTH = 3
FOLDERS_MAX = 1000
PROJECTS_MAX = 100
FILE_BYTES = 1024 * 1024

# not the user's own projects: build output, dependencies and test data
_SKIPPED = frozenset(
    {
        *("node_modules", "vendor", "__pycache__", "dist", "build", "target", "venv", "env", "deps", "_build", "out"),
        *("testdata", "fixtures", "__fixtures__", "third_party", "site-packages", "coverage", "templates"),
    }
)


_FACTS = (
    "languages:[string] build_tool?:string test_command?:string linter?:string config_files:[string] "
    "frameworks:[string] type_checker?:string package_manager?:string"
)

_ANSWER = fields(
    f"{_FACTS} projects?:[project] truncated?:boolean total_count?:integer", project=fields(f"path:string {_FACTS}")
)


@tool(effects="read", output=_ANSWER)
def detect_project(ctx: Context, path: ReadPath = ".") -> Output:
    """Detect a project's languages, frameworks, and commands to build, test, lint and type-check it.

    Details:
    Returns JSON: languages, build_tool, test_command, linter, config_files, frameworks, type_checker and
    package_manager; unknown commands are omitted. In a monorepo, projects lists the projects in subfolders,
    each with the path where its commands run.

    Args:
        path: Project folder.
    """
    names = _names(ctx, path)
    root, _ = ctx.workspace.status(path)
    main = _project(ctx, root, names, None)
    subprojects = list(_subprojects(ctx, root, names, main))
    data = main.as_data()
    for field in ("languages", "frameworks"):
        data[field] = list(projects.merged([data[field], *(getattr(project, field) for _, project in subprojects)]))
    if subprojects:
        data["projects"] = [
            {"path": utf8_path(folder), **project.as_data()} for folder, project in subprojects[:PROJECTS_MAX]
        ]
    if len(subprojects) > PROJECTS_MAX:
        data |= {"truncated": True, "total_count": len(subprojects)}
    return Output(data=data, view=_view(root, main, subprojects[:PROJECTS_MAX]), meta={"path": utf8_path(root)})


def _names(ctx: Context, folder: str) -> set[str]:
    """Return the names in a folder, without sensitive ones; names of folders end with a slash."""
    names = set()
    for path, _ in ctx.workspace.walk(folder, depth=1, hidden=True):
        name = path.rstrip("/").rpartition("/")[2]
        names.add(f"{name}/" if path.endswith("/") else name)
    return names


def _project(ctx: Context, folder: str, names: set[str], manager: str | None) -> Project:
    def read(name: str) -> str | None:
        try:
            file = ctx.workspace.read(_join(folder, name), limit=FILE_BYTES, remember=False)
        except ToolError:
            ctx.fence.check()
            return None
        return file.data.decode("utf-8", "replace")

    return projects.detect(names, read, manager=manager)


def _subprojects(ctx: Context, root: str, names: set[str], main: Project) -> Iterator[tuple[str, Project]]:
    """Yield the projects in subfolders, nearest first, each with its path relative to the root."""
    manager = main.package_manager if main.package_manager in ("npm", "pnpm", "yarn", "bun") else None
    queue = [("", names, 0)]
    seen = 0
    for folder, entries, depth in queue:
        for name in sorted(name for name in entries if name.endswith("/")):
            plain = name[:-1]
            if plain in _SKIPPED or plain.startswith(".") or seen >= FOLDERS_MAX:
                continue
            seen += 1
            below = _join(folder, plain)
            try:
                names_below = _names(ctx, _join(root, below))
            except ToolError:
                ctx.fence.check()
                continue  # deleted, or may not be read
            if projects.is_project(names_below):
                yield below, _project(ctx, _join(root, below), names_below, manager)
            if depth + 1 < DEPTH:
                queue.append((below, names_below, depth + 1))


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder not in ("", ".") else name


_COLUMNS = {name: name.capitalize() for name in ("path", "languages", "frameworks", "build", "test", "lint")}


def _view(path: str, main: Project, subprojects: list[tuple[str, Project]]) -> dict[str, Any]:
    rows = [
        {
            "path": utf8_path(folder),
            "languages": ", ".join(project.languages),
            "frameworks": ", ".join(project.frameworks),
            "build": project.build_tool or "",
            "test": project.test_command or "",
            "lint": project.linter or "",
        }
        for folder, project in [(path, main), *subprojects]
    ]
    return views.table(_COLUMNS, rows)
