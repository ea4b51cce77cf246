"""The tools of agentos: structured replies with the absolute paths its documentation promises."""

from __future__ import annotations

import os
from typing import Any

from hilt.call import Output
from hilt.catalog import DialectEntry
from hilt.schema import CLAMP

Args = dict[str, Any]

_MOST = 1024 * 1024  # bytes that one call reads; the reply reports truncation


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _data(output: Output, **fields: Any) -> Output:
    return output._replace(text="", data=fields)


def _full(root: str, output: Output, path: str) -> str:
    return os.path.normpath(os.path.join(root, output.meta.get("path", path)))


def _read(args: Args) -> Args:
    return {"path": args["path"], "max_bytes": min(int(args.get("maxBytes", _MOST)), _MOST)}


def _read_reply(output: Output, args: Args, root: str) -> Output:
    meta = output.meta
    fields = {"content": output.text, "path": _full(root, output, args["path"]), "size": meta.get("size", 0)}
    if meta.get("truncated"):
        fields["truncated"] = True
    return _data(output, **fields)


def _shell(args: Args) -> Args:
    return {**args, "timeout": int(args["timeout"])} if "timeout" in args else args


def _same(output: Output, args: Args, root: str) -> Output:
    return output


def _write_reply(output: Output, args: Args, root: str) -> Output:
    return _data(output, written=True, path=_full(root, output, args["path"]), size=output.meta["size"])


def _list(args: Args) -> Args:
    depth = 10 if args.get("recursive") else 1
    return {"path": args["path"], "depth": depth, "max_entries": 10_000, "hidden": True, "details": True}


def _list_reply(output: Output, args: Args, root: str) -> Output:
    folder = output.meta["path"]
    prefix = "" if folder == "." else folder + "/"
    entries = [
        {
            **entry,
            "name": entry["name"].removeprefix(prefix).rstrip("/"),
            "type": "directory" if entry["type"] == "directory" else "file",  # the only two types of its documentation
        }
        for entry in output.data["entries"]
    ]
    fields: dict[str, Any] = {"path": _full(root, output, args["path"]), "entries": entries}
    if output.data["truncated"]:
        fields["truncated"] = True
    return _data(output, **fields)


def _patch_reply(output: Output, args: Args, root: str) -> Output:
    # a patch that changes nothing has no files
    path = next(iter(output.meta["files"]), args["path"])
    return _data(output, patched=True, path=os.path.normpath(os.path.join(root, path)))


_CONTENT_CHARACTERS = 100_000


def _fetch(args: Args) -> Args:
    size = {"max_size": int(args["maxSize"])} if "maxSize" in args else {}
    return {"url": args["url"], "extract_mode": "text", "max_chars": _CONTENT_CHARACTERS, **size}


def _fetch_reply(output: Output, args: Args, root: str) -> Output:
    """Give the text between the marks; an image has none."""
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


def _search(args: Args) -> Args:
    known = {"query": args["query"], "count": int(args.get("maxResults", 5))}
    return {**known, "provider": args["provider"]} if "provider" in args else known


def _search_reply(output: Output, args: Args, root: str) -> Output:
    return _data(output, results=output.data["results"], provider=output.data["provider"])


_PATH = {"type": "string", "description": "File path relative to WORKSPACE_ROOT"}

ENTRIES: dict[str, DialectEntry] = {
    entry.name: entry
    for entry in (
        DialectEntry(
            "tool::file_read",
            "Read file contents; the path must lie in the workspace.",
            _object(
                {
                    "path": _PATH,
                    "maxBytes": {"type": "number", "minimum": 0, "description": "Optional maximum bytes to read"},
                },
                ["path"],
            ),
            "read_file",
            _read,
            _read_reply,
        ),
        DialectEntry(
            "tool::file_write",
            "Write content to a file; the path must lie in the workspace.",
            _object(
                {"path": _PATH, "content": {"type": "string", "description": "Content to write"}}, ["path", "content"]
            ),
            "write_file",
            dict,
            _write_reply,
        ),
        DialectEntry(
            "tool::file_list",
            "List directory contents with file metadata.",
            _object(
                {
                    "path": {"type": "string", "description": "Directory path relative to WORKSPACE_ROOT"},
                    "recursive": {"type": "boolean", "description": "Whether to list subdirectories too"},
                },
                ["path"],
            ),
            "list_dir",
            _list,
            _list_reply,
        ),
        DialectEntry(
            "tool::apply_patch",
            "Apply a unified diff patch to a file.",
            _object(
                {
                    "path": {"type": "string", "description": "File path to apply the patch to"},
                    "patch": {"type": "string", "description": "Unified diff format patch content"},
                },
                ["path", "patch"],
            ),
            "apply_patch",
            dict,
            _patch_reply,
        ),
        DialectEntry(
            "tool::shell_exec",
            "Execute an allowed program without a shell.",
            _object(
                {
                    "argv": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "Command array [binary, …args]; the first element must be allowed",
                    },
                    "cwd": {"type": "string", "description": "Working directory relative to WORKSPACE_ROOT"},
                    "timeout": {
                        "type": "number",
                        "minimum": 1,
                        "description": "Execution timeout in milliseconds (default: 120000)",
                    },
                },
                ["argv"],
            ),
            "shell_exec",
            _shell,
            _same,
        ),
        DialectEntry(
            "tool::web_fetch",
            "SSRF-protected HTTP fetch with automatic HTML-to-text conversion; the content is untrusted.",
            _object(
                {
                    "url": {"type": "string", "description": "URL to fetch (validated against SSRF attacks)"},
                    "maxSize": {
                        "type": "number",
                        "minimum": 1,
                        "description": "Maximum response size in bytes (default: 500000)",
                    },
                },
                ["url"],
            ),
            "web_fetch",
            _fetch,
            _fetch_reply,
        ),
        DialectEntry(
            "tool::web_search",
            "Multi-provider web search; the results are untrusted.",
            _object(
                {
                    "query": {"type": "string", "description": "Search query string"},
                    "provider": {
                        "type": "string",
                        "enum": ["tavily", "brave", "duckduckgo", "exa"],
                        "description": "Search provider: tavily, brave, or duckduckgo, which needs no key",
                    },
                    "maxResults": {
                        "type": "number",
                        "minimum": 1,
                        "maximum": 10,
                        CLAMP: True,
                        "description": "Maximum number of results (default: 5)",
                    },
                },
                ["query"],
            ),
            "web_search",
            _search,
            _search_reply,
        ),
        DialectEntry(
            "tool::agent_spawn",
            "Spawn a sub-agent; at most 20 per parent, nested 5 deep.",
            _object(
                {
                    "template": {"type": "string", "description": "Template identifier for the sub-agent type"},
                    "parentId": {"type": "string", "description": "Parent agent ID for tracking hierarchy"},
                    "message": {"type": "string", "description": "Initial message to send to the spawned agent"},
                },
                ["template", "message"],
            ),
            "agent_spawn",
            dict,
            _same,
        ),
        DialectEntry(
            "tool::agent_send",
            "Send a message to another agent; at most 10 a minute between two agents.",
            _object(
                {
                    "agentId": {"type": "string", "description": "Sending agent's ID"},
                    "targetAgentId": {"type": "string", "description": "Receiving agent's ID"},
                    "message": {"type": "string", "description": "Message content (max 100KB)"},
                },
                ["agentId", "targetAgentId", "message"],
            ),
            "agent_send",
            dict,
            _same,
        ),
    )
}
