"""The voter that every call meets beside the authority: where its paths lead."""

from __future__ import annotations

from hilt.context import Context
from hilt.errors import ToolError
from hilt.pipeline import Prepared
from hilt.policy.decision import Vote


def paths(prepared: Prepared, ctx: Context) -> Vote | None:
    """The path boundary, sensitive names and write protection."""
    for touch in prepared.touches:
        if touch.effect in ("read", "write") and not touch.partial:
            try:
                ctx.workspace.judge(touch.target, write=touch.effect == "write")
            except ToolError as error:
                return Vote("deny", "paths", error.message, error)
    return None
