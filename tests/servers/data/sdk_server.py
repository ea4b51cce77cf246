"""An MCP server on the SDK, which supports every revision.

    sdk_server.py stdio | http PORT | sse PORT
"""

from __future__ import annotations

import sys
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

server = MCPServer("sdk")
FORM: dict[str, Any] = {"type": "object", "properties": {"color": {"type": "string"}}}


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def grow(ctx: Context[Any]) -> str:
    """Add a tool."""
    server.add_tool(more)
    await ctx.notify_tools_changed()
    return "grown"


def more() -> str:
    """Do more."""
    return "more"


@server.tool()
async def ask(ctx: Context[Any]) -> str | InputRequiredResult:
    """Ask for a color."""
    answers = ctx.input_responses
    if not answers:
        form = ElicitRequestFormParams(message="Which color?", requested_schema=FORM)
        return InputRequiredResult(input_requests={"color": ElicitRequest(params=form)}, request_state="asked")
    answer = answers["color"]
    return f"{answer.action} {answer.content}" if isinstance(answer, ElicitResult) else "no answer"


@server.tool()
async def count(ctx: Context[Any]) -> str:
    """Count to three."""
    for step in (1, 2, 3):
        await ctx.report_progress(step, 3, f"step {step}")
    return "three"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    elif sys.argv[1] == "sse":
        server.run("sse", port=int(sys.argv[2]))
    else:
        server.run("streamable-http", port=int(sys.argv[2]))
