"""List the agents of a workspace."""

from typing import Any

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.formats.times import rfc3339
from hilt.output import views
from hilt.schema import fields

AGENTS_MAX = 100

_AGENT = fields(
    "agentId:string parentId:string agent:string title:string status:string idle?:boolean depth:integer created:string "
    "changed:string"
)


@tool(
    effects="read",
    output=fields("agents:[agent]", agent=_AGENT),
    traits=Traits(anywhere=True, polls=True, needs_jobs=lambda args: True),
)
def agent_list(ctx: Context) -> Output:
    """List the agents of this workspace, newest first.

    Details:
    Returns JSON: agents, each with agentId, parentId, agent (its definition), title, status (queued, running,
    completed, failed or cancelled), depth, created and changed. idle is true while the agent waits for a message. At
    most 100 are listed.
    """
    agents: list[dict[str, Any]] = [
        {
            "agentId": agent.id,
            "parentId": agent.parent,
            "agent": agent.name,
            "title": agent.title,
            "status": agent.status,
            **({"idle": True} if agent.is_idle else {}),
            "depth": agent.depth,
            "created": rfc3339(agent.created),
            "changed": rfc3339(agent.changed),
        }
        for agent in ctx.agents.list(AGENTS_MAX)
    ]
    return Output(data={"agents": agents}, view=views.table(_COLUMNS, agents))


_COLUMNS = {"agentId": "Agent", "agent": "Kind", "status": "Status", "parentId": "Parent", "title": "Task"}
