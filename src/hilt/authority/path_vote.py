"""The vote on the paths of a call, besides the authority's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from hilt.authority.targets import effects_of
from hilt.call import Touch
from hilt.context import Context
from hilt.errors import ToolError
from hilt.pipeline import Decision, Prepared
from hilt.policy.decision import Vote


def vote_on_paths(prepared: Prepared, ctx: Context) -> Decision | None:
    """Vote on the workspace boundary, sensitive names and write protection; ask about what runs by itself."""
    start_files: dict[str, None] = {}
    for touch in prepared.touches if prepared.tool.writes is None else _all_touches(prepared, ctx):
        if touch.effect == "write":
            with suppress(ToolError):
                start_files |= dict.fromkeys(ctx.workspace.ask(touch.target))
        if touch.effect in ("read", "write") and not touch.partial:
            try:
                ctx.workspace.judge(touch.target, write=touch.effect == "write")
            except ToolError as error:
                return _alone(Vote("deny", "paths", error.message, error))
    only_reads = "write" in prepared.tool.effects and "write" not in effects_of(prepared)
    if not start_files or only_reads:
        return None
    names = ", ".join(start_files)
    return _alone(Vote("ask", "paths", f"{names} can run programs automatically"))


def _alone(vote: Vote) -> Decision:
    return Decision(vote, (vote,))


def _all_touches(prepared: Prepared, ctx: Context) -> Iterator[Touch]:
    yield from prepared.touches
    if prepared.tool.writes is not None:
        yield from (Touch("write", path) for path in prepared.tool.writes(ctx, prepared.args))
