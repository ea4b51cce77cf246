"""Start an agent that can receive messages later."""

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.schema import fields
from hilt.state.agent_calls import AgentOrder, failed

CALL_SECONDS = 86_400.0  # the limits of the run apply


@tool(
    effects="control",
    timeout=CALL_SECONDS,
    output=fields("agentId:string response:string depth:integer"),
    traits=Traits(anywhere=True, plan=True, attended=True, returns_patches=True, needs_jobs=lambda args: True),
)
def agent_spawn(
    ctx: Context,
    template: str,
    message: str,
    parentId: str | None = None,  # named as in agentos
    worktree: bool = False,
) -> Output:
    """Start an agent that you can message later with agent_send, and return its first response.

    Limits: 20 agents at once, 5 levels deep.

    Details:
    Returns JSON: agentId, response and depth. An unknown template becomes general, and meta.template says so. The agent
    is idle after its response and counts towards the limit until it is cancelled, its parent ends or agents.idle_s has
    passed. The limits are the settings agents.max_children and agents.max_depth. If the call is cancelled, the agent
    continues. With worktree, it starts from the last commit in a copy of the repository; after each response, its
    changes are returned as a patch that needs approval.

    Args:
        template: Agent definition, such as general or explore.
        message: Task, with all the context the agent needs.
        parentId: Your id (the default) or an agent you started.
        worktree: Work in its own git worktree; returns a patch.
    """
    if not message.strip():
        raise ToolError("invalid_args", "message is empty.", suggestion="Describe the task in message.")
    started = ctx.agents.start(AgentOrder(template, message, parent=parentId or "", worktree=worktree), "spawned")
    agent = ctx.agents.wait(started.id, CALL_SECONDS)
    if agent.status in ("failed", "cancelled"):
        raise failed(agent, f"The agent {started.id} ended without a response", agentId=started.id)
    usage = {"input_tokens": agent.input_tokens, "output_tokens": agent.output_tokens}
    data = {"agentId": started.id, "response": agent.answer, "depth": started.depth}
    return Output(data=data, meta={"template": started.name, "usage": usage})
