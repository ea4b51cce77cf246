"""The tools of agentos: structured replies with the absolute paths its documentation promises."""

from __future__ import annotations

import os
from typing import Any

from hilt.call import AGENT, Output
from hilt.dialects._rows import Args, array, boolean, choice, entries, number, row, string

_MAX_BYTES = 1024 * 1024  # of one read; the reply reports truncation
_CONTENT_CHARACTERS = 100_000


def _data(output: Output, **fields: Any) -> Output:
    return output._replace(text="", data=fields)


def _full(root: str, output: Output, path: str) -> str:
    return os.path.normpath(os.path.join(root, output.meta.get("path", path)))


def _integers(args: Args) -> Args:
    """Return the arguments with floats as integers."""
    return {name: int(value) if isinstance(value, float) else value for name, value in args.items()}


def _known_parent(args: Args) -> Args:
    """Return the arguments without the id of an agent that is not of hilt: the caller is its parent then."""
    return {name: value for name, value in args.items() if name != "parentId" or value.startswith(AGENT)}


def _read(args: Args) -> Args:
    return {**args, "max_bytes": min(int(args["max_bytes"]), _MAX_BYTES)}


def _read_reply(output: Output, args: Args, root: str) -> Output:
    meta = output.meta
    fields = {"content": output.text, "path": _full(root, output, args["path"]), "size": meta.get("size", 0)}
    if meta.get("truncated"):
        fields["truncated"] = True
    return _data(output, **fields)


def _write_reply(output: Output, args: Args, root: str) -> Output:
    return _data(output, written=True, path=_full(root, output, args["path"]), size=output.meta["size"])


def _list(args: Args) -> Args:
    is_recursive = args.pop("recursive", False)
    return {**args, "depth": 10 if is_recursive else 1}


def _list_reply(output: Output, args: Args, root: str) -> Output:
    folder = output.meta["path"]
    prefix = "" if folder == "." else folder + "/"
    listed = [
        {
            **entry,
            "name": entry["name"].removeprefix(prefix).rstrip("/"),
            "type": "directory" if entry["type"] == "directory" else "file",  # agentos documents only these two
        }
        for entry in output.data["entries"]
    ]
    fields: dict[str, Any] = {"path": _full(root, output, args["path"]), "entries": listed}
    if output.data["truncated"]:
        fields["truncated"] = True
    return _data(output, **fields)


def _patch_reply(output: Output, args: Args, root: str) -> Output:
    # a patch that changes nothing has no files
    path = next(iter(output.meta["files"]), args["path"])
    return _data(output, patched=True, path=os.path.normpath(os.path.join(root, path)))


def _fetch_reply(output: Output, args: Args, root: str) -> Output:
    """Return the text between the marks; an image has none."""
    meta = output.meta
    opening = output.text.find("\n", output.text.find("\n") + 1) + 1
    content = output.text[opening : output.text.rfind("\n[end of content ")] if output.text else ""
    return _data(
        output,
        url=meta["url"],
        status=meta["status"],
        contentType=meta["content_type"],
        content=content,
        truncated=meta["truncated"],
        untrusted=True,
    )


def _search_reply(output: Output, args: Args, root: str) -> Output:
    return _data(output, results=output.data["results"], provider=output.data["provider"])


_PATH = string("File path relative to WORKSPACE_ROOT")

ENTRIES = entries(
    row(
        "tool::file_read",
        "read_file",
        "Read file contents; the path must lie in the workspace.",
        {"path!": _PATH, "maxBytes": number("Optional maximum bytes to read", 0)},
        renames={"maxBytes": "max_bytes"},
        defaults={"max_bytes": _MAX_BYTES},
        arguments=_read,
        reply=_read_reply,
    ),
    row(
        "tool::file_write",
        "write_file",
        "Write content to a file; the path must lie in the workspace.",
        {"path!": _PATH, "content!": string("Content to write")},
        reply=_write_reply,
    ),
    row(
        "tool::file_list",
        "list_dir",
        "List directory contents with file metadata.",
        {
            "path!": string("Directory path relative to WORKSPACE_ROOT"),
            "recursive": boolean("Whether to list subdirectories too"),
        },
        defaults={"max_entries": 10_000, "hidden": True, "details": True},
        arguments=_list,
        reply=_list_reply,
    ),
    row(
        "tool::apply_patch",
        "apply_patch",
        "Apply a unified diff patch to a file.",
        {"path!": string("File path to apply the patch to"), "patch!": string("Unified diff format patch content")},
        reply=_patch_reply,
    ),
    row(
        "tool::shell_exec",
        "shell_exec",
        "Execute an allowed program without a shell.",
        {
            "argv!": array("Command array [binary, …args]; the first element must be allowed", {"type": "string"}),
            "cwd": string("Working directory relative to WORKSPACE_ROOT"),
            "timeout": number("Execution timeout in milliseconds (default: 120000)", 1),
        },
        arguments=_integers,
        advice={
            "command_blocked": "Choose an allowed program that only does what is needed, or ask the user to run it."
        },
    ),
    row(
        "tool::web_fetch",
        "web_fetch",
        "SSRF-protected HTTP fetch with automatic HTML-to-text conversion; the content is untrusted.",
        {
            "url!": string("URL to fetch (validated against SSRF attacks)"),
            "maxSize": number("Maximum response size in bytes (default: 500000)", 1),
        },
        renames={"maxSize": "max_size"},
        defaults={"extract_mode": "text", "max_chars": _CONTENT_CHARACTERS},
        arguments=_integers,
        reply=_fetch_reply,
    ),
    row(
        "tool::web_search",
        "web_search",
        "Multi-provider web search; the results are untrusted.",
        {
            "query!": string("Search query string"),
            "provider": choice(
                "Search provider: tavily, brave, or duckduckgo, which needs no key",
                *("tavily", "brave", "duckduckgo", "exa"),
            ),
            "maxResults": number("Maximum number of results (default: 5)", 1, 10),
        },
        renames={"maxResults": "count"},
        arguments=_integers,
        reply=_search_reply,
    ),
    row(
        "tool::agent_spawn",
        "agent_spawn",
        "Spawn a sub-agent; at most 20 per parent, nested 5 deep.",
        {
            "template!": string("Template identifier for the sub-agent type"),
            "parentId": string("Parent agent ID for tracking hierarchy"),
            "message!": string("Initial message to send to the spawned agent"),
        },
        arguments=_known_parent,
    ),
    row(
        "tool::agent_send",
        "agent_send",
        "Send a message to another agent; at most 10 a minute between two agents.",
        {
            "agentId!": string("Sending agent's ID"),
            "targetAgentId!": string("Receiving agent's ID"),
            "message!": string("Message content (max 100KB)"),
        },
    ),
)
