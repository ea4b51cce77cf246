"""Decodes and encodes files, and changes parts of a file without changing any other byte."""

import codecs
import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.text.lines import line_number


class Encoding(NamedTuple):
    """The encoding of a file: a Python codec and the byte order mark it starts with."""

    name: str
    bom: bytes = b""


class Span(NamedTuple):
    """Characters start to end of a decoded text, and their replacement."""

    start: int
    end: int
    new: str


UTF8 = Encoding("utf-8")

_MARKED_UTF8 = Encoding("utf-8", codecs.BOM_UTF8)
# UTF-32 before UTF-16: the little-endian mark of UTF-32 begins with that of UTF-16
_MARKS = (
    _MARKED_UTF8,
    Encoding("utf-32-le", codecs.BOM_UTF32_LE),
    Encoding("utf-32-be", codecs.BOM_UTF32_BE),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE),
)

# the detector returns names from the WHATWG standard; these are the Python codecs for them
_CODECS = {
    "Shift_JIS": "cp932",
    "EUC-KR": "cp949",
    "GBK": "gb18030",
    "Big5": "big5hkscs",
    "windows-874": "cp874",
    "ISO-8859-8-I": "iso8859-8",
}

_SNIFF_BYTES = 512
_SAMPLE_BYTES = 1 << 17  # the detector reads about 10 MB a second; 128 KB from the first non-ASCII byte on are enough
_SURROGATE = "[\ud800-\udfff]"  # compiled when a file needs it


def is_binary(head: bytes) -> bool:
    """Whether a file that starts with these bytes is binary: it has an early NUL, and no UTF-16 or UTF-32 mark."""
    return b"\0" in head[:_SNIFF_BYTES] and not head.startswith(
        tuple(mark.bom for mark in _MARKS if mark != _MARKED_UTF8)
    )


def detect(data: bytes) -> Encoding:
    """Return an encoding that decodes every byte of the data; deterministic."""
    for mark in _MARKS:
        if data.startswith(mark.bom) and (mark == _MARKED_UTF8 or _decodes(data[len(mark.bom) :], mark.name)):
            return mark
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return Encoding("latin-1")  # truncated inside a character: latin-1 preserves every byte
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as failure:
        if not _is_damaged_utf8(data):
            return Encoding(_detect_legacy(data, failure.start))
    return UTF8


def decode(data: bytes) -> tuple[str, Encoding]:
    """Return the text without its byte order mark, with its line endings unchanged, and its encoding.

    Invalid bytes in a file that is otherwise UTF-8 become lone surrogates; encode and splice convert them back.
    """
    encoding = detect(data)
    return data[len(encoding.bom) :].decode(encoding.name, _errors(encoding.name)), encoding


def encode(text: str, encoding: Encoding) -> bytes:
    """Return the bytes of a whole file; raise for a character that the encoding lacks."""
    try:
        return encoding.bom + text.encode(encoding.name, _errors(encoding.name))
    except UnicodeEncodeError as failure:
        raise _unencodable(text, failure.start, encoding.name, first_line=1) from None


def splice(data: bytes, text: str, encoding: Encoding, spans: Sequence[Span]) -> bytes:
    """Return the data with the spans replaced and all other bytes unchanged; text and encoding come from decode."""
    ordered = sorted(spans, key=lambda span: (span.start, span.end))
    for left, right in pairwise(ordered):
        if right.start < left.end:
            lines = [line_number(text, left.start), line_number(text, right.start)]
            raise ToolError("edit_overlap", f"Two changes, on lines {lines[0]} and {lines[1]}, overlap.", lines=lines)
    replacements = [_encode_new(span, text, encoding.name) for span in ordered]
    cuts = [offset for span in ordered for offset in (span.start, span.end)]
    if encoding.name.startswith("utf-"):
        return _join(data, [at + len(encoding.bom) for at in _byte_offsets(text, cuts, encoding.name)], replacements)
    return _join(data, _legacy_offsets(data, text, cuts, encoding.name), replacements)


def visible(text: str) -> str:
    """Return the text for display, with U+FFFD for invalid bytes."""
    return text if text.isascii() else re.sub(_SURROGATE, "\ufffd", text)


def _errors(codec: str) -> str:
    if codec == "utf-8":
        return "surrogateescape"
    return "surrogatepass" if codec.startswith("utf-") else "strict"


def _decodes(data: bytes, codec: str) -> bool:
    try:
        data.decode(codec, _errors(codec))
    except (UnicodeDecodeError, LookupError):
        return False
    return True


