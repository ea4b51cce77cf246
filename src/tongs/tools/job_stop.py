"""End a background job."""

from typing import Any

from tongs.call import Output
from tongs.context import Context
from tongs.declaration import tool
from tongs.output import views


@tool(effects="execute")
def job_stop(ctx: Context, task_id: str) -> Output:
    """End a background job and everything it started: SIGTERM first, SIGKILL when that does not help.

    Answers with JSON: status and exit_code. A job that has ended already keeps its status. Its output can still be read
    with job_output.

    Args:
        task_id: The job, as run_shell with run_in_background returned it.
    """
    state = ctx.jobs.stop(ctx.session, task_id)
    data: dict[str, Any] = {"status": state.status, "exit_code": state.exit_code}
    if state.reason:
        data["reason"] = state.reason
    return Output(data=data, view=views.none(f"{task_id}: {state.status}"))
