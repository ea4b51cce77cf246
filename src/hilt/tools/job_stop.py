"""Stop a background job."""

from typing import Any

from hilt.call import AGENT, Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.output import views
from hilt.schema import fields

_ANSWER = fields("status:string exit_code:integer|null reason?:string")


@tool(effects="execute", output=_ANSWER, traits=Traits(anywhere=True, frees_space=True, needs_jobs=lambda args: True))
def job_stop(ctx: Context, task_id: str) -> Output:
    """Stop a background job or agent and everything it started; job_output still returns its output.

    Details:
    Sends SIGTERM, then SIGKILL if the job is still running. Returns JSON: status and exit_code. A job that has already
    ended keeps its status.

    Args:
        task_id: task_id from run_shell or agent.
    """
    if task_id.startswith(AGENT):
        agent = ctx.agents.stop(task_id)
        return Output(data={"status": agent.status, "exit_code": None}, view=views.none(f"{task_id}: {agent.status}"))
    state = ctx.jobs.stop(ctx.session, task_id)
    data: dict[str, Any] = {"status": state.status, "exit_code": state.exit_code}
    if state.reason:
        data["reason"] = state.reason
    return Output(data=data, view=views.none(f"{task_id}: {state.status}"))
