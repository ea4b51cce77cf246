"""Read the output of a background job."""

from typing import Annotated, Any

from hilt.call import AGENT, Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.output import views
from hilt.params import Bounds
from hilt.schema import fields
from hilt.state.roster import EXIT_CODES

Milliseconds = Annotated[int, Bounds(minimum=0, maximum=600_000, clamp=True)]


_ANSWER = fields(
    "status:string exit_code:integer|null output:string reason?:string truncated?:boolean output_file?:string "
    "disarmed?:[string]"
)


@tool(
    effects="read", timeout=660, output=_ANSWER, traits=Traits(anywhere=True, needs_jobs=lambda args: True, polls=True)
)
def job_output(
    ctx: Context, task_id: str, block: bool = True, timeout: Milliseconds = 30_000, new: bool = False
) -> Output:
    """Return the status and output of a background job.

    Long output is shortened in the middle; output_file has all of it.

    Details:
    Returns JSON: status, exit_code (null while the job runs) and output (standard output and standard error
    interleaved, without terminal escape sequences). status is running, completed (exit code 0), failed (another exit
    code), stopped (by job_stop, or because the job kept recreating files that git would run), timeout or limit (output,
    memory or /tmp); reason gives the details. For long output, output has the beginning and the end, truncated is true,
    and output_file is the file with all of it; read it with read_file. disarmed lists what hilt renamed: git, an agent
    or an editor would have run it. For an agent, output is its answer, or the calls it has made so far, and status
    queued, running, completed, failed or cancelled.

    Args:
        task_id: task_id from run_shell or agent.
        block: Wait until the job ends; false returns at once.
        timeout: Milliseconds to wait, up to 600000; the job keeps running.
        new: Return only output since the last call.
    """
    if task_id.startswith(AGENT):
        return _agent_output(ctx, task_id, timeout / 1000 if block else 0)
    written = ctx.jobs.output(ctx.session, task_id, fence=ctx.fence, block=block, seconds=timeout / 1000, new=new)
    state = written.state
    data: dict[str, Any] = {"status": state.status, "exit_code": state.exit_code, "output": written.text}
    if state.reason:
        data["reason"] = state.reason
    if state.notes:
        data["disarmed"] = list(state.notes)
    if written.truncated:
        data |= {"truncated": True, "output_file": state.job.output_file}
    view = views.shell_output(state.job.command, written.raw, state.exit_code)
    return Output(data=data, view=view, meta={"task_id": task_id, "output_bytes": state.output_bytes})


def _agent_output(ctx: Context, id: str, seconds: float) -> Output:
    agent = ctx.agents.wait(id, seconds)
    has_answered = agent.status in EXIT_CODES
    data: dict[str, Any] = {
        "status": agent.status,
        "exit_code": EXIT_CODES.get(agent.status),
        "output": agent.answer if has_answered else ctx.agents.progress(id),
    }
    if agent.error_code:
        data["reason"] = agent.error_code
    usage = {"input_tokens": agent.input_tokens, "output_tokens": agent.output_tokens}
    return Output(data=data, view=views.none(f"{id}: {agent.status}"), meta={"task_id": id, "usage": usage})
