"""What holds while the script of a custom tool runs: the sandbox that its `sandbox` key asks for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.context import Context
    from hilt.custom.definition import Definition
    from hilt.processes.declared_sandbox import DeclaredSandbox
    from hilt.sandbox.process import Confined


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
