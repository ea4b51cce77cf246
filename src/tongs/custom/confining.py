"""How a custom tool is confined that has a `sandbox` key."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from tongs.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tongs.context import Context
    from tongs.custom.definition import Definition, Sandbox
    from tongs.sandbox.process import Confined


class Confine(Protocol):
    """Yields how a script is confined that has a `sandbox` key, and holds what that needs while the block lasts.

    The folder of the session's output must be readable inside: a script may be there.
    """

    def __call__(self, ctx: Context, sandbox: Sandbox, cwd: str) -> AbstractContextManager[Confined]: ...


def confined(
    definition: Definition, confine: Confine | None, ctx: Context, cwd: str
) -> AbstractContextManager[Confined | None]:
    """Return what holds while a tool runs: nothing without the key, and nothing runs when nobody can confine it."""
    if definition.sandbox is None:
        return nullcontext()
    if confine is None:
        raise ToolError("sandbox_unavailable", f"{definition.name} wants to run in a sandbox, and there is none.")
    return confine(ctx, definition.sandbox, cwd)
