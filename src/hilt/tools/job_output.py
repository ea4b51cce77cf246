"""Read the output of a background job."""

from typing import Annotated, Any

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.output import views
from hilt.params import Bounds
from hilt.schema import BOOLEAN, STRING, array, record

Milliseconds = Annotated[int, Bounds(minimum=0, maximum=600_000, clamp=True)]


_ANSWER = record(
    {
        "status": STRING,
        "exit_code": {"type": ["integer", "null"]},
        "output": STRING,
        "reason": STRING,
        "truncated": BOOLEAN,
        "output_file": STRING,
        "disarmed": array(STRING),
    },
    optional="reason truncated output_file disarmed",
)


@tool(effects="read", timeout=660, output=_ANSWER, traits=Traits(needs_jobs=lambda args: True, polls=True))
def job_output(
    ctx: Context, task_id: str, block: bool = True, timeout: Milliseconds = 30_000, new: bool = False
) -> Output:
    """Return the status and output of a background job.

    Long output: both ends; all of it is in output_file.

    Details:
    Returns JSON: status, exit_code (null while the job runs) and output (standard output and standard error
    interleaved, without terminal escape sequences). status is running, completed (exit code 0), failed (another exit
    code), stopped (by job_stop, or because the job kept recreating files that git would run), timeout or limit (output,
    memory or /tmp); reason gives the details. For long output, output has the beginning and the end, truncated is true,
    and output_file is the file with all of it; read it with read_file. disarmed lists files that the user's next git
    command would have run; hilt renamed them.

    Args:
        task_id: Id from run_shell.
        block: Wait for it to end; false returns at once.
        timeout: Milliseconds to wait, up to 600000; the job goes on.
        new: Only output not returned before.
    """
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
