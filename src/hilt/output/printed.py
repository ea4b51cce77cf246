"""What programs print, as a model can read it: without what only a terminal understands, and not too long."""

from __future__ import annotations

import re
from itertools import groupby

from hilt.output.overflow import OMITTED

SHOWN_CHARACTERS = 50_000
HEAD_CHARACTERS = 10_000  # of these, when not all can be shown: what went wrong is at the end
REPEATS = 3  # lines that are the same from which on `compact` makes one of them

_NOTE_CHARACTERS = 500
_CONTINUATIONS = bytes(range(0x80, 0xC0))

# a sequence that nobody finishes hides nothing but its first characters
SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]{0,4096}\x1b\\"
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = dict.fromkeys(code for code in (*range(32), *range(127, 160)) if code not in b"\t\n")


def plain(text: str) -> str:
    """Return the text without what only a terminal understands: sequences and control characters; lines stay."""
    return SEQUENCES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)


def fits(data: bytes) -> str | None:
    """Return all of the output as text, when that is not too long."""
    if len(data) <= 4 * SHOWN_CHARACTERS:
        text = data.decode("utf-8", "replace")
        if len(text) <= SHOWN_CHARACTERS:
            return text
    return None


def excerpt(first: bytes, last: bytes, size: int, path: str | None) -> tuple[str, str]:
    """Return the beginning and the end of output that is too long, and a note for the last line: where all of it is."""
    head = first[: 4 * HEAD_CHARACTERS].decode("utf-8", "replace")[:HEAD_CHARACTERS]
    cut = head.rfind("\n", len(head) // 2)
    head = head if cut < 0 else head[:cut]
    # the part may begin inside a character
    tail = last[-4 * SHOWN_CHARACTERS :].lstrip(_CONTINUATIONS).decode("utf-8", "replace")
    tail = tail[HEAD_CHARACTERS + _NOTE_CHARACTERS - SHOWN_CHARACTERS :]
    tail = tail[tail.find("\n", 0, len(tail) // 2) + 1 :]
    note = f"[{size} bytes; only the beginning and the end are shown. {whereabouts(path)}]"
    return f"{head}\n{OMITTED}\n{tail}".removesuffix("\n"), note


def whereabouts(path: str | None) -> str:
    """Say where the whole of an output is."""
    if path is None:
        return "The rest could not be kept: the state directory cannot be written."
    return f"All of it is in {path}; read_file opens it."


def compact(text: str) -> str:
    """Return the text with lines that repeat made one, which says how often; blank lines too."""
    lines: list[str] = []
    for line, same in groupby(text.split("\n")):
        count = sum(1 for _ in same)
        if count < REPEATS:
            lines += [line] * count
        elif line.strip():
            lines.append(f"{line} [the same line {count} times]")
        else:
            lines.append(line)
    return "\n".join(lines)
