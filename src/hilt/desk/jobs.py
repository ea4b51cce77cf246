"""Answers JSON requests about the jobs of all sessions in a workspace, for the console and other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hilt.call import Json
from hilt.desk.encoding import plain
from hilt.errors import ToolError
from hilt.formats.times import Moment
from hilt.processes.jobs import Status
from hilt.state.trail import SESSION_IDLE_SECONDS

if TYPE_CHECKING:
    from hilt.processes.jobs import Jobs, JobState

WINDOW_BYTES = 256 * 1024


class BackgroundJob(NamedTuple):
    """A process in the background."""

    id: str
    session: str
    command: str
    status: Status
    exit_code: int | None
    started: Moment
    seconds: float
    output_bytes: int
    cwd: str
    tty: bool
    reason: str  # why it was ended; empty if it exited by itself
    disarmed: tuple[str, ...]  # what it left for git to run


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
    job, seconds = state.job, round(state.seconds, 1)
    facts = (job.id, job.session, job.command, state.status, state.exit_code, Moment(job.started), seconds)
    row: dict[str, Any] = plain(BackgroundJob(*facts, state.output_bytes, job.cwd, job.tty, state.reason, state.notes))
    return row
