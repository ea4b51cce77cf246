"""Decode web content: by the charset of the header, of the document, or by detection."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

# label -> the encoding that browsers use for it
_ALIASES = {
    **dict.fromkeys(("iso-8859-1", "latin1", "latin-1", "ascii", "us-ascii", "iso8859-1", "iso_8859-1"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk", "x-gbk", "gb_2312-80"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "korean"), "cp949"),
    **dict.fromkeys(("utf8", "unicode-1-1-utf-8"), "utf-8"),
    "big5": "big5hkscs",
    "macintosh": "mac-roman",
    "utf-16": "utf-16-le",
    "windows-874": "cp874",
}
# an allowlist: some of Python's codecs are not charsets
_SUPPORTED = re.compile(
    r"utf-8|utf-16-?[lb]e|gb18030|big5hkscs|cp932|cp949|cp874|cp866|ibm866|mac-roman|euc-jp|iso-2022-jp"
    r"|koi8-[ru]|(?:windows-|cp)125[0-8]|iso-8859-\d{1,2}"
)
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DECLARED = re.compile(
    rb"""<meta[^>]{0,300}?charset\s*=\s*["']?\s*([\w.:-]{1,40})|<\?xml[^>]{0,100}?encoding=["']([\w.-]{1,40})"""
)
_HEAD_BYTES = 4096


def decode(data: bytes, declared: str, detect: Callable[[bytes], str]) -> str:
    """Return the text; `declared` is the charset of the header, `detect` guesses if nothing declares one."""
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(codec, "replace")
    head = _DECLARED.search(data[:_HEAD_BYTES].lower())
    document_charset = (head[1] or head[2]).decode() if head else ""
    if document_charset.startswith("utf-16"):
        document_charset = "utf-8"  # the declaration was readable as ASCII, so it is wrong
    codec = _codec(declared) or _codec(document_charset)
    if codec and (codec != "utf-8" or _is_utf_8(data)):
        return data.decode(codec, "replace")
    if _is_utf_8(data):
        return data.decode("utf-8", "replace")
    return data.decode(detect(data), "replace")


def _codec(name: str) -> str:
    name = name.strip().lower()
    name = _ALIASES.get(name, name)
    try:
        return codecs.lookup(name).name if _SUPPORTED.fullmatch(name) else ""
    except LookupError:
        return ""


def _is_utf_8(data: bytes) -> bool:
    """Whether data is UTF-8; the last character may be incomplete."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True
