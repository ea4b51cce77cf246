"""Return the metadata of a file."""

import stat

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import tool
from hilt.errors import ToolError
from hilt.files.workspace import MAX_BYTES
from hilt.formats.times import rfc3339
from hilt.params import ReadPath
from hilt.schema import fields
from hilt.text import encodings
from hilt.text.lines import count_lines

_ANSWER = fields(
    "path:string type:type size:integer lines?:integer encoding?:string bom?:boolean line_ending?:line_ending "
    "modified:string mode:string",
    type={"type": "string", "enum": ["file", "directory", "special"]},
    line_ending={"type": "string", "enum": ["none", "lf", "crlf", "mixed"]},
)


@tool(effects="read", output=_ANSWER)
def stat_file(ctx: Context, path: ReadPath) -> Output:
    """Return a file's type, size, lines, encoding, line endings, mode and time of change, without its contents.

    Args:
        path: File or folder.
    """
    display_path, status = ctx.workspace.status(path)
    is_file = stat.S_ISREG(status.st_mode)
    data: dict[str, object] = {
        "path": display_path,
        "type": "file" if is_file else "directory" if stat.S_ISDIR(status.st_mode) else "special",
        "size": status.st_size,
    }
    if is_file and status.st_size <= MAX_BYTES:
        try:
            data.update(_contents(ctx, path))
        except ToolError as error:
            if error.code != "permission_denied":  # the metadata of an unreadable file is available
                raise
    data["modified"] = rfc3339(status.st_mtime_ns)
    data["mode"] = f"{stat.S_IMODE(status.st_mode):04o}"
    return Output(data=data)


def _contents(ctx: Context, path: str) -> dict[str, object]:
    feeds = pairs = returns = 0
    head = last = b""
    with ctx.workspace.stream(path, remember=False) as stream:
        for chunk in stream:
            head = head or chunk
            feeds += chunk.count(b"\n")
            # a line ending may be split across two chunks
            pairs += chunk.count(b"\r\n") + (last.endswith(b"\r") and chunk.startswith(b"\n"))
            returns += chunk.count(b"\r")
            last = chunk
    facts: dict[str, object] = {"lines": feeds + (1 if last and not last.endswith(b"\n") else 0)}
    if encodings.is_binary(head[:512]):
        return {**facts, "encoding": "binary"}
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        return _wide(ctx, path)
    if head is not last:
        # a character may be split across two chunks
        head = head[: head.rfind(b"\n") + 1] or head.rstrip(bytes(range(128, 256))) or head
    encoding = encodings.detect(head)
    facts["encoding"] = encoding.name
    facts["bom"] = bool(encoding.bom)
    facts["line_ending"] = _ending(feeds, pairs, returns)
    return facts


def _wide(ctx: Context, path: str) -> dict[str, object]:
    """Return the facts of a UTF-16 or UTF-32 file, which must be decoded first."""
    text, encoding = encodings.decode(ctx.workspace.read(path, remember=False).data)
    facts: dict[str, object] = {"lines": count_lines(text), "encoding": encoding.name, "bom": bool(encoding.bom)}
    facts["line_ending"] = _ending(text.count("\n"), text.count("\r\n"), text.count("\r"))
    return facts


def _ending(feeds: int, pairs: int, returns: int) -> str:
    if not feeds and not returns:
        return "none"
    if not returns:
        return "lf"
    return "crlf" if pairs == feeds == returns else "mixed"
