"""The voters that every call meets: what its effects are, and where its paths lead."""

from __future__ import annotations

from tongs.context import Context
from tongs.errors import ToolError
from tongs.pipeline import Prepared
from tongs.policy.decision import Vote

_UNDOABLE = {"read", "write"}
_INSIDE = Vote("allow", "effects", "reads or writes inside the workspace")


def effects(prepared: Prepared, ctx: Context) -> Vote | None:
    """The default by effect: reading and undoable writing in the workspace are allowed."""
    open_ended = prepared.tool.effects - _UNDOABLE
    if not open_ended:
        return _INSIDE
    return Vote("ask", "effects", f"has the effect {', '.join(sorted(open_ended))}")


def paths(prepared: Prepared, ctx: Context) -> Vote | None:
    """The path boundary, sensitive names and write protection."""
    for touch in prepared.touches:
        if touch.effect in ("read", "write") and not touch.partial:
            try:
                ctx.workspace.judge(touch.target, write=touch.effect == "write")
            except ToolError as error:
                return Vote("deny", "paths", error.message, error)
    return None
