"""The record of installed tools: their sources and checksums, and whether they have changed since."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hilt import places
from hilt.custom import candidates
from hilt.custom.definition import FILE_BYTES, fingerprint
from hilt.errors import ToolError
from hilt.formats.invisible import one_line

RECORD = ".installed.json"  # beside the personal tools

Records = dict[str, dict[str, Any]]  # source and checksum, by file name


class Contents(NamedTuple):
    """The files of a tool, and which of them are executable."""

    files: Mapping[str, bytes]
    runs: frozenset[str]


def own_folder() -> str:
    """Return the folder of the personal tools."""
    return os.path.join(places.config_dir(os.environ), "tools")


def contents(path: str) -> Contents:
    """Read all files of a tool; raise if one is not a regular file, or is too large."""
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
    return Contents(files, frozenset(runs))


def records() -> Records:
    """Return the record of installed tools; empty if the file is missing or invalid."""
    try:
        with open(os.path.join(own_folder(), RECORD), encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return {name: entry for name, entry in data.items() if isinstance(entry, dict)} if isinstance(data, dict) else {}


def record(change: Callable[[Records], Records]) -> None:
    """Apply a change to the record of installed tools."""
    path = os.path.join(own_folder(), RECORD)
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "w", encoding="utf-8") as file:
        json.dump(change(records()), file, indent=2)
    os.replace(fresh, path)


def changed() -> list[str]:
    """Return the paths of tools that have changed since their installation."""
    paths = []
    for name, entry in sorted(records().items()):
        path = os.path.join(own_folder(), name)
        if os.path.basename(name) != name or not os.path.lexists(path):
            continue  # removed by hand
        try:
            is_same = fingerprint(contents(path).files) == entry.get("checksum")
        except ToolError:
            is_same = False
        if not is_same:
            paths.append(path)
    return paths
