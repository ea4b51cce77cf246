"""Tools whose calls become tasks because they take long."""

from __future__ import annotations

import time

from hilt import tool

LONG = 0.8  # longer than a call may take before it becomes a task


@tool(effects="read")
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@tool(effects="read", timeout=120)
def slow_compute(ctx, seconds: float, label: str = "") -> str:
    """Take this long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.05)
    return f"done: {label}"


@tool(effects="read")
def failing_job(ctx) -> str:
    """Fail, for clients that support tasks."""
    ctx.require("tasks")
    time.sleep(LONG)
    raise ValueError("the job failed")


@tool(effects="read")
def protocol_error_job(ctx) -> str:
    """Require, while running, a capability that no client of the suite has."""
    time.sleep(LONG)
    ctx.require("roots")
    return "done"


@tool(effects="read")
def confirm_delete(ctx, filename: str) -> str:
    """Ask while running."""
    time.sleep(LONG)
    answer = ctx.inputs({"confirm": _form(f"Delete {filename}?", confirm="boolean")})["confirm"]
    return f"{filename}: {answer['action']}"


@tool(effects="read")
def multi_input(ctx) -> str:
    """Ask two things at once while running."""
    time.sleep(LONG)
    answers = ctx.inputs({"first": _form("Name?", name="string"), "second": _form("Sure?", confirm="boolean")})
    return ", ".join(answer["action"] for answer in answers.values())


@tool(effects="read")
def test_tool_with_task(ctx) -> str:
    """Ask first, then run for long."""
    answer = ctx.inputs({"user_name": _form("What is your name?", name="string")})["user_name"]
    time.sleep(LONG)
    return f"Hello, {answer['content']['name']}!"


def _form(message, **fields):
    properties = {name: {"type": kind} for name, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}
