"""Lines and positions in a text. As in grep, a line ends only at a line feed (which includes CRLF)."""

from __future__ import annotations

from collections.abc import Iterator


def split_lines(text: str) -> list[str]:
    """Return the lines with their endings; only the last may lack one, and an empty text has no lines.

    A carriage return alone, a form feed and U+2028 are ordinary characters, so that line numbers agree with grep.
    """
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    return lines


def strip_ending(line: str) -> str:
    """Return the line without its LF or CRLF."""
    return line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line


def count_lines(text: str) -> int:
    """Return how many lines the text has; a last line without an ending counts."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


def line_number(text: str, offset: int) -> int:
    """Return the number, from 1, of the line that contains the character at the offset."""
    return text.count("\n", 0, offset) + 1


def occurrences(text: str, part: str) -> Iterator[int]:
    """Yield the offsets of the part, including overlapping ones."""
    offset = text.find(part)
    while offset >= 0:
        yield offset
        offset = text.find(part, offset + 1)


def dominant_ending(text: str) -> str:
    """Return the most common line ending; CR only if there is no LF (classic Mac), LF by default."""
    feeds = text.count("\n")
    if not feeds:
        return "\r" if "\r" in text else "\n"
    return "\r\n" if text.count("\r\n") * 2 > feeds else "\n"
