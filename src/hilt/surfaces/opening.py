"""From the options of a command line to a runtime."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hilt import places
from hilt.choices import CHOICES
from hilt.errors import ToolError
from hilt.runtime import Runtime, Shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.authority.consent import Asker
    from hilt.authority.principal import Questioner


def open_runtime(
    options: Mapping[str, str],
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
    *,
    shared: Shared | None = None,
    keeps_jobs: bool = True,
    asker: Asker | None = None,
    questioner: Questioner | None = None,
) -> Runtime:
    """Return the runtime for the workspace and session that options and environment name.

    `shared` is for a process that has several; one that ends with its answer keeps no jobs.
    """
    env = os.environ if environ is None else environ
    folder = _working_directory() if cwd is None else cwd
    workspace = os.path.join(folder, options.get("workspace") or places.workspace_dir(env, folder))
    flags = settings_of(options, folder)
    runtime = Runtime(
        workspace,
        session=options.get("session"),
        environ=env,
        flags=flags,
        keeps_jobs=keeps_jobs,
        shared=shared,
        asker=asker,
        questioner=questioner,
    )
    places.forget(runtime.root, runtime.settings["workspace.writable"])
    try:
        for name in flags.get("tools.only", ()):
            if not name.startswith("mcp__"):  # to look for one may start its server
                # a name that does not exist is told with the nearest one
                runtime.catalog.find(name, runtime.settings["dialect"])
    except ToolError:
        runtime.close()
        raise
    return runtime


def settings_of(options: Mapping[str, str], folder: str) -> dict[str, Any]:
    """Return the settings that options stand for; relative paths begin at the folder."""
    flags: dict[str, Any] = {name: options[name] for name in CHOICES if name in options}
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
            "The working directory does not exist any more.",
            suggestion="Start hilt in a folder that exists.",
        ) from error
