"""Characters that a person does not see: removed before a model reads a text, or made visible before a person does."""

from __future__ import annotations

import re
import unicodedata

from hilt.formats.hidden_characters import HIDDEN, HIGH, SPACES

# a JSON Schema pattern for text with a visible character; such patterns have no escapes above U+FFFF
SOMETHING_VISIBLE = rf"[^\s{HIDDEN}]"
_IN_ASCII = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # fast path for most pages
# compiled when first used: most calls need none of them
_REMOVED = rf"[{HIDDEN}{HIGH}\ud800-\udfff]"
_BREAKS = r"\r\n?|[\x0b\x0c\u2028\u2029]"
_BLANK_LINES = r"\n(?:[ \t\xa0]*\n){2,}"
_SHOWN = rf"[{HIDDEN}{HIGH}{SPACES}\ud800-\udfff]"
_MARKS = r"[^\x00-\u02ff]{5,}"  # may contain too many combining marks
_MARKS_MAX = 4  # on one character: more would cover the lines around it
_TYPOGRAPHIC = "\xa0\u2009\u202f\u3000"  # spaces in ordinary French, Chinese or Japanese text
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"  # they shape Persian and Indic words, and emoji


def visible(text: str) -> str:
    """Remove control and invisible characters; normalize line breaks, and collapse empty lines."""
    if not text.isascii() or _IN_ASCII.search(text):
        text = re.sub(_REMOVED, _of_emoji, re.sub(_BREAKS, "\n", text))
    return re.sub(_BLANK_LINES, "\n\n", text)


def is_hidden(character: str) -> bool:
    """Whether a character is invisible, or is not a character of this Unicode version."""
    return re.match(_REMOVED, character) is not None or unicodedata.category(character) in ("Co", "Cn")


def shown(text: str, *, exact: bool) -> str:
    """Return a text with invisible characters as pictures or code points; newline and tab stay.

    Unless it must be `exact`, as before an approval, what ordinary text of any language has stays too.
    """
    if text.isascii():
        return _IN_ASCII.sub(_picture, text)
    text = re.sub(_MARKS, _limited, text)
    if exact:
        text = re.sub(_SHOWN, _picture, text)
        return text if text.isprintable() else "".join(char if _is_plain(char) else _code(char) for char in text)
    return re.sub(_SHOWN, _ordinary, text)


def revealed(text: str) -> str:
    """Return text for a person who decides on it: tabs expanded, every hidden character visible; newlines stay."""
    return shown(text.expandtabs(4), exact=True)


def one_line(text: str) -> str:
    """Return text on one line, with control and invisible characters made visible."""
    return revealed(text).replace("\n", "␊")


def decoded(content: bytes) -> str:
    """Decode a file to show it; bytes that are not UTF-8 are escaped."""
    return content.decode("utf-8", "backslashreplace")


def _of_emoji(match: re.Match[str]) -> str:
    """Return what shapes an emoji: one selector after a symbol or before a keycap, one joiner of two symbols."""
    character, (start, end) = match[0], match.span()
    if character not in ("\ufe0f", "\u200d"):
        return ""
    before, after = match.string[max(start - 2, 0) : start].removesuffix("\ufe0f"), match.string[end : end + 1]
    if character == "\ufe0f":
        return character if _is_symbol(match.string[start - 1 : start]) or after == "\u20e3" else ""
    return character if _is_symbol(before[-1:]) and _is_symbol(after) else ""


def _is_symbol(character: str) -> bool:
    return bool(character) and unicodedata.category(character) in ("So", "Sk", "Sm")  # Sk: skin tones


def _is_plain(character: str) -> bool:
    return character.isprintable() or character in "\n\t"


def _ordinary(match: re.Match[str]) -> str:
    """Return a typographic space, or a joiner between characters that it can join, as it is."""
    character, (start, end) = match[0], match.span()
    if character in _TYPOGRAPHIC:
        return character
    if character in _JOINERS:
        before, after = match.string[start - 1 : start], match.string[end : end + 1]
        joins = before == "\ufe0f" or (before > "\x7f" and not re.match(_SHOWN, before))
        if character >= "\ufe00":
            joins = (before > "\x7f" and not re.match(_SHOWN, before)) or after == "\u20e3"
        elif joins:
            joins = after > "\x7f" and not re.match(_SHOWN, after)
        if joins:
            return character
    return _picture(match)


def _picture(match: re.Match[str]) -> str:
    character = match[0]
    if character < " ":
        return chr(0x2400 + ord(character))
    # lone surrogates cannot be encoded for any output
    return "␡" if character == "\x7f" else "\ufffd" if "\ud800" <= character <= "\udfff" else _code(character)


def _code(character: str) -> str:
    return f"<U+{ord(character):04X}>"


def _limited(match: re.Match[str]) -> str:
    pieces, marks = [], 0
    for character in match[0]:
        marks = marks + 1 if unicodedata.category(character).startswith("M") else 0
        pieces.append(character if marks <= _MARKS_MAX else _code(character))
    return "".join(pieces)
