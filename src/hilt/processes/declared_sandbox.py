"""The `sandbox` key of a custom tool: what it declares, and the real paths it resolves to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.profile import Profile


class DeclaredSandbox(NamedTuple):
    """What the `sandbox` key of a tool allows its process; paths as written in the file.

    With `undo`, a separate key in the file, the tool runs on an overlay of the workspace.
    """

    network: bool = False
    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    undo: bool = False


def readable(paths: Iterable[str], root: str, home: str) -> tuple[str, ...]:
    """Return the real paths that a tool may read in addition to the workspace; ~ is the home directory."""
    return tuple(os.path.realpath(os.path.join(root, _from_home(path, home))) for path in paths)


def writable(paths: Iterable[str], root: str, profile: Profile) -> tuple[str, ...]:
    """Return the real paths that a tool may write, empty for the whole workspace; creates missing folders.

    Protected and sensitive paths are rejected.
    """
    from hilt.sandbox.profile import innermost

    real_paths = []
    for path in paths:
        real = os.path.realpath(os.path.join(root, _from_home(path, profile.home)))
        if real in profile.roots:
            return ()
        outer = innermost(real, profile.roots)
        if outer is None:
            raise _unwritable(path, "it is outside the workspace")
        names = real[len(outer.rstrip("/")) + 1 :].split("/")
        prefixes = ["/".join(names[: count + 1]) for count in range(len(names))]
        is_protected = any(
            profile.is_protected(prefix) or profile.homes.protects(os.path.join(outer, prefix)) for prefix in prefixes
        )
        if ".git" in names or is_protected or innermost(real, profile.read_only):
            raise _unwritable(path, "it is protected")
        if any(map(profile.is_sensitive, prefixes)):
            raise _unwritable(path, "it is sensitive")
        try:
            if not os.path.lexists(real):
                os.makedirs(real)
        except OSError as error:
            raise _unwritable(path, f"it cannot be created: {error.strerror}") from error
        real_paths.append(real)
    return tuple(dict.fromkeys(real_paths))


def _from_home(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _unwritable(path: str, reason: str) -> ToolError:
    return ToolError(
        "sandbox_unavailable",
        f"The tool cannot get write access to {path}: {reason}.",
        suggestion="Ask the author of the tool to list other workspace folders under sandbox.write.",
        path=path,
    )
