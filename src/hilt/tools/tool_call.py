"""Call a tool that tool_search found."""

from typing import Any

from hilt.call import Output
from hilt.declaration import Traits, tool
from hilt.errors import ToolError


@tool(effects="read write execute network control", traits=Traits(finds_tools=True, forwards=True))
def tool_call(name: str, arguments: dict[str, Any] | None = None) -> Output:
    """Call a tool by name. tool_search returns the names and parameters.

    The call is validated, authorized and answered as if the tool had been called directly.

    Args:
        name: Name of the tool.
        arguments: The tool's own arguments, by name.
    """
    # the pipeline replaces this tool by the named one, so this never runs
    raise ToolError("invalid_request", f"{name} cannot be called from here.")
