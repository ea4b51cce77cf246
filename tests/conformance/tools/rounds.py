"""Tools that need input from the client before they can return."""

from __future__ import annotations

from typing import Any

from hilt import tool


@tool(effects="read")
def test_input_required_result_elicitation(ctx) -> str:
    """Greet the user by name."""
    form = ctx.inputs({"user_name": _form("What is your name?", name="string")})["user_name"]
    return f"Hello, {form['content']['name']}!"


@tool(effects="read")
def test_streaming_elicitation(ctx) -> str:
    """Greet the user by name, and report progress."""
    ctx.progress(1, 2)
    form = ctx.inputs({"user_name": _form("What is your name?", name="string")})["user_name"]
    return f"Hello, {form['content']['name']}!"


@tool(effects="read")
def test_input_required_result_sampling(ctx) -> str:
    """Have the client's model name a capital."""
    answer = ctx.inputs({"capital_question": _question("What is the capital of France?", 100)})["capital_question"]
    return str(answer["content"]["text"])


@tool(effects="read")
def test_input_required_result_list_roots(ctx) -> str:
    """Name the folders of the client."""
    answer = ctx.inputs({"client_roots": {"method": "roots/list", "params": {}}})["client_roots"]
    return ", ".join(root["uri"] for root in answer["roots"])


@tool(effects="read")
def test_input_required_result_request_state(ctx) -> str:
    """Have the user confirm."""
    ctx.inputs({"confirm": _form("Please confirm", ok="boolean")})
    return "state-ok"


@tool(effects="read")
def test_input_required_result_tampered_state(ctx) -> str:
    """Have the user confirm."""
    ctx.inputs({"confirm": _form("Please confirm", ok="boolean")})
    return "confirmed"


@tool(effects="read")
def test_input_required_result_multiple_inputs(ctx) -> str:
    """Ask three things at once."""
    answers = ctx.inputs(
        {
            "user_name": _form("What is your name?", name="string"),
            "greeting": _question("Generate a greeting", 50),
            "client_roots": {"method": "roots/list", "params": {}},
        }
    )
    return f"{answers['greeting']['content']['text']}, {answers['user_name']['content']['name']}"


@tool(effects="read")
def test_input_required_result_multi_round(ctx) -> str:
    """Ask one thing after the other."""
    name = ctx.inputs({"step1": _form("Step 1: What is your name?", name="string")})["step1"]
    color = ctx.inputs({"step2": _form("Step 2: What is your favorite color?", color="string")})["step2"]
    return f"{name['content']['name']} likes {color['content']['color']}"


@tool(effects="read")
def test_input_required_result_capabilities(ctx) -> str:
    """Return which requests the client supports."""
    answers = ctx.inputs({"form": _form("What is your name?", name="string"), "model": _question("Say hello", 50)})
    return ", ".join(name for name, answer in answers.items() if answer is not None)


@tool(effects="read")
def test_missing_capability(ctx) -> str:
    """Need the client's model."""
    ctx.require("sampling")
    return "The client has a model."


def _form(message: str, **fields: str) -> dict[str, Any]:
    properties = {name: {"type": kind} for name, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def _question(text: str, tokens: int) -> dict[str, Any]:
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}}
