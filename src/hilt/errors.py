"""The one error a tool raises, and the closed set of its codes."""

from __future__ import annotations

# code -> the next step that is suggested when the place that raises has nothing better to say; {hilt} is its command
CODES: dict[str, str] = {
    "invalid_request": 'Send one JSON object such as {"tool": "read_file", "args": {"path": "a.py"}}.',
    "invalid_args": "Correct the arguments named in the error; list_tools with include_schema shows them.",
    "unknown_tool": "Call list_tools to see the names.",
    "file_not_found": "Look at the folder with list_dir, then use a path it shows.",
    "not_a_file": "Name a regular file, or use list_dir for a folder.",
    "path_outside_workspace": "Use a path inside the workspace.",
    "sensitive_path": "Ask the user for the one value you need.",
    "protected_path": "Ask the user to make this change; configuration folders are theirs.",
    "permission_denied": "Ask the user to change the permissions of that path.",
    "already_exists": "Choose another path, or change the existing file.",
    "file_too_large": "Find the part you need with search_files.",
    "binary_file": "Use stat_file for its size, or checksum_tree for its integrity.",
    "unsupported_file": "Convert the file to text first.",
    "encoding_error": "Use only characters that the encoding of the file can hold.",
    "past_end": "Use a smaller start_line.",
    "edit_not_found": "Read the file again and copy the text exactly.",
    "edit_not_unique": "Include a neighbouring line so that the text occurs once.",
    "edit_no_change": "Give a new_text that differs from old_text.",
    "edit_overlap": "Combine the two edits into one, or send them in separate calls.",
    "old_text_empty": "To insert at the start, send the first line as old_text, your lines and it as new_text.",
    "patch_invalid": "Correct the patch at the line named in the error.",
    "patch_conflict": "Read the file again and make the patch from its present text.",
    "stale_file": "Read the file again, then repeat the change.",
    "invalid_regex": "Correct the pattern, or pass literal: true.",
    "not_found": "List what exists, then use one of those.",
    "ambiguous_id": "Give more characters of the id.",
    "command_blocked": "Choose a safer command, or run_shell with force: true if the user wants it.",
    "timeout": "Ask for less at once, or allow more time.",
    "cancelled": "Send the call again if it is still wanted.",
    "resource_limit": "Ask for less at once.",
    "sandbox_unavailable": "Run {hilt} doctor; it names the command that mends this.",
    "resident_required": "Allow the resident process: unset HILT_RESIDENT, or run {hilt} resident start.",
    "denied": "Ask the user; the decision is theirs.",
    "approval_required": "Ask the user to approve this call.",
    "approval_timeout": "Ask the user, then send the call again.",
    "USER_REJECTION": "Do not repeat the call; ask the user what they want instead.",
    "no_one_to_ask": "Decide without the answer, or ask in your reply.",
    "hook_blocked": "Read the reason the hook gave and change the call.",
    "untrusted": "Ask the user to look at the file and trust it.",
    "tool_invalid": "Correct the tool's definition at the line named in the error.",
    "tool_failed": "Read the message of the tool and change the arguments.",
    "runtime_missing": "Install the program named in the error.",
    "ssrf_blocked": "Use a public address.",
    "network_error": "Try again later, or use another address.",
    "lsp_unavailable": "Install the language server named in the error.",
    "no_display": "Desktop tools need a screen; go on without them.",
    "stale_elements": "Take a new screenshot, then use its numbers.",
    "limit_exceeded": "Wait for running work to end, then send the call again.",
    "busy": "Send the call again in a moment.",
    "internal": "This is a fault in hilt; report the incident id.",
}


def _advice(code: str) -> str:
    advice = CODES[code]
    if "{hilt}" not in advice:
        return advice
    from hilt.places import command

    return advice.replace("{hilt}", command())


class ToolError(Exception):
    """A call that cannot be answered: a code, the facts, one next step, data for programs."""

    def __init__(self, code: str, message: str, *, suggestion: str | None = None, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.suggestion = suggestion if suggestion is not None else _advice(code)
        self.details = details
