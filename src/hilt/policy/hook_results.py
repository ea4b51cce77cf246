"""What the hooks around a call come to."""

from __future__ import annotations

from typing import Any, NamedTuple

from hilt.call import Output
from hilt.errors import ToolError
from hilt.policy.decision import Vote


class HookRun(NamedTuple):
    """The record of one hook: the decision or "changed" or "ok" or "failed", and why."""

    name: str
    event: str
    outcome: str
    milliseconds: float
    reason: str = ""


class BeforeCall(NamedTuple):
    """What the hooks before a call came to. `skipped` is the answer of a call that is not to run."""

    args: dict[str, Any]
    changed: bool = False
    vote: Vote | None = None
    context: str = ""
    skipped: Output | None = None
    ran: tuple[HookRun, ...] = ()


class AfterCall(NamedTuple):
    """What the hooks after a call came to: a new result, or the error that is answered instead of it.

    Of a call that failed, the text of `result` is the new message. `stop` is why the agent should end here.
    """

    result: Output | None = None
    error: ToolError | None = None
    context: str = ""
    stop: str | None = None
    ran: tuple[HookRun, ...] = ()
