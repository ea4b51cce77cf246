"""Enter plan mode."""

from __future__ import annotations

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.output import views

# where the mode before is kept, for exit_plan_mode
BEFORE = "mode_before_plan"

_TEXT = """\
The session is in plan mode: tools that read work, tools that write are blocked, and shell commands can only read.
Look around, ask the user what is open with ask_user, and write a plan: what changes in which files, in which order,
and how it will be checked. Then call exit_plan_mode with the plan, for the user to approve."""


@tool(effects="control", traits=Traits(plan=True, asks_person=True, needs_person=True, sets_mode=True))
def enter_plan_mode(ctx: Context) -> Output:
    """Enter plan mode, to explore and design first: only reading works until exit_plan_mode.

    For architectural decisions, several valid approaches, changed behaviour, more than 2-3 files.

    Details:
    Tools that write are blocked, and shell commands can only read. exit_plan_mode leaves it, once the user approves the
    plan. Where nobody can be asked, the tool is not there.
    """
    if ctx.mode == "plan":
        return Output("The session is in plan mode already.", view=views.none("Plan mode, as before"))
    hidden = ctx.principal.hidden(enter_plan_mode)
    if hidden is not None:
        advice = "Write the plan into your reply, then go on."
        raise ToolError(
            "no_one_to_ask", f"Plan mode ends when a person approves the plan, and {hidden}.", suggestion=advice
        )
    ctx.fence.commit()
    # none of its own: then the one of the settings comes back
    ctx.values.set(BEFORE, ctx.values.get("mode"))
    ctx.set_mode("plan")
    return Output(_TEXT, view=views.none("Plan mode"), meta={"mode": "plan"})
