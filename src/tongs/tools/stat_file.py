"""Look at a file without reading it."""

import stat

from tongs.call import Output
from tongs.context import Context
from tongs.params import ReadPath
from tongs.text import encodings
from tongs.tool import tool
from tongs.workspace import MAX_BYTES


@tool(effects="read")
def stat_file(ctx: Context, path: ReadPath) -> Output:
    """Return a file's type, size, number of lines, encoding, line endings and time of change, without its contents.

    Args:
        path: File or folder, relative to the workspace.
    """
    shown, status = ctx.workspace.status(path)
    is_file = stat.S_ISREG(status.st_mode)
    data: dict[str, object] = {
        "path": shown,
        "type": "file" if is_file else "directory" if stat.S_ISDIR(status.st_mode) else "special",
        "size": status.st_size,
    }
    if is_file and status.st_size <= MAX_BYTES:
        data.update(_contents(ctx, path))
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
            # an ending may lie across two chunks
            pairs += chunk.count(b"\r\n") + (last.endswith(b"\r") and chunk.startswith(b"\n"))
            returns += chunk.count(b"\r")
            last = chunk
    facts: dict[str, object] = {"lines": feeds + (1 if last and not last.endswith(b"\n") else 0)}
    if encodings.is_binary(head[:512]):
        return {**facts, "encoding": "binary"}
    encoding = encodings.detect(head)
    if encoding.name.startswith("utf-16"):
        return {**facts, "encoding": encoding.name, "bom": True}
    facts["encoding"] = encoding.name
    facts["bom"] = bool(encoding.bom)
    facts["line_ending"] = (
        "none"
        if not feeds and not returns
        else "lf"
        if not returns
        else "crlf"
        if pairs == feeds == returns
        else "mixed"
    )
    return facts


def rfc3339(nanoseconds: int) -> str:
    """Return a time as RFC 3339 in UTC."""
    from time import gmtime, strftime

    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds)) + f".{rest:09d}Z"
