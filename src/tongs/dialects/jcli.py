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


def _read_reply(output: Output, args: Args, root: str) -> Output:
    """Say how to go on in this dialect's words: offset counts from 0."""
    cut = output.meta.get("truncation")
    if cut is None or "next" not in cut:
        return output
    known = cut["next"]["args"]
    if "start_line" in known:
        ours, theirs = f"start_line={known['start_line']}", {"offset": known["start_line"] - 1}
    else:
        ours, theirs = f"end_line={known['end_line']}", {"limit": known["end_line"]}
    text, mark, note = output.text.rpartition("\n[Showing lines ")
    said = " ".join(f"{name}={value}" for name, value in theirs.items())
    following = {"tool": "Read", "args": {"path": known["path"], **theirs}}
    return output._replace(
        text=text + mark + note.replace(f"Use {ours} ", f"Use {said} ", 1),
        meta={**output.meta, "truncation": {**cut, "next": following}},
    )


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
            _read_reply,
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
