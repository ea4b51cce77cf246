"""Personal tools from a path, a repository or an archive: install, remove, and find what changed since.

No tool code runs before the person has seen its files and agreed. Exactly the bytes that were shown are written.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hilt import places
from hilt.custom import candidates, sources
from hilt.custom.definition import FILE_BYTES, Definition, ToolProblem, fingerprint
from hilt.desk.personal_files import explained, write_whole
from hilt.errors import ToolError
from hilt.formats.invisible import one_line
from hilt.handles import put_file
from hilt.surroundings import Surroundings

if TYPE_CHECKING:
    from hilt.runtime import Runtime

_RECORD = ".installed.json"  # sources and checksums by file name, beside the personal tools


class StagedTool(NamedTuple):
    """A tool to install: its file name, its files, and where it comes from."""

    name: str
    files: Mapping[str, bytes]
    runs: frozenset[str]  # the files that are executable
    source: str

    @property
    def checksum(self) -> str:
        """The checksum of its files."""
        return fingerprint(self.files)


class ToolPreview(NamedTuple):
    """What a tool declares, as far as that is known without running it, and why it is broken."""

    definitions: tuple[Definition, ...]
    problems: tuple[str, ...]


def own_folder() -> str:
    """Return the folder of the personal tools."""
    return os.path.join(places.config_dir(os.environ), "tools")


# --- install --------------------------------------------------------------------------------------------------------


def staged(source: str, surroundings: Callable[[], Surroundings]) -> list[StagedTool]:
    """Return the tools of a source, read once, so that the bytes shown are the bytes written."""
    with tempfile.TemporaryDirectory(prefix="hilt-install-") as folder, explained(source):
        return [_staged(path, source) for path in sources.tools_of(source, folder, surroundings)]


def target(tool: StagedTool) -> str:
    """Return the path at which a tool will be installed; raise if it is taken."""
    path = os.path.join(own_folder(), tool.name)
    if os.path.lexists(path):
        raise ToolError(
            "already_exists",
            f"{one_line(path)} already exists.",
            suggestion=f"Remove it first: {places.command('tools', 'remove', one_line(tool.name))}",
        )
    return path


def preview(tool: StagedTool) -> ToolPreview | None:
    """Return what a tool declares; None if it is a program, which only runs to say so."""
    with tempfile.TemporaryDirectory(prefix="hilt-install-") as folder:
        path = os.path.join(folder, tool.name)
        write_whole(path, tool.files, tool.runs)
        if candidates.format_of(path) in ("python", "javascript"):
            return None
        loaded = candidates.read_tool(path, "personal")
    return ToolPreview(loaded.definitions, tuple(_inside(problem, path) for problem in loaded.problems))


def install(tool: StagedTool) -> None:
    """Write exactly the files of a tool, and record its source."""
    path = target(tool)
    with explained(path):
        write_whole(path, tool.files, tool.runs)
        _record({**_records(), tool.name: {"from": tool.source, "checksum": tool.checksum}})


def _staged(path: str, source: str) -> StagedTool:
    if os.path.basename(path).startswith("."):
        raise sources.reject(f"The tool has the hidden name {one_line(os.path.basename(path))!r}.")
    return StagedTool(os.path.basename(path), *_contents(path), source)


def _contents(path: str) -> tuple[Mapping[str, bytes], frozenset[str]]:
    """Return all files of a tool and which are executable; raise if one is not a regular file, or is too large."""
    files: dict[str, bytes] = {}
    runs = set()
    for file in candidates.tool_files(path):
        name = os.path.relpath(file, path) if file != path else ""
        if name.split(os.sep)[0] == ".git":
            continue
        try:
            facts = os.lstat(file)
            if not stat.S_ISREG(facts.st_mode):
                raise ToolError(
                    "tool_invalid",
                    f"{one_line(file)} is not a regular file.",
                    suggestion="Replace links with their targets.",
                )
            if facts.st_size > FILE_BYTES:
                raise ToolError(
                    "file_too_large",
                    f"{one_line(file)} is larger than {FILE_BYTES >> 20} MiB.",
                    suggestion="Keep the files of a tool small enough for a person to review.",
                )
            with open(file, "rb") as opened:
                files[name] = opened.read(FILE_BYTES + 1)
        except OSError as error:
            raise ToolError("permission_denied", f"{one_line(file)}: {os.strerror(error.errno or 0)}.") from None
        if facts.st_mode & stat.S_IXUSR:
            runs.add(name)
    return files, frozenset(runs)


def _inside(problem: ToolProblem, path: str) -> str:
    line = "" if problem.line is None else f"line {problem.line}: "
    return line + problem.message.replace(path, os.path.basename(path))


# --- remove and compare ---------------------------------------------------------------------------------------------


def removable(name: str, open_workspace: Callable[[], Runtime]) -> list[str]:
    """Return the paths of the personal tools of a name, or of the file with this name; raise if there is none."""
    folder = own_folder()
    installed = candidates.tool_paths(folder, "personal")
    matches = [path for path in installed if name in (os.path.basename(path), _stem(path))]
    if not matches:
        with open_workspace() as runtime:
            matches = _declaring(runtime, name, installed)
    if not matches:
        raise ToolError(
            "not_found",
            f"There is no tool {one_line(name)} in {one_line(folder)}.",
            suggestion=f"To see where a tool comes from: {places.command('tools', 'show', 'NAME')}",
        )
    return matches


def remove(path: str) -> None:
    """Remove a personal tool, and its record; of a link, only the link."""
    with explained(path):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        records, name = _records(), os.path.basename(path)
        if records.pop(name, None) is not None:
            _record(records)


def changed() -> list[str]:
    """Return the paths of tools that have changed since their installation."""
    paths = []
    for name, entry in sorted(_records().items()):
        path = os.path.join(own_folder(), name)
        if os.path.basename(name) != name or not os.path.lexists(path):
            continue  # removed by hand
        try:
            is_same = fingerprint(_contents(path)[0]) == entry.get("checksum")
        except ToolError:
            is_same = False
        if not is_same:
            paths.append(path)
    return paths


def _declaring(runtime: Runtime, name: str, paths: Sequence[str]) -> list[str]:
    """Return the paths that declare a tool of this name, whatever their file names are."""
    custom = (
        runtime.parts.toolbox.tools_found()
    )  # loads modules like any other list of tools, in the sandbox that the settings require
    same_name = (custom.definitions.get(name), *(tool for tool in custom.hidden if tool.name == name))
    origins = [tool.origin for tool in same_name if tool is not None]
    return [path for path in paths if any(origin in (path, *_definitions(path)) for origin in origins)]


def _definitions(path: str) -> list[str]:
    return [os.path.join(path, name) for name in candidates.DEFINITIONS]


def _stem(path: str) -> str:
    return os.path.basename(path) if os.path.isdir(path) else os.path.splitext(os.path.basename(path))[0]


def _records() -> dict[str, dict[str, Any]]:
    """Return the record of installed tools; empty if the file is missing or invalid."""
    try:
        with open(os.path.join(own_folder(), _RECORD), encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return {name: entry for name, entry in data.items() if isinstance(entry, dict)} if isinstance(data, dict) else {}


def _record(entries: Mapping[str, Any]) -> None:
    put_file(os.path.join(own_folder(), _RECORD), json.dumps(entries, indent=2).encode())
