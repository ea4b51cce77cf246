"""Read a file."""

from typing import Annotated, Any

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.files.reading import read
from hilt.params import Bounds, Count, ReadPath
from hilt.schema import TEXT, fields
from hilt.text.windows import Truncate

_UNCHANGED = fields("unchanged:boolean path:string checksum:string") | {TEXT: True}


@tool(effects="read", output=_UNCHANGED, traits=Traits(profile="nano"))
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
    """Read a text file with line numbers, or view an image.

    Returns at most 2,000 lines and 50 KB.

    Details:
    Truncated output states which lines it has, how to continue, and where the full text is. Images are returned as
    image blocks. Once a session has read a file, hilt rejects its later changes if someone else has changed the file in
    between. If the file still has the SHA-256 in if_checksum, the result says so and omits the text. The checksum is in
    meta.sha256. truncate keeps the head, the tail, both ends (middle), everything up to the byte limit (none), or
    everything up to the end of a block (smart).

    Args:
        path: File in the workspace, or an output_file from a result.
        start_line: First line, counted from 1.
        end_line: Last line. Default: start_line + 1999.
        tail: Return the last N lines instead.
        line_numbers: Number the lines.
        truncate: Which part to keep when too long. middle: both ends; smart: whole blocks; none: up to 50 KB.
        include_checksum: Return the SHA-256 in meta.
        if_checksum: Omit the text if the file still has this SHA-256.
        max_bytes: Return raw bytes from the start instead.
    """
    window: dict[str, Any] = {"start_line": start_line, "end_line": end_line, "tail": tail}
    window.update(line_numbers=line_numbers, truncate=truncate)
    return read(
        ctx.workspace,
        ctx.overflow,
        path,
        window,
        include_checksum=include_checksum,
        if_checksum=if_checksum,
        max_bytes=max_bytes,
    )
