"""Enter plan mode."""

from __future__ import annotations

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.output import views

# key of the previous mode, which exit_plan_mode restores
BEFORE = "mode_before_plan"

_TEXT = """\
The session is in plan mode: tools that write are blocked, and shell commands are read-only.
Explore the code, clarify open questions with ask_user, and write a plan: what changes in which files, in which order,
and how it will be tested. Then call exit_plan_mode to submit the plan to the user."""


@tool(effects="control", traits=Traits(plan=True, asks_person=True, needs_person=True, sets_mode=True))
def enter_plan_mode(ctx: Context) -> Output:
    """Enter plan mode to explore and design first: only reading works until exit_plan_mode.

    Use it for architectural decisions, several valid approaches, changed behaviour, or more than 2-3 files.

    Details:
    Tools that write are blocked, and shell commands are read-only. exit_plan_mode ends plan mode once the user approves
    the plan. The tool is not available when there is no user to approve it.
    """
    if ctx.mode == "plan":
        return Output("The session is already in plan mode.", view=views.none("Already in plan mode"))
    hidden = ctx.principal.hidden(enter_plan_mode)
    if hidden is not None:
        advice = "Write the plan in your reply, then continue."
        raise ToolError(
            "no_one_to_ask", f"Plan mode ends when a person approves the plan, and {hidden}.", suggestion=advice
        )
    ctx.fence.commit()
    # None if the session has not set a mode: exit_plan_mode then restores the mode from the settings
    ctx.values.set(BEFORE, ctx.values.get("mode"))
    ctx.set_mode("plan")
    return Output(_TEXT, view=views.none("Plan mode"), meta={"mode": "plan"})
