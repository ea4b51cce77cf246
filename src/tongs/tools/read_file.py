"""Read a file."""

from typing import Annotated, Any

from tongs.call import Output
from tongs.context import Context
from tongs.declaration import tool
from tongs.params import Bounds, Count, ReadPath
from tongs.reading import read
from tongs.text.windows import Truncate


@tool(effects="read")
def read_file(
    ctx: Context,
    path: ReadPath,
    start_line: Annotated[int, Bounds(minimum=1, clamp=True)] = 1,
    end_line: int | None = None,
    tail: Count = 0,
    line_numbers: bool = True,
    truncate: Truncate = "head",
    include_checksum: bool = False,
    if_checksum: str | None = None,
    max_bytes: Annotated[int, Bounds(minimum=0, maximum=1024 * 1024, clamp=True)] | None = None,
) -> Output:
    """Read a text file with line numbers, or look at an image.

    At most 2,000 lines and 50 KB come back at once; a cut reply says which lines it shows, how to go on, and where the
    remainder is. Images come back as image blocks. Reading a file also guards it: a later change is refused when the
    file was changed by somebody else in between.

    Args:
        path: File to read, relative to the workspace.
        start_line: First line to return, counted from 1.
        end_line: Last line to return. Default: 1,999 lines after start_line.
        tail: Return the last N lines instead of a window. 0 means off.
        line_numbers: Put the line number and a tab before each line.
        truncate: What to keep when there is too much: the head (go on with start_line), the tail (logs), both ends
            (middle), everything up to the byte limit (none), or up to the end of a block (smart).
        include_checksum: Put the SHA-256 of the whole file into meta.sha256.
        if_checksum: SHA-256 of an earlier read; when the file still has it, the answer says so instead of the text.
        max_bytes: Return the exact contents from the beginning, up to this many bytes, without window or numbers.
    """
    window: dict[str, Any] = {"start_line": start_line, "end_line": end_line, "tail": tail}
    window.update(line_numbers=line_numbers, truncate=truncate)
    return read(ctx, path, window, include_checksum=include_checksum, if_checksum=if_checksum, max_bytes=max_bytes)
