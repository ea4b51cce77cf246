"""List the background jobs of a session."""

import time
from typing import Any

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.formats.times import rfc3339
from hilt.output import views
from hilt.schema import fields
from hilt.state.roster import EXIT_CODES, AgentRecord

COMMAND_CHARACTERS = 200
AGENTS_MAX = 100


_JOB = fields(
    "task_id:string command:string status:string exit_code:integer|null started:string seconds:number "
    "output_bytes?:integer output_file?:string cwd?:string tty?:boolean reason?:string disarmed?:[string] agent?:string"
)


@tool(effects="read", output=fields("jobs:[job]", job=_JOB), traits=Traits(needs_jobs=lambda args: True))
def job_list(ctx: Context) -> Output:
    """List the background jobs of this session, oldest first.

    Details:
    Returns JSON: jobs, each with task_id, command, status (running, completed, failed, stopped, timeout or limit),
    exit_code (null while it runs), started, seconds, output_bytes and output_file (read it with read_file). cwd is set
    when the job runs outside the workspace root, tty: true when it has a terminal and accepts job_input, and reason
    when it was stopped. disarmed lists what hilt renamed: git, an agent or an editor would have run it. An agent in the
    background is a job too: agent is its kind, command its task, and status also queued or cancelled. Jobs that ended
    long ago are not listed.
    """
    jobs: list[dict[str, Any]] = []
    for state in ctx.jobs.list(ctx.session):
        job = state.job
        entry: dict[str, Any] = {
            "task_id": job.id,
            "command": _brief(job.command),
            "status": state.status,
            "exit_code": state.exit_code,
            "started": rfc3339(job.started),
            "seconds": round(state.seconds, 1),
            "output_bytes": state.output_bytes,
            "output_file": job.output_file,
        }
        folder = job.cwd.removeprefix(ctx.workspace.root).removeprefix("/")
        optional = {"cwd": folder, "tty": job.tty, "reason": state.reason, "disarmed": list(state.notes)}
        jobs.append(entry | {name: value for name, value in optional.items() if value})
    jobs += [_agent_entry(agent) for agent in reversed(ctx.agents.list(AGENTS_MAX)) if _is_job(agent, ctx.session)]
    jobs.sort(key=lambda entry: entry["started"])
    return Output(data={"jobs": jobs}, view=views.table(_COLUMNS, jobs))


_COLUMNS = {"task_id": "Job", "status": "Status", "exit_code": "Exit", "seconds": "Seconds", "command": "Command"}


def _is_job(agent: AgentRecord, session: str) -> bool:
    return agent.kind != "call" and session in (agent.parent, agent.caller)


def _agent_entry(agent: AgentRecord) -> dict[str, Any]:
    end = agent.changed if agent.status in EXIT_CODES else time.time_ns()
    return {
        "task_id": agent.id,
        "command": _brief(agent.title),
        "status": agent.status,
        "exit_code": EXIT_CODES.get(agent.status),
        "started": rfc3339(agent.created),
        "seconds": round((end - agent.created) / 1e9, 1),
        "agent": agent.name,
        **({"reason": agent.error_code} if agent.error_code else {}),
    }


def _brief(command: str) -> str:
    return command if len(command) <= COMMAND_CHARACTERS else command[: COMMAND_CHARACTERS - 1] + "…"
