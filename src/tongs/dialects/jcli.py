"""The tools of j-cli."""

from __future__ import annotations

from typing import Any

from tongs.call import Output
from tongs.catalog import Entry

Args = dict[str, Any]


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _same(output: Output, args: Args, root: str) -> Output:
    return output


def _read(args: Args) -> Args:
    first = args.get("offset", 0) + 1
    if "limit" in args:
        return {"path": args["path"], "start_line": first, "end_line": first + args["limit"] - 1, "truncate": "none"}
    return {"path": args["path"], "start_line": first, "truncate": "none"}


def _edit(args: Args) -> Args:
    return {"path": args["path"], "old_text": args["old_string"], "new_text": args.get("new_string", "")}


ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "Read",
            "Read file contents, with line numbers counted from 1; images come back as images.",
            _object(
                {
                    "path": {"type": "string", "description": "File path (absolute or relative)"},
                    "offset": {
                        "type": "integer",
                        "minimum": 0,
                        "description": "Starting line, counted from 0 (defaults to the beginning)",
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "Number of lines to read (defaults to all)",
                    },
                },
                ["path"],
            ),
            "read_file",
            _read,
            _same,
        ),
        Entry(
            "Write",
            "Write to a file; missing folders are made, an existing file is overwritten.",
            _object(
                {
                    "path": {"type": "string", "description": "File path"},
                    "content": {"type": "string", "description": "Content to write"},
                },
                ["path", "content"],
            ),
            "write_file",
            dict,
            _same,
        ),
        Entry(
            "Edit",
            "Replace a string in a file; old_string must match exactly one place.",
            _object(
                {
                    "path": {"type": "string", "description": "File path"},
                    "old_string": {"type": "string", "description": "Original string to replace (must be unique)"},
                    "new_string": {"type": "string", "description": "Replacement string (empty deletes)"},
                },
                ["path", "old_string"],
            ),
            "edit_file",
            _edit,
            _same,
        ),
    )
}
