"""Give a task to another agent."""

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.schema import TEXT, fields
from hilt.state.agent_calls import AgentOrder, failed

CALL_SECONDS = 86_400.0  # the limits of the run apply


@tool(
    effects="control",
    timeout=CALL_SECONDS,
    output=fields("task_id:string status:string") | {TEXT: True},
    traits=Traits(
        anywhere=True,
        plan=True,
        attended=True,
        starts_agents=True,
        returns_patches=True,
        needs_jobs=lambda args: args.get("run_in_background") is True,
    ),
)
def agent(
    ctx: Context,
    prompt: str,
    description: str = "",
    run_in_background: bool = False,
    agent: str = "general",
    model: str | None = None,
    worktree: bool = False,
) -> Output:
    """Delegate a task to another agent with a fresh context; returns its last message.

    It gets at most your tools and permissions.

    Details:
    The agent sees only the prompt, not this conversation. Its tokens and seconds count against the limits of this run.
    meta has its agent_id and usage. In the background, the result is a task_id: job_output waits for the
    answer and shows the calls made so far, and job_stop cancels the agent. An agent can start agents only if its
    definition lists this tool. With worktree, the agent starts from the last commit in a copy of the repository, and
    its changes are returned as a patch that needs approval. The end of the answer says whether the patch was applied.

    Args:
        prompt: Task, with all the context the agent needs.
        description: Summary of the task in 3-5 words.
        run_in_background: Return a task_id for job_output at once.
        agent: general, explore (read-only), review, or an agent the user defined.
        model: PROVIDER:MODEL. Default: your model.
        worktree: Work in its own git worktree; returns a patch.
    """
    order = AgentOrder(agent, prompt, description, model or "", worktree=worktree)
    if not prompt.strip():
        raise ToolError("invalid_args", "prompt is empty.", suggestion="Describe the task in prompt.")
    if run_in_background:
        started = ctx.agents.start(order, "background")
        return Output(data={"task_id": started.id, "status": started.status}, meta={"agent": started.name})
    finished = ctx.agents.run(order)
    if finished.status != "completed":
        raise failed(finished, f"The agent {finished.name} did not finish", agent_id=finished.id)
    usage = {"input_tokens": finished.input_tokens, "output_tokens": finished.output_tokens}
    return Output(finished.answer, meta={"agent_id": finished.id, "agent": finished.name, "usage": usage})
