"""The sandbox that the `sandbox` key of a custom tool declares, held while its script runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.context import Context
    from hilt.custom.definition import Definition
    from hilt.processes.declared_sandbox import DeclaredSandbox
    from hilt.sandbox.backend import Launch
    from hilt.sandbox.capturing import Finished


class ConfineDeclared(Protocol):
    """A context manager that sets up the declared sandbox of a script and yields it.

    Inside it, the session's output folder must be readable, because a script may be there, and so must `folder`, the
    tool's own folder.
    """

    def __call__(
        self, ctx: Context, sandbox: DeclaredSandbox, cwd: str, folder: str | None
    ) -> AbstractContextManager[Launch]: ...


def confined(
    definition: Definition, confine: ConfineDeclared | None, ctx: Context, cwd: str
) -> AbstractContextManager[Launch | None]:
    """Return the sandbox of a tool, None without a `sandbox` key; raise if there is nothing to confine it with."""
    if definition.sandbox is None:
        return nullcontext()
    if confine is None:
        raise ToolError("sandbox_unavailable", f"{definition.name} requires a sandbox, and none is available.")
    return confine(ctx, definition.sandbox, cwd, definition.folder if definition.format == "folder" else None)


def run_confined(
    definition: Definition,
    confine: ConfineDeclared | None,
    ctx: Context,
    cwd: str,
    run: Callable[[Launch | None], Finished],
) -> Finished:
    """Run a script in the sandbox of its tool; if it does not start on an overlay, run it without undo."""
    try:
        with confined(definition, confine, ctx, cwd) as sandbox:
            return run(sandbox)
    except ToolError as error:
        from hilt.processes.undoable import NOT_MOUNTED, is_not_started

        if definition.sandbox is None or not definition.sandbox.undo or not is_not_started(error):
            raise
    if definition.dangerous and ctx.can_ask:
        ctx.approve(f"{definition.name} is dangerous, and undo cannot revert it: {NOT_MOUNTED}")
    without_undo = definition._replace(sandbox=definition.sandbox._replace(undo=False))
    with confined(without_undo, confine, ctx, cwd) as sandbox:
        finished = run(sandbox)
    ctx.meta["undo"] = {"skipped": NOT_MOUNTED}
    return finished
