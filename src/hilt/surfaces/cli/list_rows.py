"""Rows of a list for a person: cut to the width of the terminal, and complete elsewhere."""

from __future__ import annotations

import sys
from shutil import get_terminal_size

from hilt.output import terminal


def list_row(text: str) -> str:
    """Return one line of a list, with its newline."""
    line = terminal.inert(text).replace("\n", " ")
    return (terminal._clip(line, get_terminal_size().columns) if sys.stdout.isatty() else line) + "\n"
