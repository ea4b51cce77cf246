"""The tools of j-cli."""

from __future__ import annotations

from functools import partial

from hilt.call import Output
from hilt.dialects._rows import (
    Args,
    LineOffsets,
    array,
    boolean,
    choice,
    entries,
    files_reply,
    integer,
    noted_lines,
    number,
    page_failure,
    page_reply,
    pattern_failure,
    record,
    results_reply,
    row,
    skill_reply,
    string,
)
from hilt.errors import ToolError

_BASH_SECONDS = 600
_WINDOW = LineOffsets("Read", "path", first=0)


def _grep(args: Args) -> Args:
    mode = args.pop("output_mode", "content")
    return args if mode == "content" else {**args, "format": "filenames"}


def _grep_reply(output: Output, args: Args, root: str) -> Output:
    """Rewrite the note in this dialect's terms, and drop the counts for files_with_matches."""
    facts = output.meta["truncation"]
    lines, note = noted_lines(output)
    if args.get("output_mode") == "files_with_matches":
        lines = [line.rpartition(":")[0] for line in lines]
    if note is not None:
        note, _, rest = note.partition(" Use offset=")
        if rest:
            note += " Use a larger head_limit to see more." + rest.partition(" to continue.")[2]
        lines.append(note.replace("; send no_ignore: true to search them too", ""))
    truncation = {name: value for name, value in facts.items() if name not in ("next", "hint")}
    return output._replace(text="\n".join(lines), meta={**output.meta, "truncation": truncation})


def _grep_failure(error: ToolError, args: Args) -> ToolError:
    """Replace suggestions that name arguments this dialect does not have."""
    if "literal: true" in error.suggestion or "multiline: true" not in error.suggestion:
        return pattern_failure(error, args)
    advice = "Search for one of the lines, with context for its neighbours."
    return ToolError(error.code, "A match cannot span lines.", suggestion=advice, **error.details)


def _plan_reply(output: Output, args: Args, root: str) -> Output:
    text = output.text
    for ours, theirs in (("ask_user", "Ask"), ("exit_plan_mode", "ExitPlanMode"), ("enter_plan_mode", "EnterPlanMode")):
        text = text.replace(ours, theirs)
    return output._replace(text=text)


def _task_reply(output: Output, args: Args, root: str) -> Output:
    """Name the call for the next page as this dialect does."""
    if "next" not in output.data:
        return output
    return output._replace(data={**output.data, "next": {**output.data["next"], "tool": "Task"}})


_OPTION = {"anyOf": [{"type": "string"}, record({"label!": {"type": "string"}, "description": {"type": "string"}})]}
_QUESTION = record(
    {
        "header": string("Short tag"),
        "question!": string("Full question text"),
        "options!": array("Option list (2-4)", _OPTION, 2, 4),
        "multi_select": boolean("Allow multiple selections"),
    },
)
_PROMPT = {"anyOf": [{"type": "string"}, record({"tool!": {"type": "string"}, "prompt!": {"type": "string"}})]}
_TASK_ID = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
_TODO = record(
    {
        "id": {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "Todo ID"},
        "content": string("Content"),
        "status": choice("Status: pending/in_progress/completed", "pending", "in_progress", "completed", "cancelled"),
    }
)

