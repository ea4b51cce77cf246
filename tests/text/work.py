"""Counts work instead of timing it: the lines of hilt.text that a call executes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import hilt.text

_FOLDER = hilt.text.__path__[0]


def count_steps(call: Callable[..., object], *arguments: object) -> int:
    """Return how many lines of hilt.text the call executes; deterministic for a given call."""
    steps = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return count

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return count if frame.f_code.co_filename.startswith(_FOLDER) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call(*arguments)
    finally:
        sys.settrace(before)
    return steps
