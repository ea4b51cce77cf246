"""Tools that add a tool or a prompt."""

from __future__ import annotations

import os

from hilt import tool

MADE = '''
from hilt import tool

@tool(effects="read")
def made_%d() -> str:
    """Return a greeting."""
    return "here"
'''


@tool(effects="write")
def test_trigger_tool_change(ctx) -> str:
    """Make another tool."""
    folder = os.path.join(ctx.root, "made")
    number = len(os.listdir(folder))
    with open(os.path.join(folder, f"made_{number}.py"), "w", encoding="utf-8") as file:
        file.write(MADE % number)
    return f"made_{number} is there."


@tool(effects="write")
def test_trigger_prompt_change(ctx) -> str:
    """Make another prompt."""
    with open(os.path.join(ctx.root, "prompts"), "a", encoding="utf-8") as file:
        file.write("another\n")
    return "There is another prompt."
