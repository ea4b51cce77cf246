"""Python tools: the functions under `@tool` of a file, in a warm worker process.

The interpreter is that of hilt in isolated mode: it ignores the workspace, PYTHON* variables and the folder of the
file, so that the trusted file is the only code of a project that runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import hilt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.custom.module_tools import Modules
    from hilt.custom.workers import Recipe

# the workspace may be on the path even in isolated mode: as a project installed beside hilt
_LAUNCH = """
import sys
sys.path.append(sys.argv.pop(1))
from hilt import places
places.forget(".")
from hilt.custom.python_host import main
main()
"""


def recipe(modules: Modules, path: str, data: bytes) -> Recipe:
    """Return how to start the worker of a file."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(hilt.__file__)))
    greeting = {"op": "load", "path": path, "source": data.decode("latin-1")}
    argv = (sys.executable, "-I", "-c", _LAUNCH, package)
    return modules.recipe(path, data, argv, modules.root, modules.environment(), greeting)


def fields(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a definition. A tool that declares no effects may have any, so every call prompts."""
    effects = description["effects"]
    reads = effects == ["read"]
    return {
        "name": description["name"],
        "description": description["description"],
        "parameters": description["schema"],
        "timeout": description["timeout"],
        "line": description["line"],
        "effects": None if effects is None else frozenset(effects),
        "read_only": reads,
        "approval": "always" if effects is None else "never" if reads else "destructive",
    }
