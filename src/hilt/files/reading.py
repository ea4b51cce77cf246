"""Reads one file for a model: an image, a PDF, a binary file or a window of text; used by read_file and multi_read."""

from __future__ import annotations

import re
from typing import Any

from hilt.call import Output
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.files.workspace import FileContents, Workspace
from hilt.output import views
from hilt.output.overflow import Overflow
from hilt.text import windows
from hilt.text.windows import Lines, Window

SNIFF_BYTES = 4096
WHOLE_BYTES = 4 * 1024 * 1024  # up to this size the encoding is detected from the whole file, above it from the start

# possible first bytes of an image; filetype identifies it
_IMAGE_STARTS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II", b"MM", b"\0\0\1\0")
_TEXT_LIKE = (b"GIF8", b"RIFF", b"BM", b"II", b"MM")  # text may also start with these
# every image has some of these near the start; text has none
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\v\b\x1b"))
_IMAGE_TYPES = {f"image/{name}": f"image/{name}" for name in ("png", "jpeg", "gif", "webp", "bmp", "tiff", "x-icon")}
_IMAGE_TYPES["image/apng"] = "image/png"  # an APNG is a valid PNG
# atomic groups prevent catastrophic backtracking
_SVG = (
    rb"(?s)(?:\xef\xbb\xbf)?(?>\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>)*+"
    rb"<(?:[A-Za-z][\w.-]*:)?svg[\s>/]"
)
_SVG_ENDS = (b"svg>", b"/>", b"-->")
_SVG_BYTES = 64 * 1024  # the image may follow licences and entities


def read(
    workspace: Workspace,
    overflow: Overflow,
    path: str,
    window: dict[str, Any],
    *,
    include_checksum: bool = False,
    if_checksum: str | None = None,
    max_bytes: int | None = None,
) -> Output:
    """Return the contents of a file for the model."""
    file = workspace.read(path)
    meta: dict[str, Any] = {"path": file.path}
    if include_checksum or if_checksum:
        checksum = workspace.checksum(file.path)
        if if_checksum and if_checksum.lower() == checksum:
            return Output(data={"unchanged": True, "path": file.path, "checksum": checksum})
        if include_checksum:
            meta["sha256"] = checksum
    kind = image_type(file.data)
    if kind is not None:
        return show_image(file.path, file.data, kind, meta, workspace.fence)
    size = len(file.data)
    if file.data.startswith(b"%PDF-") or file.path.lower().endswith(".pdf"):
        file = FileContents(file.path, pdf_text(file.path, file.data, workspace.fence).encode(), file.status)
    elif _is_binary(file.data):
        text = f"[binary file: {size} bytes — use checksum_tree for integrity or skip content reads]"
        return Output(text, meta={**meta, "binary": True, "size": size})
    if max_bytes is not None:
        return _limited(file, max_bytes, meta, size)
    return _text(overflow, file, window, meta)


