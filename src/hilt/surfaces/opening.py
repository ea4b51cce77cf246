"""Open a runtime from the options of a command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from hilt import places
from hilt.choices import FLAGS
from hilt.errors import ToolError

if TYPE_CHECKING:
    from socket import socket

    from hilt.call import Asker, Questioner
    from hilt.parts import Shared
    from hilt.runtime import Runtime
    from hilt.surroundings import Surroundings


def open_runtime(
    options: Mapping[str, str],
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
    *,
    shared: Shared | None = None,
    keeps_jobs: bool = True,
    asker: Asker | None = None,
    questioner: Questioner | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Runtime:
    """Return the runtime for the workspace and session in the options and the environment.

    `shared` is for a process with several runtimes; a process that exits with its answer sets `keeps_jobs` to False.
    `settings` come from a command's own options.
    """
    from hilt.runtime import Runtime

    env = os.environ if environ is None else environ
    folder = _working_directory() if cwd is None else cwd
    connect = None if environ is not None else partial(_connect, options)
    workspace = os.path.join(folder, options.get("workspace") or places.workspace_dir(env, folder))
    flags = {**settings_of(options, folder), **(settings or {})}
    runtime = Runtime(
        workspace,
        session=options.get("session"),
        environ=env,
        flags=flags,
        keeps_jobs=keeps_jobs,
        shared=shared,
        asker=asker,
        questioner=questioner,
        connect=connect,
    )
    for root in runtime.parts.folders:
        places.forget(root, runtime.settings["workspace.writable"])
    try:
        for name in flags.get("tools.only", ()):
            if not name.startswith("mcp__"):  # finding one may start its server
                # raises for an unknown name, with the nearest names
                runtime.parts.catalog.find(name, runtime.settings["dialect"])
    except ToolError:
        runtime.close()
        raise
    return runtime


def surroundings_of(options: Mapping[str, str]) -> Surroundings:
    """Return what programs outside the sandbox may use, for the workspace in the options."""
    with open_runtime(options) as runtime:
        return runtime.parts.surroundings


def _connect(options: Mapping[str, str], *, wake: bool) -> socket | None:
    from hilt.surfaces import resident

    # servers belong to the workspace, so callers with other options share them
    return resident.connect({name: options[name] for name in ("workspace",) if name in options}, wake=wake)


def settings_of(options: Mapping[str, str], folder: str) -> dict[str, Any]:
    """Return the settings for the options; relative paths are resolved against the folder."""
    flags: dict[str, Any] = {name: options[name] for name in FLAGS if name in options}
    if "tools-dir" in options:
        flags["custom.dirs"] = [os.path.join(folder, path) for path in options["tools-dir"].split(os.pathsep) if path]
    if "allow-private" in options:
        flags["web.allow_private"] = [place.strip() for place in options["allow-private"].split(",")]
    only = [name.strip() for name in options.get("tools", "").split(",") if name.strip()]
    if only:
        flags["tools.only"] = only
    return flags


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise ToolError(
            "file_not_found",
            "The working directory no longer exists.",
            suggestion="Start hilt in a folder that exists.",
        ) from error
