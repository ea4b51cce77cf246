"""Python tools: the functions under `@tool` of a file, in a warm worker process.

The interpreter is that of hilt in isolated mode: it ignores the workspace, PYTHON* variables and the folder of the
file, so that the trusted file is the only code of a project that runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import hilt
from hilt.custom import module_tools
from hilt.custom.definition import Content, Definition, Execute, Loaded, Reader
from hilt.custom.workers import Recipe, Workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.surroundings import Surroundings

# the workspace may be on the path even in isolated mode: as a project installed beside hilt
_LAUNCH = """
import sys
sys.path.append(sys.argv.pop(1))
from hilt import places
places.forget(".")
from hilt.custom.python_host import main
main()
"""


def reader(workers: Workers, surroundings: Surroundings, root: str) -> Reader:
    """Return the reader of Python files; a worker describes their tools."""

    def read(content: Content) -> Loaded:
        return module_tools.read(content, "python", workers, _recipe_maker(surroundings, root), _fields)

    return read


def executor(workers: Workers, surroundings: Surroundings, root: str) -> Callable[[Definition], Execute]:
    """Return the factory of the functions that run definitions, for `to_tool`."""
    return lambda definition: module_tools.execute(definition, workers, _recipe_maker(surroundings, root), root)


def _recipe_maker(surroundings: Surroundings, root: str) -> module_tools.MakeRecipe:
    def make_recipe(path: str, data: bytes) -> Recipe:
        key, place = module_tools.identity(path, data, root)
        package = os.path.dirname(os.path.dirname(os.path.abspath(hilt.__file__)))
        greeting = {"op": "load", "path": path, "source": data.decode("latin-1")}
        argv = (sys.executable, "-I", "-c", _LAUNCH, package)
        return Recipe(
            key, place, path, os.path.basename(path), argv, root, module_tools.environment(surroundings), greeting
        )

    return make_recipe


def _fields(description: Mapping[str, Any]) -> dict[str, Any]:
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
