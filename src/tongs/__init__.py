"""tongs: the tool runtime for AI agents."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["Context", "Output", "Result", "Runtime", "ToolError", "__version__", "tool"]

# A one-shot call must not pay for names it does not use, so they are imported when first asked for.
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
    from tongs.call import Output, Result
    from tongs.context import Context
    from tongs.declaration import tool
    from tongs.errors import ToolError
    from tongs.runtime import Runtime


def __getattr__(name: str) -> object:
    """Import a public name from its module on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tongs' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"tongs.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
