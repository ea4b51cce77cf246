"""Output of commands: JSON for programs; lines, rows, wrapped paragraphs and local times for people."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from hilt.desk.encoding import plain
from hilt.formats.invisible import one_line
from hilt.output import terminal

WIDTH = 80
_KEEPS_LINES = (" ", "\t", "- ", "* ", "|", "```")  # beginnings of lines that are not prose


def print_json(data: Any, indent: int | None = None) -> int:
    """Print a value of the desk as JSON, by default on one line, and return the exit status of success."""
    sys.stdout.write(json.dumps(plain(data), ensure_ascii=False, indent=indent) + "\n")
    return 0


def print_lines(lines: Iterable[str]) -> None:
    """Print each text as one line, with control and invisible characters made visible."""
    sys.stdout.write("".join(terminal.inert(one_line(line)) + "\n" for line in lines))


def local_time(nanoseconds: int) -> str:
    """Return a time to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(nanoseconds // 1_000_000_000))


def list_row(text: str) -> str:
    """Return one line of a list, with its newline; complete if the output is not a terminal."""
    line = terminal.inert(text).replace("\n", " ")
    return (terminal.clip(line, get_terminal_size().columns) if sys.stdout.isatty() else line) + "\n"


def fitted(text: str, width: int) -> list[str]:
    """Return text as lines of this width at most, without breaking words."""
    return wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def wrapped(text: str, indent: int = 0) -> str:
    """Return text wrapped at 80 columns, without a final newline; all lines but the first are indented.

    The lines of a paragraph are joined, unless it is a list, a table or code.
    """
    lines: list[str] = []
    for paragraph in terminal.inert(text).strip("\n").split("\n\n"):
        parts = paragraph.split("\n")
        is_prose = not any(part.startswith(_KEEPS_LINES) for part in parts)
        for part in [" ".join(parts)] if is_prose else parts:
            lines += fitted(part, WIDTH - indent)
        lines.append("")
    return "\n".join(f"{'':{indent}}{line}" if number and line else line for number, line in enumerate(lines[:-1]))
