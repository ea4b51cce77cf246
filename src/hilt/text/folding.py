"""Folds characters that often differ between a file and a model's copy: quotes, dashes and spaces."""

from __future__ import annotations

import re

BLANKS = " \t\f\v"
STRAY = "\ufffd"

_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b"
_DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f"

# one character for one, so that offsets in the folded text are valid in the original text
_FOLDED = {ord(character): " " for character in _SPACES}
_FOLDED |= {ord(character): "-" for character in _DASHES}
_FOLDED |= {ord(character): "'" for character in _SINGLE_QUOTES}
_FOLDED |= {ord(character): '"' for character in _DOUBLE_QUOTES}
# invalid bytes are shown as U+FFFD, which a model then sends back
_FOLDED |= dict.fromkeys(range(0xDC80, 0xDD00), STRAY)

_FOLDABLE = "[" + "".join(map(chr, _FOLDED)) + "]"


def fold(text: str) -> str:
    """Return the text with typographic quotes, dashes and spaces replaced by plain ones; the length is unchanged."""
    if text.isascii() or re.search(_FOLDABLE, text) is None:
        return text
    return text.translate(_FOLDED)
