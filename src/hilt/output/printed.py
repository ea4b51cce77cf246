"""Program output for a model: without terminal sequences, truncated to a limit."""

from __future__ import annotations

import re
from itertools import groupby

from hilt.output.overflow import OMITTED, location_note

SHOWN_CHARACTERS = 50_000
HEAD_CHARACTERS = 10_000  # of long output; the remaining characters show its end, where errors are
REPEATS = 3  # number of identical lines from which `compact` collapses them

_NOTE_CHARACTERS = 500
_CONTINUATIONS = bytes(range(0x80, 0xC0))

# an unterminated sequence matches only its first characters, so that it hides no text
SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]{0,4096}\x1b\\"
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = dict.fromkeys(code for code in (*range(32), *range(127, 160)) if code not in b"\t\n")


def plain(text: str) -> str:
    """Return the text without terminal sequences and control characters; line breaks are kept."""
    return SEQUENCES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)


def full_text(data: bytes) -> str | None:
    """Return all of the output as text, or None if it is too long."""
    if len(data) <= 4 * SHOWN_CHARACTERS:
        text = data.decode("utf-8", "replace")
        if len(text) <= SHOWN_CHARACTERS:
            return text
    return None


def excerpt(first: bytes, last: bytes, size: int, path: str | None) -> tuple[str, str]:
    """Return the beginning and the end of long output, and a note that names the file with all of it."""
    head = first[: 4 * HEAD_CHARACTERS].decode("utf-8", "replace")[:HEAD_CHARACTERS]
    cut = head.rfind("\n", len(head) // 2)
    head = head if cut < 0 else head[:cut]
    # the tail may start inside a character
    tail = last[-4 * SHOWN_CHARACTERS :].lstrip(_CONTINUATIONS).decode("utf-8", "replace")
    tail = tail[HEAD_CHARACTERS + _NOTE_CHARACTERS - SHOWN_CHARACTERS :]
    tail = tail[tail.find("\n", 0, len(tail) // 2) + 1 :]
    note = f"[{size} bytes; showing only the beginning and the end. {location_note(path)}]"
    return f"{head}\n{OMITTED}\n{tail}".removesuffix("\n"), note


def compact(text: str) -> str:
    """Return the text with repeated lines collapsed to one line with a count; blank lines without a count."""
    lines: list[str] = []
    for line, group in groupby(text.split("\n")):
        count = sum(1 for _ in group)
        if count < REPEATS:
            lines += [line] * count
        elif line.strip():
            lines.append(f"{line} [the same line {count} times]")
        else:
            lines.append(line)
    return "\n".join(lines)
