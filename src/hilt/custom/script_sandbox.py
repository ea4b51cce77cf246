"""The sandbox that the `sandbox` key of a custom tool declares, for the time that its script runs."""

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
    """A context manager that sets up the declared sandbox of a script and yields it.

    The session's output folder must be readable inside, because a script may be there, and so must `folder`, the tool's
    own.
    """

    def __call__(
        self, ctx: Context, sandbox: DeclaredSandbox, cwd: str, folder: str | None
    ) -> AbstractContextManager[Confined]: ...


def confined(
    definition: Definition, confine: ConfineDeclared | None, ctx: Context, cwd: str
) -> AbstractContextManager[Confined | None]:
    """Return the sandbox of a tool, None without a `sandbox` key; raise if there is nothing to confine it with."""
    if definition.sandbox is None:
        return nullcontext()
    if confine is None:
        raise ToolError("sandbox_unavailable", f"{definition.name} requires a sandbox, and none is available.")
    return confine(ctx, definition.sandbox, cwd, definition.folder if definition.format == "folder" else None)
