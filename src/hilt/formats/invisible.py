"""Removes characters that a person does not see, before a model reads the text."""

from __future__ import annotations

import re

_CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_INVISIBLE = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\ufffe\uffff"
)
_OUTSIDE_SCHEMAS = r"\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
# a JSON Schema pattern for text with a visible character; such patterns have no escapes above U+FFFF
SOMETHING_VISIBLE = rf"[^\s{_CONTROLS}{_INVISIBLE}]"
_PATTERN = re.compile(f"[{_CONTROLS}{_INVISIBLE}{_OUTSIDE_SCHEMAS}]")
_IN_ASCII = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # fast path for most pages
_BREAKS = re.compile(r"\r\n?|[\x0b\x0c\u2028\u2029]")
_SPACES = re.compile(r"\n(?:[ \t\xa0]*\n){2,}")


def visible(text: str) -> str:
    """Remove control and invisible characters; normalize line breaks, and collapse empty lines."""
    if not text.isascii() or _IN_ASCII.search(text):
        text = _PATTERN.sub("", _BREAKS.sub("\n", text))
    return _SPACES.sub("\n\n", text)
