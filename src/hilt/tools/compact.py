"""Shorten the agent's conversation."""

from __future__ import annotations

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.output import views


@tool(effects="control", traits=Traits(anywhere=True, plan=True, approval="never"))
def compact(ctx: Context, focus: str = "") -> Output:
    """Shorten this conversation: old results become one line, old turns a summary.

    Use it when the conversation is long, or after several failed attempts.

    Details:
    The user's messages, the plan, the todo list, loaded skills and the newest turns stay word for word. The summary
    says where the whole transcript is. Outside hilt's own agent loop there is nothing to compact, and the call does
    nothing.

    Args:
        focus: What the summary must keep above all.
    """
    planned = None if ctx.attendant is None else ctx.attendant.compact(focus)
    text = planned or "There is nothing to compact: the conversation is not hilt's."
    return Output(text, view=views.none(text))