def image_type(data: bytes) -> str | None:
    """Return the MIME type of an image by its contents, or None."""
    head = data[:SNIFF_BYTES]
    if head.startswith(_IMAGE_STARTS):
        if head.startswith(_TEXT_LIKE) and len(head.translate(None, _CONTROLS)) == len(head):
            return None
        import filetype

        kind = filetype.guess(head)
        return None if kind is None else _IMAGE_TYPES.get(kind.mime)
    if head[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") and re.match(_SVG, data[:_SVG_BYTES]):
        # a web page or component may also start with an SVG element
        return "image/svg+xml" if data[-SNIFF_BYTES:].rstrip().endswith(_SVG_ENDS) else None
    return None


def show_image(name: str, data: bytes, kind: str, meta: dict[str, Any], fence: Fence) -> Output:
    """Return an image as a block, scaled down if it is too large."""
    from base64 import b64encode

    from hilt.files.decoders import IMAGE_BYTES, too_large

    size = len(data)
    meta["size"] = size
    encoded = None
    if kind != "image/svg+xml":
        encoded, note = _scaled(name, data, fence)
        if note:
            meta["notes"] = [note]
    elif size > IMAGE_BYTES:
        raise too_large(name, f"{size} bytes")
    kind = kind if encoded is None else "image/jpeg"
    block = {"type": "image", "data": encoded or b64encode(data).decode(), "mimeType": kind}
    return Output(content=(block,), meta=meta, view=views.none(f"{name}: {kind}, {size} bytes"))


def _scaled(name: str, data: bytes, fence: Fence) -> tuple[str | None, str | None]:
    """Return a smaller image as base64 and a note, or None twice if the image may stay as it is."""
    from hilt.files.decoders import IMAGE_BYTES, IMAGE_PIXELS, SCALER, check_pixels, too_large
    from hilt.formats.pictures import dimensions
    from hilt.sandbox.decoding import decode

    size = dimensions(data)
    is_short = len(data) <= IMAGE_BYTES
    if size is not None:
        if is_short and max(size) <= IMAGE_PIXELS:
            return None, None
        check_pixels(name, *size)
    smaller = decode(SCALER, name, data, fence, name=name)
    if smaller is None and not is_short:
        raise too_large(name, f"{len(data)} bytes")
    if smaller is None or smaller[2] is None:
        return None, None
    width, height, encoded = smaller
    return encoded, f"scaled down from {width} x {height} pixels, {len(data)} bytes"


def pdf_text(name: str, data: bytes, fence: Fence) -> str:
    """Return the text of a PDF, page by page."""
    from hilt.files.decoders import PDF_READER
    from hilt.sandbox.decoding import decode

    text: str = decode(PDF_READER, name, data, fence, name=name)
    return text


def _is_binary(data: bytes) -> bool:
    if b"\0" not in data[:512]:
        return False
    from hilt.text import encodings

    return encodings.is_binary(data[:512])


def _decoded(data: bytes) -> str:
    """Decode UTF-8, with invalid bytes made visible."""
    if data.isascii():
        return data.decode()
    from hilt.text import encodings

    return encodings.visible(data.decode("utf-8", "surrogateescape"))


_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")  # of UTF-16 and UTF-32


def _as_utf8(data: bytes) -> tuple[bytes, str]:
    """Return the text as UTF-8, and the name of its original encoding."""
    if data.isascii():
        return data, "utf-8"
    from hilt.text import encodings

    if len(data) <= WHOLE_BYTES or data.startswith(_WIDE_MARKS):
        text, encoding = encodings.decode(data)
    else:
        # a character cut in half at the end of the sample would look like another encoding
        head = data[: data.rfind(b"\n", 0, WHOLE_BYTES) + 1] or data[:WHOLE_BYTES]
        encoding = encodings.detect(head)
        if encoding.name == "utf-8":
            return data[len(encoding.bom) :], "utf-8"
        text = data[len(encoding.bom) :].decode(encoding.name, "replace")
    if encoding.name != "utf-8":
        text = encodings.visible(text)  # lone surrogates of UTF-16
    return text.encode("utf-8", "surrogateescape"), encoding.name


def _limited(file: FileContents, limit: int, meta: dict[str, Any], size: int) -> Output:
    data, encoding = _as_utf8(file.data)
    text = data[:limit].decode("utf-8", "ignore" if len(data) > limit else "replace")
    meta.update(size=size, encoding=encoding, truncated=len(data) > limit)
    return Output(text, meta=meta, bounded=True)


def _text(overflow: Overflow, file: FileContents, window: dict[str, Any], meta: dict[str, Any]) -> Output:
    data, encoding = _as_utf8(file.data)
    if encoding != "utf-8":
        meta["encoding"] = encoding
    lines = Lines(data)
    total = lines.total
    if not total and (window["start_line"] == 1 or window["tail"]):
        return Output("", meta=meta, view=views.code(file.path, "", line_count=0))
    if window["tail"] and window["truncate"] == "head":
        window = {**window, "truncate": "tail"}  # if the last lines are too long, keep their end
    start, end, truncate = window["start_line"], window["end_line"], window["truncate"]
    if end is not None and end < start and not window["tail"]:
        advice = f"Use an end_line of {start} or more."
        raise ToolError("invalid_args", f"end_line {end} is before start_line {start}.", suggestion=advice)
    if start > total and not window["tail"]:
        raise ToolError(
            "past_end",
            f"{file.path} has {total} line{'s' * (total != 1)}; start_line {start} is past the end.",
            suggestion=f"Use a start_line from 1 to {max(total, 1)}.",
            total_lines=total,
        )
    first, last = windows.resolve(total, start, end, window["tail"], truncate)
    numbered: bool = window["line_numbers"]
    text = _decoded(lines.take(first, last))
    raw = text.split("\n")
    if raw[-1] == "" and len(raw) > last - first + 1:
        raw.pop()
    if numbered and "\r" in text:
        raw = [line.removesuffix("\r") for line in raw]
    selected = windows.select(raw, first, truncate, file.path.rpartition(".")[2].lower(), numbered=numbered)
    plain: list[str] = []
    for part in selected.parts:
        plain += part.lines
    output_lines = windows.numbered(selected.parts) if numbered else list(plain)
    if len(selected.parts) == 2:
        omitted = selected.parts[1].first - selected.parts[0].last - 1
        output_lines.insert(len(selected.parts[0].lines), f"[... {omitted} lines omitted ...]")
    text = "\n".join(output_lines)
    has_more = selected.last < total
    limited = selected.cut or (has_more and end is None and not window["tail"])
    if limited or has_more:
        text += _note(overflow, file, lines, selected, {**window, "first": first, "last": last}, meta, limited=limited)
    view = views.code(file.path, "\n".join(plain), first_line=selected.parts[0].first, line_count=total)
    return Output(text, view=view, meta=meta, bounded=True)


def _note(
    overflow: Overflow,
    file: FileContents,
    lines: Lines,
    selected: Window,
    window: dict[str, Any],
    meta: dict[str, Any],
    *,
    limited: bool,
) -> str:
    """Return a note on which lines are shown, how to continue and where the remainder is; add the same to meta."""
    ranges = " and ".join(f"{part.first}-{part.last}" for part in selected.parts)
    first_gap = selected.parts[0].last + 1
    following: int | None = first_gap if first_gap <= lines.total else None
    truncation: dict[str, Any] = {"truncated": True, "total_lines": lines.total, "output_lines": selected.shown}
    note = f"\n[Showing lines {ranges} of {lines.total}."
    if selected.clipped:
        note += f" Line {selected.last} is too long to show in full."
    options: dict[str, Any] = {} if window["line_numbers"] else {"line_numbers": False}
    if window["truncate"] == "tail" and selected.parts[0].first > max(window["first"], 1):
        before = selected.parts[0].first - 1
        note += f' Use end_line={before} with truncate="tail" for the lines before.'
        options["truncate"] = "tail"
        truncation["next"] = {"tool": "read_file", "args": {"path": file.path, "end_line": before, **options}}
    elif following is not None:
        note += f" Use start_line={following} to continue."
        truncation["next"] = {"tool": "read_file", "args": {"path": file.path, "start_line": following, **options}}
    elif selected.parts[0].first > 1:
        before = selected.parts[0].first - 1
        note += f" Use end_line={before} for the lines before."
        truncation["next"] = {"tool": "read_file", "args": {"path": file.path, "end_line": before, **options}}
    if limited and not file.path.startswith(overflow.directory):
        path = overflow.save(_remainder(lines, selected, window), file.path.rpartition("/")[2])
        note += f" Remainder saved to {path}."
        truncation["remainder"] = path
    meta["truncation"] = truncation
    return note + "]"


def _remainder(lines: Lines, selected: Window, window: dict[str, Any]) -> str:
    """Return the text that the limits cut off, starting exactly where the window ended."""
    from hilt.output.overflow import split_long_lines

    first = selected.parts[0].first
    if selected.clipped:
        size = len(selected.parts[0].lines[0])
        line = _decoded(lines.take(first, first))
        if window["truncate"] == "tail":
            content = line.removesuffix("\n")
            content = content.removesuffix("\r") if window["line_numbers"] else content
            return split_long_lines(_decoded(lines.take(window["first"], first - 1)) + content[: len(content) - size])
        return split_long_lines(line[size:] + _decoded(lines.take(first + 1, lines.total)))
    if len(selected.parts) == 2:
        return split_long_lines(_decoded(lines.take(selected.parts[0].last + 1, selected.parts[1].first - 1)))
    if first > window["first"]:
        return split_long_lines(_decoded(lines.take(window["first"], first - 1)))
    return split_long_lines(_decoded(lines.take(selected.last + 1, lines.total)))
