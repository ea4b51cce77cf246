"""The one error a tool raises, and the closed set of its codes."""

from __future__ import annotations

from collections.abc import Iterable

# code -> the default suggestion, for errors raised without one; {hilt} becomes the command line of hilt
CODES: dict[str, str] = {
    "invalid_request": 'Send one JSON object such as {"tool": "read_file", "args": {"path": "a.py"}}.',
    "invalid_args": "Correct the arguments named in the error; list_tools with include_schema shows them.",
    "unknown_tool": "Call list_tools to see the names.",
    "file_not_found": "List the folder with list_dir, then use a path from that list.",
    "not_a_file": "Pass a regular file, or use list_dir for a folder.",
    "path_outside_workspace": "Use a path inside the workspace.",
    "sensitive_path": "Ask the user for the one value you need.",
    "protected_path": "Ask the user to make this change; tools cannot write configuration.",
    "permission_denied": "Ask the user to change the permissions of that path.",
    "already_exists": "Choose another path, or change the existing file.",
    "file_too_large": "Find the part you need with search_files.",
    "binary_file": "Use stat_file for its size, or checksum_tree for its integrity.",
    "unsupported_file": "Convert the file to text first.",
    "encoding_error": "Use only characters that the file's encoding supports.",
    "past_end": "Use a smaller start_line.",
    "edit_not_found": "Read the file again and copy the text exactly.",
    "edit_not_unique": "Include a neighbouring line so that the text occurs once.",
    "edit_no_change": "Pass a new_text that differs from old_text.",
    "edit_overlap": "Combine the two edits into one, or send them in separate calls.",
    "old_text_empty": "To insert at the start, pass the first line as old_text, and your lines plus it as new_text.",
    "patch_invalid": "Correct the patch at the line named in the error.",
    "patch_conflict": "Read the file again and make the patch from its current text.",
    "stale_file": "Read the file again, then repeat the change.",
    "invalid_regex": "Correct the pattern, or pass literal: true.",
    "not_found": "List what exists, then use one of those.",
    "ambiguous_id": "Use more characters of the id.",
    "command_blocked": "Choose a safer command, or run_shell with force: true if the user wants it.",
    "timeout": "Request less at once, or raise the timeout.",
    "cancelled": "Send the call again if it is still needed.",
    "resource_limit": "Request less at once.",
    "sandbox_unavailable": "Run {hilt} doctor; it prints the command that fixes this.",
    "resident_required": "Allow the resident process: unset HILT_RESIDENT, or run {hilt} resident start.",
    "denied": "Ask the user; the decision is theirs.",
    "approval_required": "Ask the user to approve this call.",
    "approval_timeout": "Ask the user, then send the call again.",
    "USER_REJECTION": "Do not repeat the call; ask the user what they want instead.",
    "no_one_to_ask": "Decide without the answer, or ask in your reply.",
    "hook_blocked": "Read the reason the hook gave and change the call.",
    "untrusted": "Ask the user to review and trust the file.",
    "tool_invalid": "Correct the tool's definition at the line named in the error.",
    "tool_failed": "Read the tool's message and change the arguments.",
    "runtime_missing": "Install the program named in the error.",
    "ssrf_blocked": "Use a public address.",
    "network_error": "Try again later, or use another address.",
    "lsp_unavailable": "Install the language server named in the error.",
    "no_display": "Desktop tools need a display; continue without them.",
    "stale_elements": "Take a new screenshot, then use its numbers.",
    "port_in_use": "Choose another port; port 0 selects any free port.",
    "limit_exceeded": "Wait for running work to finish, then send the call again.",
    "busy": "Send the call again in a moment.",
    "no_model": "Set model.name in config.toml, HILT_MODEL or --model.",
    "model_error": "Send the message again later; the session continues with {hilt} run --continue.",
    "budget_exceeded": "Raise the limit, then continue the session with {hilt} run --continue.",
    "loop_detected": "Change the approach; the same call gives the same result.",
    "outcome_unknown": "Check what the call changed before you repeat it.",
    "internal": "This is a bug in hilt; report the incident id.",
}


def _default_suggestion(code: str) -> str:
    suggestion = CODES[code]
    if "{hilt}" not in suggestion:
        return suggestion
    from hilt.places import command

    return suggestion.replace("{hilt}", command())


class ToolError(Exception):
    """A failed call: an error code, the facts, one next step, and details for programs."""

    def __init__(self, code: str, message: str, *, suggestion: str | None = None, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.suggestion = suggestion if suggestion is not None else _default_suggestion(code)
        self.details = details


def file_error_code(error: OSError) -> str:
    """Return the code of an error of the file system that says nothing about the path itself."""
    from errno import EDQUOT, EFBIG, EMFILE, ENFILE, ENOSPC

    return "resource_limit" if error.errno in (EDQUOT, EFBIG, EMFILE, ENFILE, ENOSPC) else "permission_denied"


def missing_argument(action: str, name: str) -> ToolError:
    """Return the error for an action without an argument that it needs."""
    return ToolError("invalid_args", f"Missing required argument for {action}: {name}.", suggestion=f"Send {name}.")


def did_you_mean(word: str, names: Iterable[str]) -> str | None:
    """Return the name closest to the word, or None when none is close."""
    from difflib import get_close_matches

    plain = {name.replace("_", "").replace("-", "").casefold(): name for name in names}
    # a request can contain a word of megabytes
    close = get_close_matches(word[:100].replace("_", "").replace("-", "").casefold(), plain, n=1, cutoff=0.6)
    return plain[close[0]] if close else None