def _is_damaged_utf8(data: bytes) -> bool:
    """Whether there are at least two multi-byte characters per stray byte; legacy text hardly ever has any."""
    valid = len(data.decode("utf-8", "ignore"))
    stray = len(data.decode("utf-8", "surrogateescape")) - valid
    multi_byte = valid - len(data.decode("ascii", "ignore"))
    return multi_byte >= 2 * stray


def _detect_legacy(data: bytes, first_invalid: int) -> str:
    """Return the codec of data that is not UTF-8; `first_invalid` is the offset of the first invalid byte."""
    from chardetng_py import EncodingDetector  # type: ignore[import-untyped]

    start = data.rfind(b"\n", 0, first_invalid) + 1
    for sample in (data[start : start + _SAMPLE_BYTES], data):
        detector = EncodingDetector()
        detector.feed(sample, last=sample is data)
        guess: str = detector.guess(tld=None, allow_utf8=False)
        codec = _CODECS.get(guess, guess).lower().replace("windows-", "cp")
        if _decodes(data, codec):
            return codec
    return "cp1252" if _decodes(data, "cp1252") else "latin-1"


def _encode_new(span: Span, text: str, codec: str) -> bytes:
    """Encode the new text of a span; a lone surrogate is valid only if the file has it too."""
    foreign = {surrogate for surrogate in set(re.findall(_SURROGATE, span.new)) if surrogate not in text}
    try:
        if not foreign:
            return span.new.encode(codec, _errors(codec))
        at = next(index for index, character in enumerate(span.new) if character in foreign)
    except UnicodeEncodeError as failure:
        at = failure.start
    raise _unencodable(span.new, at, codec, line_number(text, span.start))


def _unencodable(text: str, at: int, codec: str, first_line: int) -> ToolError:
    code = f"U+{ord(text[at]):04X}"
    line = first_line - 1 + line_number(text, at)
    return ToolError(
        "encoding_error",
        f"The file is {codec}, which cannot encode {code} {visible(text[at])!r} (line {line}).",
        suggestion=f"Use only characters of {codec}, or ask the user whether to convert the file to UTF-8.",
        character=code,
        encoding=codec,
        line=line,
    )


def _byte_offsets(text: str, cuts: Sequence[int], codec: str) -> list[int]:
    """Return the byte offsets of ascending character offsets, for a codec with one encoding per character."""
    if codec == "utf-8" and text.isascii():
        return list(cuts)
    offsets: list[int] = []
    offset = previous = 0
    for cut in cuts:
        offset += len(text[previous:cut].encode(codec, _errors(codec)))
        previous = cut
        offsets.append(offset)
    return offsets


def _legacy_offsets(data: bytes, text: str, cuts: Sequence[int], codec: str) -> list[int]:
    """Return the byte offsets of ascending character offsets, verified by decoding the bytes between them."""
    if len(data) == len(text):
        return list(cuts)
    offsets = _byte_offsets(text, cuts, codec)
    if not _matches(data, offsets, text, cuts, codec):
        # a character may have a second, longer encoding: count characters instead of bytes
        sizes = range(len(data) + 1)
        offsets = [bisect_left(sizes, cut, key=lambda size: len(data[:size].decode(codec, "ignore"))) for cut in cuts]
        if not _matches(data, offsets, text, cuts, codec):
            raise ToolError(
                "encoding_error",
                f"The change would also alter bytes around it, because the file is {codec}.",
                suggestion="Ask the user whether to convert the file to UTF-8, then write the whole file.",
                encoding=codec,
            )
    return offsets


def _matches(data: bytes, offsets: Sequence[int], text: str, cuts: Sequence[int], codec: str) -> bool:
    """Whether the bytes between the offsets decode to exactly the characters between the cuts."""
    sizes, places = [0, *offsets, len(data)], [0, *cuts, len(text)]
    return all(
        data[sizes[i] : sizes[i + 1]].decode(codec, "replace") == text[places[i] : places[i + 1]]
        for i in range(len(places) - 1)
    )


def _join(data: bytes, offsets: Sequence[int], replacements: Sequence[bytes]) -> bytes:
    """Replace data[offsets[0]:offsets[1]], data[offsets[2]:offsets[3]] and so on with the new bytes."""
    # memory views, so that a large file is copied only once
    view = memoryview(data)
    pieces: list[bytes | memoryview] = []
    position = 0
    for index, new in enumerate(replacements):
        pieces += (view[position : offsets[2 * index]], new)
        position = offsets[2 * index + 1]
    pieces.append(view[position:])
    return b"".join(pieces)
