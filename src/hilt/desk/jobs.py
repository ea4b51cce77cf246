"""Answers JSON requests about the jobs of all sessions in a workspace, for the console and other processes."""

from __future__ import annotations

from typing import Any

from hilt.call import Json
from hilt.errors import ToolError
from hilt.formats.times import rfc3339
from hilt.state.trail import SESSION_IDLE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.processes.jobs import Jobs, JobState

WINDOW_BYTES = 256 * 1024


def answer(jobs: Jobs, request: dict[str, Json]) -> dict[str, Json]:
    """Answer one request: `action` is list, output, stop or input; all but list need an `id`."""
    action, id = request["action"], str(request.get("id", ""))
    if action == "list":
        return {"jobs": [_row(state) for state in jobs.list(None)]}
    if action == "output":
        start = int(request["after"])
        state, data = jobs.window(None, id, start, WINDOW_BYTES)
        end = min(start, state.output_bytes) + len(data)
        return {"output": data.decode("utf-8", "replace"), "next": end, "status": state.status}
    if action == "stop":
        return _row(jobs.stop(None, id))
    return _row(jobs.write(None, id, str(request["text"]).encode("utf-8", "replace")))


def answer_or_error(jobs: Jobs, request: dict[str, Json]) -> dict[str, Json]:
    """Like `answer`, but return an error as fields, for another process."""
    try:
        return answer(jobs, request)
    except ToolError as error:
        return {"error_code": error.code, "error": error.message, "suggestion": error.suggestion}


def end_idle(jobs: Jobs) -> None:
    """End the jobs of sessions that have been idle for as long as sessions are kept."""
    jobs.end_idle(SESSION_IDLE_SECONDS)


def _row(state: JobState) -> dict[str, Any]:
    job = state.job
    return {
        "id": job.id,
        "session": job.session,
        "command": job.command,
        "status": state.status,
        "exit_code": state.exit_code,
        "started": rfc3339(job.started),
        "seconds": round(state.seconds, 1),
        "output_bytes": state.output_bytes,
        "cwd": job.cwd,
        "tty": job.tty,
        "reason": state.reason,
        "disarmed": list(state.notes),
    }
