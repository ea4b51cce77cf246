"""Leave plan mode with the user's approval of the plan."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.params import Items, ReadPath
from hilt.text import encodings

CALL_SECONDS = 86_400.0  # a person may take their time; approvals expire on their own
PLAN_CHARACTERS = 100_000
PROMPTS_MAX = 50

BEFORE = "mode_before_plan"  # key under which enter_plan_mode stores the mode
PROPOSED = "proposed_grants"

_IN_REPLY = "The plan is the agent's last message in the conversation."


class Prompt(NamedTuple):
    """Something the plan needs permission for.

    Args:
        tool: Tool that needs permission, such as run_shell.
        prompt: What it will do.
    """

    tool: str
    prompt: str


@tool(
    effects="control",
    timeout=CALL_SECONDS,
    traits=Traits(plan=True, asks_person=True, asks_itself=True, sets_mode=True, lasting="last"),
)
def exit_plan_mode(
    ctx: Context,
    plan: str | None = None,
    plan_file: ReadPath | None = None,
    allowed_prompts: Annotated[list[str | Prompt], Items(maximum=PROMPTS_MAX)] | None = None,
) -> Output:
    """Submit the plan to the user, who approves it (plan mode ends) or requests changes.

    Details:
    If the user approves, the session returns to its previous mode and the work can begin. If the user rejects the plan,
    the call fails with USER_REJECTION and the user's reason, and the session stays in plan mode. A permission is a
    string, or an object such as {"tool": "run_shell", "prompt": "run the tests"}.

    Args:
        plan: Plan as Markdown. Default: your last message.
        plan_file: File with the plan, instead of plan.
        allowed_prompts: Permissions the plan needs, such as "run the tests"; shown, not granted.
    """
    if ctx.mode != "plan":
        raise ToolError(
            "invalid_request",
            f"The session is in {ctx.mode} mode, not in plan mode.",
            suggestion="Continue with the work, or call enter_plan_mode first.",
        )
    text = _plan(ctx, plan, plan_file)
    # values of a union type are not converted to records
    proposed: list[Any] = [{"prompt": item} if isinstance(item, str) else item for item in allowed_prompts or ()]
    _approve(ctx, text, proposed)
    ctx.fence.commit()
    ctx.set_mode(ctx.values.get(BEFORE))
    if ctx.mode == "plan":  # the default mode of the settings; the user has just approved leaving it
        ctx.set_mode("normal")
    ctx.values.set(BEFORE, None)
    ctx.values.set(PROPOSED, proposed or None)
    message = f"The user approved the plan. The session is in {ctx.mode} mode; begin the work."
    return Output(message, view=_view(text), meta={"mode": ctx.mode, "proposed_grants": proposed})


def _plan(ctx: Context, plan: str | None, plan_file: str | None) -> str:
    if plan is not None and plan_file is not None:
        raise ToolError("invalid_args", "plan and plan_file cannot be used together.", suggestion="Send one of them.")
    if plan_file is not None:
        file = ctx.workspace.read(plan_file, remember=False)
        if encodings.is_binary(file.data[:512]):
            raise ToolError("binary_file", f"{file.path} is not a text file.", suggestion="Send the plan as text.")
        plan = encodings.visible(encodings.decode(file.data)[0])
    if plan is None:
        return _IN_REPLY
    if not plan.strip():
        raise ToolError("invalid_args", "The plan is empty.", suggestion="Describe what you will change, and how.")
    if len(plan) > PLAN_CHARACTERS:
        raise ToolError(
            "invalid_args",
            f"The plan has {len(plan):,} characters; the limit is {PLAN_CHARACTERS:,}.",
            suggestion="Shorten it to what the user must decide on.",
        )
    return plan


def _approve(ctx: Context, plan: str, proposed: list[Any]) -> None:
    try:
        ctx.approve("Approve this plan and leave plan mode?", plan=plan, proposed_grants=proposed)
    except ToolError as error:
        if error.code != "USER_REJECTION":
            raise
        advice = "Revise the plan as the user asked, then call exit_plan_mode again; the session is still in plan mode."
        raise ToolError(error.code, error.message, suggestion=advice, **error.details) from None


def _view(plan: str) -> dict[str, Any]:
    return {"type": "markdown", "content": plan, "title": "Approved plan"}
