"""How a custom tool is confined that has a `sandbox` key."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.context import Context
    from hilt.custom.definition import DeclaredSandbox, Definition
    from hilt.sandbox.process import Confined
    from hilt.sandbox.profile import Profile


class ConfineDeclared(Protocol):
    """Yields how a script is confined that has a `sandbox` key, and holds what that needs while the block lasts.

    The folder of the session's output must be readable inside, for a script may be there, and so must be `folder`,
    which a tool has for itself.
    """

    def __call__(
        self, ctx: Context, sandbox: DeclaredSandbox, cwd: str, folder: str | None
    ) -> AbstractContextManager[Confined]: ...


def confined(
    definition: Definition, confine: ConfineDeclared | None, ctx: Context, cwd: str
) -> AbstractContextManager[Confined | None]:
    """Return what holds while a tool runs: nothing without the key, and nothing runs when nobody can confine it."""
    if definition.sandbox is None:
        return nullcontext()
    if confine is None:
        raise ToolError("sandbox_unavailable", f"{definition.name} wants to run in a sandbox, and there is none.")
    return confine(ctx, definition.sandbox, cwd, definition.folder if definition.format == "folder" else None)


def readable(paths: Iterable[str], root: str, home: str) -> tuple[str, ...]:
    """Return the real paths that a tool may read beside the workspace; ~ is the home directory."""
    return tuple(os.path.realpath(os.path.join(root, _from_home(path, home))) for path in paths)


def writable(paths: Iterable[str], root: str, profile: Profile) -> tuple[str, ...]:
    """Return the real paths that a tool may write, nothing for the whole workspace; missing folders are made.

    What is protected or sensitive stays so, whatever a tool says of it.
    """
    from hilt.sandbox.profile import innermost

    found = []
    for path in paths:
        real = os.path.realpath(os.path.join(root, _from_home(path, profile.home)))
        if real in profile.roots:
            return ()
        outer = innermost(real, profile.roots)
        if outer is None:
            raise _unwritable(path, "it lies outside the workspace")
        names = real[len(outer.rstrip("/")) + 1 :].split("/")
        passed = ["/".join(names[: count + 1]) for count in range(len(names))]
        guarded = (*(os.path.join(profile.home, name) for name in profile.start_files), *profile.kept)
        if ".git" in names or any(map(profile.is_protected, passed)) or innermost(real, guarded):
            raise _unwritable(path, "it is protected")
        if any(map(profile.is_sensitive, passed)):
            raise _unwritable(path, "it is sensitive")
        try:
            if not os.path.lexists(real):
                os.makedirs(real)
        except OSError as error:
            raise _unwritable(path, f"it cannot be made: {error.strerror}") from error
        found.append(real)
    return tuple(dict.fromkeys(found))


def _from_home(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _unwritable(path: str, why: str) -> ToolError:
    return ToolError(
        "sandbox_unavailable",
        f"The tool cannot be given {path} to write: {why}.",
        suggestion="Ask the author of the tool to name other folders of the workspace under sandbox.write.",
        path=path,
    )