ENTRIES = entries(
    row(
        "Read",
        "read_file",
        "Read file contents, with line numbers counted from 1; images are returned as images.",
        {
            "path!": string("File path (absolute or relative)"),
            "offset": integer("Starting line, counted from 0 (defaults to the beginning)", 0),
            "limit": integer("Number of lines to read (defaults to all)", 1),
        },
        arguments=_WINDOW.arguments,
        reply=_WINDOW.reply,
        failure=_WINDOW.failure,
    ),
    row(
        "Write",
        "write_file",
        "Write to a file; missing folders are created, an existing file is overwritten.",
        {"path!": string("File path"), "content!": string("Content to write")},
    ),
    row(
        "Edit",
        "edit_file",
        "Replace a string in a file; old_string must match exactly one place.",
        {
            "path!": string("File path"),
            "old_string!": string("Original string to replace (must be unique)"),
            "new_string": string("Replacement string (empty deletes)"),
        },
        renames={"old_string": "old_text", "new_string": "new_text"},
        defaults={"new_text": ""},
    ),
    row(
        "Glob",
        "find_files",
        "Find files by pattern.",
        {
            "pattern!": string("Glob pattern (e.g., `**/*.rs`, `src/**/*.ts`)"),
            "path": string("Search directory (defaults to current)"),
            "excludePattern": string("Exclude pattern (e.g., `**/node_modules/**`)"),
            "limit": integer("Max results (default 100)", 1),
        },
        renames={"excludePattern": "exclude"},
        defaults={"limit": 100},
        reply=partial(files_reply, none="No files match.", more="use a larger limit to see more"),
    ),
    row(
        "Grep",
        "search_files",
        "Regex search in file contents.",
        {
            "pattern!": string("Regex pattern"),
            "path": string("Search path (defaults to current)"),
            "glob": string("File filter (e.g., `*.rs`)"),
            "type": string("File type (js/py/rust/go/java)"),
            "output_mode": choice(
                "Output mode: content/files_with_matches/count", "content", "files_with_matches", "count"
            ),
            "context": integer("Context lines", 0),
            "head_limit": integer("Max results", 1),
            "ignore_case": boolean("Case insensitive (default false)"),
        },
        renames={
            "glob": "include",
            "context": "context_lines",
            "head_limit": "max_matches",
            "ignore_case": "case_insensitive",
        },
        arguments=_grep,
        reply=_grep_reply,
        failure=_grep_failure,
    ),
    row(
        "Bash",
        "run_shell",
        "Execute a shell command; interactive commands get no input.",
        {
            "command!": string("Shell command (executes in bash -c)"),
            "cwd": string("Working directory"),
            "timeout": integer("Timeout in seconds (default 120, max 600)", 1, _BASH_SECONDS),
            "run_in_background": boolean("Run in background (returns task_id)"),
        },
        defaults={"timeout": 120},
        advice={"command_blocked": "Choose a safer command, or ask the user to run it."},
        maxima={"timeout": _BASH_SECONDS},
    ),
    row(
        "TaskOutput",
        "job_output",
        "Get output from a background task.",
        {
            "task_id!": string("Background task ID"),
            "block": boolean("Wait for completion (default true)"),
            "timeout": integer("Wait timeout in ms (default 30000, max 600000)", 0, 600_000),
        },
        advice={"not_found": "Use a task_id that Bash or Agent returned in this session."},
    ),
    row(
        "WebFetch",
        "web_fetch",
        "Fetch web content, auto-converts to Markdown or plain text; it is untrusted.",
        {
            "url!": string("Full URL (http:// or https://)"),
            "extract_mode": choice("Output format: markdown/text", "markdown", "text"),
            "max_chars": integer("Max characters (default 50000)", 1),
            "headers": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Custom headers",
            },
            "authorization": string("Authorization header"),
        },
        reply=partial(page_reply, more=" A larger max_chars shows more."),
        failure=page_failure,
    ),
    row(
        "WebSearch",
        "web_search",
        "Search the web, with Exa when EXA_API_KEY is set.",
        {
            "query!": string("Search keywords"),
            "count": integer("Number of results (1-10, default 5)", 1, 10),
            "type": choice("Search type: auto/keyword/neural", "auto", "keyword", "neural"),
        },
        reply=results_reply,
    ),
    row(
        "Ask",
        "ask_user",
        "Request structured input from the user, with one or several options to select.",
        {"questions!": array("List of questions (1-4)", _QUESTION, 1, 4)},
    ),
    row(
        "Task",
        "task",
        "Manage tasks (create/get/list/update), shared by all agents of the workspace.",
        {
            "action!": choice(
                "create (requires title), get (requires taskId), list, update (requires taskId)",
                *("create", "get", "list", "update"),
            ),
            "title": string("Title"),
            "description": string("Description"),
            "taskId": {**_TASK_ID, "description": "Task ID"},
            "status": choice("Status: pending → in_progress → completed", "pending", "in_progress", "completed"),
            "blockedBy": array("IDs of tasks to complete first", _TASK_ID),
            "ready": boolean("List only tasks that can be started"),
            "owner": string("Who works on the task"),
        },
        reply=_task_reply,
    ),
    row(
        "TodoWrite",
        "todo_write",
        "Manage the todo list. Only ONE item can be in_progress at any time.",
        {"todos!": array("Todo list", _TODO), "merge": boolean("Merge update")},
    ),
    row(
        "TodoRead",
        "todo_read",
        "Read the current todo list. Returns id, content, and status for all items.",
        {},
    ),
    row(
        "EnterPlanMode",
        "enter_plan_mode",
        "Enter plan mode: read-only tools are available, write tools are blocked.",
        {},
        reply=_plan_reply,
    ),
    row(
        "ExitPlanMode",
        "exit_plan_mode",
        "Exit plan mode: submit the plan for the user's approval.",
        {"allowedPrompts": array("Prompt permissions needed for implementation", _PROMPT)},
        renames={"allowedPrompts": "allowed_prompts"},
    ),
    row(
        "LoadSkill",
        "load_skill",
        "Load specified skill into context.",
        {"name!": string("Skill name"), "arguments": string("Arguments to pass to skill")},
        reply=skill_reply,
    ),
    row(
        "Compact",
        "compact",
        "Compress conversation context to free up context window.",
        {},
    ),
    row(
        "Agent",
        "agent",
        "Launch a sub-agent with a fresh context for a complex multi-step task. It can use all tools except Agent.",
        {
            "prompt!": string("Task description for the sub-agent"),
            "description": string("Brief description (3-5 words)"),
            "run_in_background": boolean("Run in background (returns task_id)"),
        },
    ),
    row(
        "RegisterHook",
        "register_hook",
        "Register, list or remove session-level hooks.",
        {
            "action!": choice(
                "register (requires event + command), list, remove (requires event + index), help (view the protocol)",
                *("register", "list", "remove", "help"),
            ),
            "event": string("Event"),
            "command": string("Command to run at the event"),
            "index": integer("Index of the hook at that event", 0),
        },
    ),
    row(
        "ComputerUse",
        "computer",
        "Control the desktop: screenshots with numbered elements, mouse and keyboard.",
        {
            "action!": choice(
                "What to do",
                *("screenshot", "click", "double_click", "doubleclick", "right_click", "rightclick", "drag", "scroll"),
                *("type", "key", "keys", "key_combo", "find_element", "ax_tree"),
                # hilt's own
                *("move", "list_windows", "focus_app", "cursor_position", "wait"),
            ),
            "som": boolean("screenshot: number the elements (default true)"),
            "app": string("screenshot, find_element, ax_tree, focus_app: target app name"),
            "region": array("screenshot: x, y, width, height, in full resolution", {"type": "number"}, 4, 4),
            "x": number("X coordinate in the last screenshot"),
            "y": number("Y coordinate in the last screenshot"),
            "element": integer("SoM element number", 1),
            "start_x": number("drag: start X"),
            "start_y": number("drag: start Y"),
            "end_x": number("drag: end X"),
            "end_y": number("drag: end Y"),
            "start_element": integer("drag: SoM element number", 1),
            "end_element": integer("drag: SoM element number", 1),
            "duration_ms": integer("drag: duration", 0),
            "dx": integer("Scroll amount (negative = left)"),
            "dy": integer("Scroll amount (negative = up)"),
            "text": string("Text to type"),
            "delay_ms": integer("Keystroke delay in ms", 0),
            "key": string("Key name (e.g., enter, tab, escape)"),
            "keys": array('Key list (e.g., ["cmd", "c"])', {"type": "string"}),
            "query": string("find_element, wait: search query"),
            "seconds": number("wait: up to 10 (default 5)", 0, 10),
            "depth": integer("ax_tree: tree depth limit", 0),
            "role": string("ax_tree: role filter (e.g., AXButton)"),
            "clickable": boolean("ax_tree: show only clickable elements"),
        },
    ),
    words={
        "list_dir": "Bash with ls",
        "stat_file": "Bash with stat",
        "checksum_tree": "Bash with sha256sum",
    },
)
