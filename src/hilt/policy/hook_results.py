"""Combined results of the hooks around a call."""

from __future__ import annotations

from typing import Any, NamedTuple

from hilt.call import Output
from hilt.errors import ToolError
from hilt.policy.decision import Vote


class HookRun(NamedTuple):
    """The record of one hook: its decision, or "changed", "ok" or "failed", and why."""

    name: str
    event: str
    outcome: str
    milliseconds: float
    reason: str = ""


class BeforeCall(NamedTuple):
    """The result of the hooks before a call. `skipped` replaces the result of a call that must not run."""

    args: dict[str, Any]
    changed: bool = False
    vote: Vote | None = None
    context: str = ""
    skipped: Output | None = None
    ran: tuple[HookRun, ...] = ()


class AfterCall(NamedTuple):
    """The result of the hooks after a call: a new result, or an error instead of it.

    For a failed call, the text of `result` is the new message. `stop` is why the agent should stop.
    """

    result: Output | None = None
    error: ToolError | None = None
    context: str = ""
    stop: str | None = None
    ran: tuple[HookRun, ...] = ()
