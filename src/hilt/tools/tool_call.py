"""Call a tool that tool_search found."""

from typing import Any

from hilt.call import Output
from hilt.declaration import Traits, tool
from hilt.errors import ToolError


@tool(effects="read write execute network control", traits=Traits(finds=True, forwards=True))
def tool_call(name: str, arguments: dict[str, Any] | None = None) -> Output:
    """Call a tool by name. tool_search gives the names, and the parameters that each takes.

    The call is the tool's own: checked, decided on and answered as if it had been called directly.

    Args:
        name: Name of the tool.
        arguments: The tool's own arguments, by name.
    """
    # the pipeline puts the tool that is meant in the place of this one
    raise ToolError("invalid_request", f"{name} cannot be called from here.")
