"""Compare two files."""

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import tool
from hilt.formats.digests import sha256
from hilt.output import views
from hilt.params import Count, ReadPath
from hilt.text import diffing, encodings
from hilt.text.lines import count_lines


@tool(effects="read")
def diff_files(ctx: Context, path_a: ReadPath, path_b: ReadPath, context_lines: Count = 3) -> Output:
    """Compare two files as a unified diff; empty if they are identical.

    Args:
        path_a: Old file.
        path_b: New file.
        context_lines: Unchanged lines around each change.
    """
    a, b = (ctx.workspace.read(path, remember=False) for path in (path_a, path_b))
    identical = a.data == b.data
    meta: dict[str, object] = {"is_identical": identical}
    if identical:
        return Output("", meta=meta, view=views.none(f"{a.path} and {b.path} are identical."))
    if any(encodings.is_binary(file.data[:512]) for file in (a, b)):
        sums = [f"{file.path}: {len(file.data)} bytes, SHA-256 {sha256(file.data).hex()}" for file in (a, b)]
        return Output("Binary files differ.\n" + "\n".join(sums), meta=meta)
    old, new = (encodings.visible(encodings.decode(file.data)[0]) for file in (a, b))
    if old == new:
        return Output("The text is identical; the encodings differ.", meta=meta)
    context_lines = min(context_lines, count_lines(old), count_lines(new))  # there are no more lines to show
    hunks = diffing.compare(old, new, context_lines)
    meta["first_changed_line"] = diffing.first_changed_line(old, new)
    text = diffing.unified_diff(old, new, a.path, new_path=b.path, rename=False, hunks=hunks)
    return Output(text, meta=meta, view=views.diff(b.path, diffing.stripped(hunks)))
