"""What a client is told of the whole server, for its model: when to use which tool, what is refused, how to undo."""

from __future__ import annotations

CHARACTERS = 1200  # at most: every session's model reads them

_FOUND = "Only tool_search and tool_call are listed: the first finds the tools named here, the second runs them.\n"

_INSTRUCTIONS = """\
hilt works in one folder, the workspace; paths are relative to it.
- Read with read_file, search contents with search_files, find names with find_files, look around with list_dir.
- Change one place with edit_file, several at once with multi_edit or apply_patch, a whole file with write_file.
- stale_file: the file has changed since you read it; read it again.
- Run programs with run_shell; long ones with run_in_background, then job_output.
- Commands are sandboxed: they write in the workspace only and have no network.
- undo takes back what a tool changed, by the id of the call.
- Refused: paths outside the workspace, secrets such as .env and .ssh, settings of agents and git. Dangerous commands \
need force: true, and the user's wish.
- approval_required: tell the user the command that the error names; then repeat the same call.
- denied and USER_REJECTION: do not look for a way around; ask the user.
- A text that was cut says on its last line how to get the rest.
"""


def instructions(*, search: bool) -> str:
    """Return the instructions; with `search`, for a client that is listed the finders alone."""
    return (_FOUND if search else "") + _INSTRUCTIONS.rstrip("\n")
