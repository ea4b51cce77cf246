"""The server's instructions for a client's model: which tool to use when, what is refused, how to undo."""

from __future__ import annotations

CHARACTERS = 1200  # at most: every session's model reads them

_SEARCH = "Only tool_search and tool_call are listed: tool_search finds the tools named here, tool_call runs them.\n"

_PLACE = "hilt works in one folder, the workspace; paths are relative to it.\n"

_TOOLS = """\
- Read with read_file, search contents with search_files, find names with find_files, list folders with list_dir.
- Change one place with edit_file, several at once with multi_edit or apply_patch, a whole file with write_file.
- Run programs with run_shell; long ones with run_in_background, then job_output. Dangerous commands need force: true; \
set it only if the user wants it.
- undo reverts what a call changed, by the id of the call.
"""

_RULES = """\
- stale_file: the file has changed since you read it; read it again.
- Commands are sandboxed: they can write only in the workspace and have no network.
- Refused: paths outside the workspace, secrets such as .env and .ssh, settings of agents and git.
- approval_required: ask the user to run the command in the error; then repeat the same call.
- denied and USER_REJECTION: do not work around it; ask the user.
- Truncated output says on its last line how to get the rest.
"""


def instructions(*, search: bool, dialect: str | None) -> str:
    """Return the instructions; with `search`, for a client that sees only tool_search and tool_call.

    A model that works with another dialect knows its tools, and sees no others.
    """
    is_canonical = dialect in (None, "jinn")
    return ((_SEARCH if search else "") + _PLACE + (_TOOLS if is_canonical else "") + _RULES).rstrip("\n")
