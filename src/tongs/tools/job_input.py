"""Type into the terminal of a background job."""

from tongs.call import Output
from tongs.context import Context
from tongs.declaration import tool
from tongs.output import views


@tool(effects="execute")
def job_input(ctx: Context, task_id: str, input: str, enter: bool = True) -> Output:
    r"""Type text into a background job that was started with tty: true, as a person would at its terminal.

    Answers with JSON: status and sent, the number of bytes. The job reads them when it likes; look at what it answers
    with job_output, new: true and block: false.

    Args:
        task_id: The job, as run_shell with run_in_background returned it.
        input: Text to type. Keys are control characters: "\u0003" is Ctrl-C, "\u0004" Ctrl-D, "\u001b" Escape,
            "\u001b[A" the arrow up.
        enter: Press Enter after the text. Ignored when the text ends with a control character.
    """
    text = input if not enter or (input and ord(input[-1]) < 32) else input + "\r"
    data = text.encode("utf-8", "replace")
    state = ctx.jobs.write(ctx.session, task_id, data)
    return Output(data={"status": state.status, "sent": len(data)}, view=views.none(f"sent {len(data)} bytes"))
