"""hilt: the tool runtime for AI agents."""

# No imports here: with `python -m hilt` the working directory is still on the search path, and may be hostile.

__version__ = "0.1.0"

__all__ = ["Context", "Output", "Result", "Runtime", "ToolError", "__version__", "tool"]

# Imported on first use: a one-shot call must not pay for names it does not use.
_HOMES = {
    "Context": "context",
    "Output": "call",
    "Result": "call",
    "Runtime": "runtime",
    "ToolError": "errors",
    "tool": "declaration",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.call import Output, Result
    from hilt.context import Context
    from hilt.declaration import tool
    from hilt.errors import ToolError
    from hilt.runtime import Runtime


def __getattr__(name: str) -> object:
    """Import a public name from its module on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hilt' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"hilt.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
