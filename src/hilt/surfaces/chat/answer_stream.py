"""An answer in Markdown as it streams: blocks that are complete, and the block that still grows."""

from __future__ import annotations

import re

MAX_CHARACTERS = 8_000  # of a block; a longer one is drawn in parts
_MAX_LINES = 200

_FENCE = re.compile(r"\s*(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}|~{3,})([^`\n]*)")


class AnswerStream:
    """Splits streamed Markdown between its blocks. A block ends where one that is not indented follows a blank line."""

    def __init__(self) -> None:
        self.tail = ""  # the block that still grows

    def feed(self, text: str) -> list[str]:
        """Add the next piece of the answer; return the blocks that are now complete."""
        self.tail += text
        blocks: list[str] = []
        while (end := _end_of_block(self.tail)) is not None:
            blocks.append(self.tail[:end].rstrip("\n"))
            self.tail = self.tail[end:].lstrip("\n")
        while len(self.tail) > MAX_CHARACTERS or self.tail.count("\n") > _MAX_LINES:
            blocks.append(self._cut())
        return [block for block in blocks if block.strip()]

    def finish(self) -> list[str]:
        """Return the last block and start over."""
        block, self.tail = self.tail.strip("\n"), ""
        return [block] if block.strip() else []

    def _cut(self) -> str:
        """Cut a part off a long block; a fenced block is closed here and reopened in the remainder."""
        lines = self.tail[:MAX_CHARACTERS].splitlines(keepends=True)[:_MAX_LINES]
        if len(lines) > 1 and len(self.tail) > sum(map(len, lines)):
            lines.pop()  # it may be incomplete
        part = "".join(lines)
        if len(lines) == 1:
            blank = part.rfind(" ", len(part) // 2)
            part = part[: blank + 1] if blank > 0 else part
        self.tail = self.tail[len(part) :]
        fence = _open_fence(part)
        if fence is not None:
            opening, mark = fence
            self.tail = f"{opening}\n{self.tail}"
            part = f"{part.rstrip(chr(10))}\n{mark}"
        return part.rstrip("\n")


def _end_of_block(text: str) -> int | None:
    """Return where the first block ends, or None while it may continue."""
    fence = ""
    start = 0
    previous_is_blank = False
    while start < len(text):
        newline = text.find("\n", start)
        line = text[start:] if newline < 0 else text[start:newline]
        if not fence and previous_is_blank and line and not line[0].isspace():
            return start
        if newline < 0:
            return None
        fence = _after_line(fence, line)
        previous_is_blank = not line.strip() and start > 0
        start = newline + 1
    return None


def _after_line(fence: str, line: str) -> str:
    """Return the mark of the fence that is open after a line; empty if there is none."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    mark = match.group(1)
    if not fence:
        return mark
    closes = mark[0] == fence[0] and len(mark) >= len(fence) and not match.group(2).strip()
    return "" if closes else fence


def _open_fence(text: str) -> tuple[str, str] | None:
    """Return the line that opened a fence which is still open at the end, and its mark."""
    fence = opening = ""
    for line in text.split("\n"):
        after = _after_line(fence, line)
        if after and not fence:
            opening = line
        fence = after
    return (opening, fence) if fence else None
