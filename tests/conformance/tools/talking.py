"""Tools that send messages and requests to the client while they run."""

from __future__ import annotations

import time
from typing import Any

from hilt import ToolError, tool

MOMENT = 0.05


@tool(effects="read")
def test_tool_with_logging(ctx) -> str:
    """Log three messages."""
    ctx.log("info", "Tool execution started")
    time.sleep(MOMENT)
    ctx.log("info", "Tool processing data")
    time.sleep(MOMENT)
    ctx.log("info", "Tool execution completed")
    return "Logged three messages."


@tool(effects="read")
def test_logging_tool(ctx) -> str:
    """Log a message."""
    ctx.log("info", "Something happened")
    return "Logged one message."


@tool(effects="read")
def test_tool_with_progress(ctx) -> str:
    """Report progress."""
    for done in (0, 50, 100):
        ctx.progress(done, 100)
        time.sleep(MOMENT)
    return "All done."


@tool(effects="read")
def test_sampling(ctx, prompt: str) -> str:
    """Have the client's model answer.

    Args:
        prompt: The question.
    """
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    answer = ctx.sample({"messages": [message], "maxTokens": 100})
    if answer is None:
        raise ToolError("no_one_to_ask", "The client has no model to ask.")
    return f"LLM response: {answer['content']['text']}"


@tool(effects="read")
def test_elicitation(ctx, message: str) -> str:
    """Have the user fill in a form.

    Args:
        message: The text of the form.
    """
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return "User response: " + _filled(ctx, message, fields, required=["username", "email"])


@tool(effects="read")
def test_elicitation_sep1034_defaults(ctx) -> str:
    """Have the user fill in a form with defaults."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return "Elicitation completed: " + _filled(ctx, "Who?", fields)


@tool(effects="read")
def test_elicitation_sep1330_enums(ctx) -> str:
    """Have the user choose from every kind of enum."""
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": title} for n, title in enumerate(("First", "Second", "Third"), 1)]
    named = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", **named},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return "Elicitation completed: " + _filled(ctx, "Which?", fields)


def _filled(ctx: Any, message: str, fields: dict[str, Any], required: list[str] | None = None) -> str:
    schema = {"type": "object", "properties": fields, **({"required": required} if required else {})}
    form = ctx.elicit(message, schema)
    if form is None:
        raise ToolError("no_one_to_ask", "The client cannot ask its user.")
    return f"action={form['action']}, content={form.get('content')}"
