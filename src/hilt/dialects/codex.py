"""The tools of Codex, by the names and arguments of its sources."""

from __future__ import annotations

import posixpath
import re
import shlex

from hilt.call import Output
from hilt.catalog import Forwarded
from hilt.dialects._rows import Args, array, boolean, choice, entries, number, printed, record, row, string
from hilt.errors import ToolError

_SECONDS = 600
_PATCH_PROGRAMS = ("apply_patch", "applypatch")
# `apply_patch <<'EOF'`, optionally after `cd DIR &&`
_HERE_DOCUMENT = re.compile(
    r"\s*(?:cd\s+(?P<folder>'[^'\n]*'|[\w./-]+)\s*&&\s*)?(?:apply_patch|applypatch)\s*<<\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)\n"
)
_HEADER = re.compile(r"^(\*\*\* (?:Add File|Delete File|Update File|Move to): )(.+)$", re.MULTILINE)


# --- shell --------------------------------------------------------------------------------------------------------


def _script(command: str | list[str]) -> str:
    """Return the command for bash; for `bash -lc SCRIPT`, the script itself."""
    if isinstance(command, str):
        return command
    if len(command) == 3 and posixpath.basename(command[0]) == "bash" and command[1] in ("-c", "-lc"):
        return command[2]
    return shlex.join(command)


def _shell(args: Args) -> Args:
    canonical = {"command": _script(args["command"]), "timeout": -(-int(args["timeout_ms"]) // 1000)}
    if "workdir" in args:
        canonical["cwd"] = args["workdir"]
    if args.get("with_escalated_permissions") or args.get("sandbox_permissions") == "require_escalated":
        canonical |= {"force": True, "network": "full"}
    return canonical


_SHELL_WORDS = {
    "send timeout, up to 300 seconds, or run_in_background: true for a longer command": "send timeout_ms, up to 600000",
    "; run_in_background: true for a longer command": "",
    'send network: "full", which prompts the user': "send with_escalated_permissions: true, which prompts the user",
}


def _shell_reply(output: Output, args: Args, root: str) -> Output:
    seconds = round(output.meta["duration_ms"] / 1000, 1)
    facts = {"exit_code": output.meta["exit_code"], "duration_seconds": seconds}
    return output._replace(text="", data={"output": printed(output, _SHELL_WORDS), "metadata": facts})


def _patch_in_shell(args: Args) -> Forwarded | None:
    """Return the apply_patch call that a command stands for: hilt has no such program."""
    command, folder = args["command"], args.get("workdir", "")
    if isinstance(command, list) and len(command) == 2 and command[0] in _PATCH_PROGRAMS:
        return _patch(command[1], folder)
    script = _script(command)
    start = _HERE_DOCUMENT.match(script)
    if start is None:
        return None
    patch, mark, rest = script[start.end() :].rstrip().rpartition(f"\n{start['end']}")
    if not mark or rest:
        return None
    return _patch(patch, posixpath.join(folder, (start["folder"] or "").strip("'")))


def _patch(text: str, folder: str) -> Forwarded | None:
    """Return the call that applies a patch whose paths are relative to a folder."""
    if folder not in ("", "."):
        if not text.lstrip().startswith("*** Begin Patch"):
            return None  # a diff, whose paths would be wrong
        text = _HEADER.sub(lambda header: header[1] + posixpath.join(folder, header[2].strip()), text)
    return Forwarded("apply_patch", {"input": text})


# --- the others ---------------------------------------------------------------------------------------------------


def _plan(args: Args) -> Args:
    return {"todos": [{"content": step["step"], "status": step["status"]} for step in args["plan"]]}


def _plan_reply(output: Output, args: Args, root: str) -> Output:
    return output._replace(text="Plan updated", data=None)


def _plan_failure(error: ToolError, args: Args) -> ToolError:
    message = error.message.replace("todos[", "plan[").replace("].content", "].step").replace("todos", "steps")
    return ToolError(error.code, message, suggestion=error.suggestion, **error.details)


def _image_reply(output: Output, args: Args, root: str) -> Output:
    if not any(block.get("type") == "image" for block in output.content):
        raise ToolError("unsupported_file", f"{args['path']} is not an image.", suggestion="Read it with shell.")
    return output


_STEP = record(
    {
        "step!": string("What to do"),
        "status!": choice("At most one in_progress", "pending", "in_progress", "completed"),
    },
)
_COMMAND = {
    "anyOf": [{"type": "array", "minItems": 1, "items": {"type": "string"}}, {"type": "string"}],
    "description": 'Program and arguments, such as ["bash", "-lc", "ls"], or a bash script',
}

ENTRIES = entries(
    row(
        "shell",
        "run_shell",
        "Run a command in the workspace, in a sandbox without network. apply_patch edits files.",
        {
            "command!": _COMMAND,
            "workdir": string("Working folder; use it instead of cd"),
            "timeout_ms": number("Milliseconds, up to 600000 (default 120000)", 1, _SECONDS * 1000),
            "with_escalated_permissions": boolean("Ask the user to allow a dangerous command, and the network"),
            "sandbox_permissions": choice("The same, by its newer name", "use_default", "require_escalated"),
            "justification": string("Why the user should allow it"),
        },
        renames={"justification": ""},
        defaults={"timeout_ms": 120_000},
        arguments=_shell,
        reply=_shell_reply,
        advice={"command_blocked": "Choose a safer command, or send with_escalated_permissions: true to ask the user."},
        maxima={"timeout": _SECONDS},
        forward=_patch_in_shell,
    ),
    row(
        "apply_patch",
        "apply_patch",
        "Apply a patch to any number of files, all or nothing: `*** Begin Patch`, per file `*** Add File: PATH` (lines "
        "with +), `*** Delete File: PATH` or `*** Update File: PATH` (optionally `*** Move to: PATH`; hunks: `@@`, "
        "then lines with a leading blank, - or +), `*** End Patch`.",
        {"input!": string("The whole patch")},
        renames={"input": "patch"},
        defaults={"as_codex": True},
    ),
    row(
        "update_plan",
        "todo_write",
        "Write the plan of this task: its steps, at most one in_progress.",
        {"explanation": string("Why it changed"), "plan!": array("All steps, in order", _STEP)},
        arguments=_plan,
        reply=_plan_reply,
        failure=_plan_failure,
    ),
    row(
        "view_image",
        "read_file",
        "View an image of the workspace.",
        {"path!": string("Image file")},
        reply=_image_reply,
    ),
    words={
        "list_dir": "shell with ls",
        "stat_file": "shell with stat",
        "checksum_tree": "shell with sha256sum",
        "read_file": "shell with cat",
        "search_files": "shell with rg",
    },
)
