"""Shorten the agent's conversation."""

from __future__ import annotations

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.output import views


@tool(effects="control", traits=Traits(anywhere=True, plan=True, approval="never"))
def compact(ctx: Context, focus: str = "") -> Output:
    """Shorten this conversation: replace old results by one line each and old turns by a summary.

    Use it when the conversation is long, or after several failed attempts.

    Details:
    The user's messages, the plan, the todo list, loaded skills and the newest turns are kept verbatim. The summary
    names the file with the full transcript. Outside hilt's own agent loop, the call does nothing.

    Args:
        focus: What the summary must not lose.
    """
    planned = None if ctx.attendant is None else ctx.attendant.compact(focus)
    text = planned or "There is nothing to compact: this conversation is not managed by hilt."
    return Output(text, view=views.none(text))
