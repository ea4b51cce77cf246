"""Send a message to another agent."""

from hilt.call import AGENT, Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.output import views
from hilt.schema import fields


@tool(
    effects="control",
    output=fields("sent:boolean targetAgentId:string"),
    # an agent wakes in a process that outlives the call
    traits=Traits(anywhere=True, plan=True, needs_jobs=lambda args: str(args.get("targetAgentId")).startswith(AGENT)),
)
def agent_send(ctx: Context, agentId: str, targetAgentId: str, message: str) -> Output:  # named as in agentos
    """Send a message to another agent. It wakes an idle agent; a busy one reads it with agent_receive.

    Limit: 10 messages a minute to each agent.

    Details:
    Returns JSON: sent and targetAgentId. A message has at most 102,400 bytes, and an agent at most 1,000 unread ones;
    over a limit, the call fails with limit_exceeded. Messages are kept until they are read.

    Args:
        agentId: Sender: your id, or the id of an agent you started.
        targetAgentId: Recipient's id.
        message: Text to send, up to 100 KB.
    """
    if not targetAgentId.strip():
        raise ToolError("invalid_args", "targetAgentId is empty.", suggestion="Use an id from agent_list.")
    ctx.agents.send(agentId, targetAgentId, message)
    return Output(
        data={"sent": True, "targetAgentId": targetAgentId}, view=views.none(f"Sent a message to {targetAgentId}.")
    )
