"""From the options of a command line to a runtime."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tongs import places
from tongs.runtime import Runtime


def open_runtime(
    options: Mapping[str, str], environ: Mapping[str, str] | None = None, cwd: str | None = None
) -> Runtime:
    """Return the runtime for the workspace and session that options and environment name."""
    env = os.environ if environ is None else environ
    folder = os.getcwd() if cwd is None else cwd
    workspace = os.path.join(folder, options.get("workspace") or places.workspace_dir(env, folder))
    flags: dict[str, Any] = {"dialect": options["dialect"]} if "dialect" in options else {}
    return Runtime(workspace, session=options.get("session"), environ=env, flags=flags)
