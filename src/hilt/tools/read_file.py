"""Read a file."""

from typing import Annotated, Any

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.files.reading import read
from hilt.params import Bounds, Count, ReadPath
from hilt.schema import BOOLEAN, STRING, TEXT, record
from hilt.text.windows import Truncate

_UNCHANGED = record({"unchanged": BOOLEAN, "path": STRING, "checksum": STRING}) | {TEXT: True}


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
    """Read a text file with line numbers, or look at an image.

    At most 2,000 lines and 50 KB at once.

    Details:
    A cut reply says which lines it shows, how to go on, and where the remainder is. Images come back as image blocks.
    Reading a
    file guards it: a later change is refused when the file was changed by somebody else in between. With if_checksum
    and a file that still has it, the answer says so instead of the text. The checksum is in meta.sha256. What truncate
    keeps is the head, the tail, both ends (middle), everything up to the byte limit (none), or up to the end of a block
    (smart).

    Args:
        path: File, or an output_file.
        start_line: First line, counted from 1.
        end_line: Last line. Default: start_line + 1999.
        tail: Return the last N lines instead.
        line_numbers: Number the lines.
        truncate: Part to keep when too long; middle: both ends, smart: whole blocks, none: up to 50 KB.
        include_checksum: Return the SHA-256 in meta.
        if_checksum: Omit the text if the file still has this SHA-256.
        max_bytes: Return raw bytes from the start instead.
    """
    window: dict[str, Any] = {"start_line": start_line, "end_line": end_line, "tail": tail}
    window.update(line_numbers=line_numbers, truncate=truncate)
    return read(ctx, path, window, include_checksum=include_checksum, if_checksum=if_checksum, max_bytes=max_bytes)
