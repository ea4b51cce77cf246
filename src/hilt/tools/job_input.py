"""Type into the terminal of a background job."""

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.output import views
from hilt.schema import fields


@tool(effects="execute", output=fields("status:string sent:integer"), traits=Traits(needs_jobs=lambda args: True))
def job_input(ctx: Context, task_id: str, input: str, enter: bool = True) -> Output:
    r"""Type into a background job that was started with tty: true.

    Read the response with job_output, new: true, block: false.

    Details:
    Returns JSON: status and sent, the number of bytes. It does not wait until the job has read them.

    Args:
        task_id: task_id from run_shell.
        input: Text; keys as control characters: "\u0003" Ctrl-C, "\u0004" Ctrl-D, "\u001b" Escape, "\u001b[A" up.
        enter: Press Enter after it, unless it ends in a control character.
    """
    text = input if not enter or (input and ord(input[-1]) < 32) else input + "\r"
    data = text.encode("utf-8", "replace")
    state = ctx.jobs.write(ctx.session, task_id, data)
    return Output(data={"status": state.status, "sent": len(data)}, view=views.none(f"sent {len(data)} bytes"))
